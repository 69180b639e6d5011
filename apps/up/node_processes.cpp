// Command lines into packets, and packets into ends.
#include "apps/up/node_processes.hpp"

#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/capture/crash_dumper.hpp"
#include "actors/cluster/network.hpp"
#include "apps/talk.hpp"
#include "apps/up/log_tail.hpp"
#include "io/base/counted.hpp"
#include "io/config/drills.hpp"
#include "io/config/load.hpp"

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
                                    const node_start& how, int process) {
  const bool local = job.cluster.launch == config::launch_mode::local;
  auto arguments = node_arguments(job.cluster, node, local ? job.job.output : "",
                                  how.address, how.port, how.record, process);
  if (!job.inject.empty()) arguments.emplace_back(config::drill_flag);
  if (local) {
    std::vector<std::string> out{"/proc/self/exe"};
    out.insert(out.end(), arguments.begin(), arguments.end());
    out.insert(out.end(), {"--parent", std::to_string(how.launcher)});
    return out;
  }
  auto out = words_of(job.cluster.ssh_command);
  auto remote =
      fmt::format("cd {} && exec {}", quoted(how.folder), quoted(job.cluster.remote_binary));
  arguments.insert(arguments.end(), {"--tied-to-input", "--advertise", node.host});
  for (const auto& a : arguments) remote += " " + quoted(a);
  out.push_back(node.host);
  out.push_back(remote);
  return out;
}

}  // namespace

std::string join_command(const config::cluster_section& cluster, const std::string& address,
                         uint16_t port) {
  const auto heads = cluster.heads.empty() ? fmt::format("{}:{}", address, port)
                                           : fmt::format("{}", fmt::join(cluster.heads, ","));
  std::string out = fmt::format("troupe node --join {} --name NAME", heads);
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

std::string waits_for_nodes(const config::job& job, const node_start& how) {
  const auto& c = job.cluster;
  const auto spares = c.spares == 0 ? "" : fmt::format(" ({} apart)", counted(c.spares, "spare"));
  const auto nodes = counted(c.places(), "node") + spares;
  const auto command = join_command(c, how.address, how.port) +
                       (job.inject.empty() ? "" : fmt::format(" {}", config::drill_flag));
  if (how.outlived)
    return fmt::format(
        "waiting for the {} of the head before this one, which come by themselves; "
        "start one that is gone with: {}",
        nodes, command);
  return fmt::format("waiting for {}; start each with: {}", nodes, command);
}

namespace {

/// A number of the launcher's; 0: none.
int number_in(const std::string& text) {
  int n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

bool is_ended(const packet& p) {
  return p.front() == "ended" && p.size() == 5;
}

}  // namespace

/// How many processes each node has had, and which are there by now.
void node_processes::take_over() {
  while (const auto p = line_->receive()) {
    if (is_ended(*p)) running_.erase((*p)[1]);
    if (p->size() != 4 || p->front() != "node") continue;
    if (number_in((*p)[2]) > 0) running_.insert((*p)[1]);
    before_[(*p)[1]] = number_in((*p)[3]);
  }
}

status node_processes::order(const std::string& node, bool new_log) {
  auto& [command_of_process, log, processes, log_bytes] = recipes_.at(node);
  log_bytes = new_log ? 0 : bytes_of_log(log);
  // A node with a certificate needs no key: the line tells it that its input is open (PRC-4).
  packet p{"start", node, log, new_log ? "new" : "same", key_.empty() ? "\n" : key_,
           is_local_ ? "free" : "tied"};
  for (auto& word : command_of_process(++processes)) p.push_back(std::move(word));
  TROUPE_CHECK(line_->send(p));
  running_.insert(node);
  return {};
}

status node_processes::start(const config::job& job, const node_start& how) {
  if (job.cluster.launch == config::launch_mode::external) {
    say(waits_for_nodes(job, how));
    return {};
  }
  if (job.cluster.launch == config::launch_mode::ssh && how.folder.empty())
    return error{errc::not_found, "the working directory is not there any more",
                 "start it in a folder that each host has"};  // NPR-4
  is_local_ = job.cluster.launch == config::launch_mode::local;
  if (is_local_) black_boxes_ = job.job.output;
  key_ = how.key;
  take_over();
  const auto there = how.keeps_running ? running_ : std::set<std::string>{};
  const auto kept = std::make_shared<const config::job>(job);  // of all nodes, once
  for (const auto& node : job.cluster.node) {
    const bool is_first = !before_.contains(node.name);
    recipes_[node.name] = {
        [kept, node, how](int process) { return command_of(*kept, node, how, process); },
        fmt::format("{}/{}.log", job.job.output, node.name), is_first ? 0 : before_[node.name]};
    if (!there.contains(node.name) && !how.evicted.contains(node.name))
      TROUPE_CHECK(order(node.name, is_first));
  }
  return {};
}

status node_processes::restart(const std::string& node) {
  if (!recipes_.contains(node)) return not_started_here(node);
  return order(node, false);
}

/// NPR-3.
std::string node_processes::as_its_log_says(const std::string& node) const {
  const auto found = recipes_.find(node);
  if (found == recipes_.end()) return {};
  const auto words = last_words(found->second.log, found->second.log_bytes);
  return words.empty() ? std::string() : fmt::format(": {}", words);
}

std::vector<ended_child> node_processes::heard() {
  std::vector<ended_child> out;
  line_->flush();
  while (const auto p = line_->receive()) {
    if (p->front() == "failed" && p->size() == 3) {
      running_.erase((*p)[1]);
      out.push_back({(*p)[1], "could not be started: " + (*p)[2], true, -1, 0, {}});
    }
    if (!is_ended(*p)) continue;
    running_.erase((*p)[1]);
    const int pid = number_in((*p)[2]), code = number_in((*p)[3]);
    ended_child ended{(*p)[1], (*p)[4], code != 0, code, is_local_ ? pid : 0, {}};
    if (code > 0) ended.how += as_its_log_says(ended.node);
    if (code < 0 && !black_boxes_.empty())
      ended.black_box = trace::last_box_path(black_boxes_, ended.node, pid).string();
    out.push_back(std::move(ended));
  }
  return out;
}

node_processes::~node_processes() {
  for (const auto& node : running_) static_cast<void>(line_->send({"stop", node}));
}

}  // namespace troupe::apps
