// posix_spawn, logs and reaping.
#include "apps/up/node_processes.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <span>
#include <thread>

#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "actors/capture/crash_dumper.hpp"
#include "actors/cluster/network.hpp"
#include "apps/talk.hpp"
#include "apps/up/child_end.hpp"
#include "io/config/load.hpp"
#include "io/file.hpp"

extern char** environ;

namespace troupe::apps {

namespace {

/// The arguments of `troupe node`, without the program.
std::vector<std::string> node_arguments(const config::cluster_section& cluster,
                                        const config::node_spec& node, const std::string& output,
                                        const std::string& address, uint16_t port,
                                        const std::string& record, int process) {
  const auto net = cluster::network_of(cluster, node.name);
  std::vector<std::string> out{"node",
                               "--join",
                               fmt::format("{}:{}", address, port),
                               "--name",
                               node.name,
                               "--heartbeat-ms",
                               std::to_string(cluster.heartbeat_interval_ms),
                               "--dead-after-ms",
                               std::to_string(cluster.dead_after_ms)};
  if (!output.empty()) {
    out.push_back("--black-box-dir");
    out.push_back(output);
  }
  if (!record.empty()) out.insert(out.end(), {"--record-actor", record});
  if (!record.empty() && process > 1) out.insert(out.end(), {"--process", std::to_string(process)});
  if (!net.by_certificate()) out.insert(out.end(), {"--key", "-"});  // PRC-3
  if (net.by_certificate())
    for (const auto& [flag, file] :
         {std::pair{"--ca", net.ca}, {"--certificate", net.certificate}, {"--key", net.key}})
      out.insert(out.end(), {flag, file});
  return out;
}

/// One argument for a remote shell.
std::string quoted(const std::string& word) {
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  std::string word;
  for (char c : text + " ") {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      out.push_back(std::exchange(word, {}));
    }
  }
  return out;
}

std::vector<std::string> command_of(const config::job& job, const config::node_spec& node,
                                    const std::string& address, uint16_t port,
                                    const std::string& record, int process) {
  const bool local = job.cluster.launch == config::launch_mode::local;
  auto arguments = node_arguments(job.cluster, node, local ? job.job.output : "", address, port,
                                  record, process);
  if (job.cluster.launch == config::launch_mode::local) {
    std::vector<std::string> out{"/proc/self/exe"};
    out.insert(out.end(), arguments.begin(), arguments.end());
    out.insert(out.end(), {"--parent", std::to_string(getpid())});
    return out;
  }
  auto out = words_of(job.cluster.ssh_command);
  std::string remote = quoted(job.cluster.remote_binary);
  arguments.insert(arguments.end(), {"--tied-to-input", "--advertise", node.host});
  for (const auto& a : arguments) remote += " " + quoted(a);
  out.push_back(node.host);
  out.push_back(remote);
  return out;
}

}  // namespace

std::string join_command(const config::cluster_section& cluster, const std::string& address,
                         uint16_t port) {
  std::string out = fmt::format("troupe node --join {}:{} --name NAME", address, port);
  const config::cluster_section usual;
  if (cluster.heartbeat_interval_ms != usual.heartbeat_interval_ms)
    out += fmt::format(" --heartbeat-ms {}", cluster.heartbeat_interval_ms);
  if (cluster.dead_after_ms != usual.dead_after_ms)
    out += fmt::format(" --dead-after-ms {}", cluster.dead_after_ms);
  if (cluster.tls.enabled()) return out + " --ca CA.pem --certificate NODE.pem --key NODE.key";
  if (!config::is_loopback(address))
    out += " --key KEY (made by: troupe key --role node --out KEY)";
  return out;
}

namespace {

/// What a child reads from its standard input.
struct child_input {
  io::unique_fd reading, writing;
};

/// A pipe with the text in it, which is far below what a pipe takes at once.
result<child_input> input_of(const std::string& text) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return error::system("make a pipe", errno);
  child_input out{io::unique_fd(ends[0]), io::unique_fd(ends[1])};
  TROUPE_CHECK(io::write_all(out.writing.get(), std::as_bytes(std::span(text)), "a node's key"));
  return out;
}

}  // namespace

status node_processes::spawn(const std::string& node, int log_flags) {
  auto& [command_of_process, log, processes] = recipes_.at(node);
  const auto command = command_of_process(++processes);
  // A node with a certificate needs no key: the line tells it that its input is open (PRC-4).
  TROUPE_TRY(input, input_of(key_.empty() ? "\n" : key_));
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, input.reading.get(), STDIN_FILENO);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | log_flags, 0644);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);  // PRC-2
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> argv;
  for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0)
    return error::system(fmt::format("start node {} ({})", node, command[0]), failed);
  children_.push_back({node, pid});
  if (!is_local_) children_.back().tie = std::move(input.writing);  // PRC-4
  return {};
}

status node_processes::start(const config::job& job, const std::string& address, uint16_t port,
                             const std::string& key, const std::string& record) {
  if (job.cluster.launch == config::launch_mode::external) {
    say(fmt::format("waiting for {} nodes{}; start each with: {}", job.cluster.places(),
                    job.cluster.spares == 0 ? ""
                                            : fmt::format(" ({} spares apart)", job.cluster.spares),
                    join_command(job.cluster, address, port)));
    return {};
  }
  is_local_ = job.cluster.launch == config::launch_mode::local;
  if (is_local_) black_boxes_ = job.job.output;
  key_ = key;
  const auto kept = std::make_shared<const config::job>(job);  // of all nodes, once
  for (const auto& node : job.cluster.node) {
    recipes_[node.name] = {[kept, node, address, port, record](int process) {
                             return command_of(*kept, node, address, port, record, process);
                           },
                           fmt::format("{}/{}.log", job.job.output, node.name)};
    TROUPE_CHECK(spawn(node.name, O_TRUNC));
  }
  return {};
}

status node_processes::restart(const std::string& node) {
  constexpr int looks = 100;
  if (!recipes_.contains(node)) return not_started_here(node);
  for (auto& c : children_)
    if (c.node == node && !std::exchange(c.replaced, true)) kill(c.pid, SIGKILL);
  const auto ended = [&](const child& c) {  // PRC-4
    return c.node == node && waitpid(c.pid, nullptr, WNOHANG) == c.pid;
  };
  const auto there = [&] {
    std::erase_if(children_, ended);
    return std::any_of(children_.begin(), children_.end(),
                       [&](const child& c) { return c.node == node; });
  };
  for (int look = 0; there(); ++look) {
    if (look == looks) return process_stays(node);
    std::this_thread::sleep_for(defaults::child_look);
  }
  return spawn(node, O_APPEND);
}

std::vector<ended_child> node_processes::reap() {
  std::vector<ended_child> out;
  const auto now = oom_count::clock::now();
  oom_.look(now);
  std::erase_if(children_, [&](const child& c) {
    int how = 0;
    if (waitpid(c.pid, &how, WNOHANG) != c.pid) return false;
    if (c.replaced) return true;
    const bool killed = WIFSIGNALED(how);
    const int number = killed ? WTERMSIG(how) : WEXITSTATUS(how);
    ended_child ended{
        c.node,
        child_end_text(how, oom_.look(now)),
        killed || number != 0,
        killed ? -1 : number,
        is_local_ ? c.pid : 0,
        {}};
    if (killed && !black_boxes_.empty())
      ended.black_box = trace::last_box_path(black_boxes_, c.node, c.pid).string();
    out.push_back(std::move(ended));
    return true;
  });
  return out;
}

void node_processes::signal_all(int signal) const {
  for (const auto& c : children_) kill(c.pid, signal);
}

node_processes::~node_processes() {
  signal_all(SIGKILL);
  for (const auto& c : children_) waitpid(c.pid, nullptr, 0);
}

}  // namespace troupe::apps
