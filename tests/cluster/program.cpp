// posix_spawn, pidfd and poll; /proc for what is left.
#include "tests/cluster/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/machine/available_memory.hpp"
#include "io/machine/kernel_counters.hpp"

extern char** environ;

namespace troupe::cluster_test {

namespace {

using clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

/// What jobs leave outside of their outputs (secrets, signs, facts of the machine) goes with the
/// process of the tests, not into the folders of whoever runs them.
struct own_surroundings {
  pid_t owner = ::getpid();
  fs::path folder;

  own_surroundings() {
    auto name = (fs::temp_directory_path() / "troupe-surroundings-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return;
    folder = name;
    ::setenv("XDG_RUNTIME_DIR", name.c_str(), 1);
    ::setenv("XDG_CACHE_HOME", name.c_str(), 1);
    ::setenv("TROUPE_CONTROLS", (folder / "controls").c_str(), 1);
  }
  own_surroundings(const own_surroundings&) = delete;
  own_surroundings& operator=(const own_surroundings&) = delete;
  ~own_surroundings() {
    std::error_code ignored;
    if (!folder.empty() && ::getpid() == owner) fs::remove_all(folder, ignored);
  }
};

const own_surroundings surroundings;

int milliseconds_to(clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 600'000));
}

io::unique_fd open_pidfd(pid_t pid) {
  return io::unique_fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

/// Words of a process's command line.
std::vector<std::string> command_line(const std::string& pid) {
  std::ifstream in("/proc/" + pid + "/cmdline", std::ios::binary);
  std::vector<std::string> out;
  for (std::string word; std::getline(in, word, '\0');) out.push_back(word);
  return out;
}

bool has_pair(const std::vector<std::string>& words, const std::string& flag,
              const std::string& value) {
  for (size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == flag && words[i + 1] == value) return true;
  return false;
}

/// Every listening TCP socket of the machine.
std::vector<listening_socket> listeners() {
  std::vector<listening_socket> out;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::istringstream fields(line);
      std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
          timeout >> inode;
      if (state != "0A") continue;
      const auto port = std::stoul(local.substr(local.rfind(':') + 1), nullptr, 16);
      out.push_back({static_cast<uint16_t>(port), inode});
    }
  }
  return out;
}

/// The environment with the sanitizers told to write their reports to files at `path`, because
/// nobody looks at what a node says.
std::vector<std::string> environment(const std::string& path) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) out.emplace_back(*entry);
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"}) {
    const auto start = fmt::format("{}=", name);
    auto at = std::find_if(out.begin(), out.end(), [&](auto& e) { return e.starts_with(start); });
    if (at == out.end()) at = out.insert(out.end(), start);
    *at += fmt::format("{}log_path={}", *at == start ? "" : ":", path);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

program::program(const std::vector<std::string>& arguments, size_t file_limit, const streams& to,
                 int descriptors, const std::string& before) {
  int out[2], err[2];
  REQUIRE(pipe2(out, O_CLOEXEC) == 0);
  REQUIRE(pipe2(err, O_CLOEXEC) == 0);
  out_pipe_ = io::unique_fd(out[0]);
  err_pipe_ = io::unique_fd(err[0]);
  io::unique_fd out_end(out[1]), err_end(err[1]);
  for (int fd : {out[0], err[0]}) REQUIRE(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  // Room for what a test that gets no processor for some seconds has not read: what a program does
  // not get rid of within a second of its end it leaves out. As far as this user may have it.
  constexpr int pipe_bytes = 1 << 20;
  for (int fd : {out[0], err[0]}) static_cast<void>(fcntl(fd, F_SETPIPE_SZ, pipe_bytes));
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  const bool own_terminal = !to.terminal.empty();
  const auto input = own_terminal ? to.terminal : "/dev/null";
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, input.c_str(),
                                   own_terminal ? O_RDWR : O_RDONLY, 0);
  const int otherwise[] = {own_terminal ? STDIN_FILENO : out[1],
                           own_terminal ? STDIN_FILENO : err[1]};
  posix_spawn_file_actions_adddup2(&files, to.out >= 0 ? to.out : otherwise[0], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, to.err >= 0 ? to.err : otherwise[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);  // the first terminal that a session's leader opens is its own
  posix_spawnattr_setflags(&attributes, static_cast<short>(own_terminal ? POSIX_SPAWN_SETSID : 0));
  std::vector<std::string> words{TROUPE_PROGRAM};
  if (file_limit >
      0)  // a full disk without a disk: writes fail with EFBIG where they would with ENOSPC
    words = {"/bin/sh", "-c",
             fmt::format("trap '' XFSZ; ulimit -f {}; exec \"$0\" \"$@\"", file_limit / 512),
             TROUPE_PROGRAM};
  if (descriptors > 0)
    words = {"/bin/sh", "-c", fmt::format("ulimit -n {}; exec \"$0\" \"$@\"", descriptors),
             TROUPE_PROGRAM};
  if (!before.empty()) words = {"/bin/sh", "-c", before + " && exec \"$0\" \"$@\"", TROUPE_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  static int programs = 0;
  reports_ = (fs::temp_directory_path() / fmt::format("troupe-report-{}-{}", getpid(), ++programs))
                 .string();
  auto variables = environment(reports_);
  const int failed = posix_spawn(&pid_, words[0].c_str(), &files, &attributes,
                                 pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  REQUIRE(failed == 0);
  end_ = open_pidfd(pid_);
  REQUIRE(end_);
}

program::~program() {
  if (!code_ && pid_ >= 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  check_reports();
}

void program::check_reports() {
  const fs::path path(reports_);
  for (const auto& file : fs::directory_iterator(path.parent_path())) {
    if (!file.path().filename().string().starts_with(path.filename().string() + ".")) continue;
    std::ifstream in(file.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    fs::remove(file.path());
    FAIL_CHECK("a sanitizer reports:\n", text);
  }
}

void program::signal(int number) const {
  REQUIRE(!code_);
  const watched head(head_of(pid_));
  REQUIRE(kill(pid_, number) == 0);
  if (number == SIGKILL) REQUIRE(head.gone());
  if (number == SIGSTOP || number == SIGCONT) head.signal(number);  // it may have ended by itself
}

void program::read_some(io::unique_fd& from, std::string& into) {
  char bytes[65536];
  while (from) {
    const auto n = read(from.get(), bytes, sizeof(bytes));
    if (n > 0) {
      into.append(bytes, static_cast<size_t>(n));
    } else {
      if (n == 0) from = io::unique_fd();
      return;
    }
  }
}

bool program::pump(clock::time_point deadline, int other) {
  if (code_) return false;
  pollfd fds[4] = {{end_.get(), POLLIN, 0},
                   {out_pipe_ ? out_pipe_.get() : -1, POLLIN, 0},
                   {err_pipe_ ? err_pipe_.get() : -1, POLLIN, 0},
                   {other, POLLIN, 0}};
  poll(fds, 4, milliseconds_to(deadline));
  const bool ended = (fds[0].revents & POLLIN) != 0;
  listen();
  if (!ended) return true;
  int how = 0;
  REQUIRE(waitpid(pid_, &how, 0) == pid_);
  code_ = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
  return false;
}

int program::wait() {
  const auto deadline = clock::now() + patience;
  while (pump(deadline))
    if (clock::now() >= deadline) {
      FAIL("the program did not end; it said:\n", err_);
      return -1;
    }
  return *code_;
}

void program::listen() {
  read_some(out_pipe_, out_);
  read_some(err_pipe_, err_);
}

bool program::until(const std::function<bool()>& there, int other) {
  const auto deadline = clock::now() + patience;
  while (!there()) {
    if (!pump(deadline, other)) return there();
    if (clock::now() >= deadline) return false;
  }
  return true;
}

bool program::until_error_has(const std::string& text) {
  return until([&] { return err_.find(text) != std::string::npos; });
}

bool program::until_step(int64_t n) {
  constexpr std::string_view key = R"("type":"step","step":)";
  return until([&] {
    for (auto at = out_.find(key); at != std::string::npos; at = out_.find(key, at + 1))
      if (std::atoll(out_.c_str() + at + key.size()) >= n &&
          out_.find(',', at) != std::string::npos)
        return true;
    return false;
  });
}

std::vector<nlohmann::json> program::objects(const std::string& type) const {
  std::vector<nlohmann::json> out;
  std::istringstream in(out_);
  for (std::string line; std::getline(in, line);) {
    auto j = nlohmann::json::parse(line, nullptr, false);
    if (j.is_object() && j.value("type", "") == type) out.push_back(std::move(j));
  }
  return out;
}

std::vector<double> program::losses() const {
  std::vector<double> out;
  for (const auto& step : objects("step")) out.push_back(step["loss"].get<double>());
  return out;
}

uint16_t program::port() const {
  auto at = err_.rfind("coordinator of ");
  if (at == std::string::npos || err_.find('\n', at) == std::string::npos) return 0;
  at = err_.rfind(':', err_.find('\n', at));
  return static_cast<uint16_t>(std::stoi(err_.substr(at + 1)));
}

finished run(const std::vector<std::string>& arguments) {
  program p(arguments);
  const int code = p.wait();
  return {code, p.out(), p.err()};
}

namespace {

/// Processes whose command line is so.
std::vector<pid_t> processes_with(const std::function<bool(const std::vector<std::string>&)>& so) {
  std::vector<pid_t> out;
  for (const auto& item : fs::directory_iterator("/proc")) {
    const auto name = item.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (so(command_line(name))) out.push_back(std::stoi(name));
  }
  return out;
}

/// Of processes with the same command line the one that none of them began, or -1: what it begins
/// has that line, too, until it has one of its own.
pid_t first_of(const std::vector<pid_t>& same) {
  for (pid_t pid : same) {
    const auto stat = io::kernel_text(fmt::format("/proc/{}/stat", pid));
    const auto ticks = io::parse_process_ticks(stat);
    const auto is_parent = [&](pid_t other) {
      return ticks && ticks->parent == static_cast<uint64_t>(other);
    };
    if (std::none_of(same.begin(), same.end(), is_parent)) return pid;
  }
  return -1;
}

}  // namespace

std::vector<pid_t> nodes_of(uint16_t port) {
  return processes_with([&](const auto& words) {
    return has_pair(words, "--join", fmt::format("127.0.0.1:{}", port));
  });
}

bool hears_signals(pid_t pid) {
  std::error_code code;
  for (const auto& fd : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), code))
    if (fs::read_symlink(fd.path(), code).string().find("signalfd") != std::string::npos)
      return true;
  return false;
}

pid_t head_of(pid_t launcher) {
  return first_of(processes_with([number = std::to_string(launcher)](const auto& words) {
    return has_pair(words, "--launcher", number);
  }));
}

std::vector<pid_t> nodes_started_by(pid_t head) {
  return processes_with([parent = std::to_string(head)](const auto& words) {
    return has_pair(words, "--parent", parent);
  });
}

pid_t crash_dumper_of(pid_t pid) {
  const auto found =
      processes_with([title = fmt::format("crash-dumper {}", pid)](const auto& words) {
        return !words.empty() && words[0] == title;
      });
  return found.empty() ? -1 : found[0];
}

pid_t node_named(uint16_t port, const std::string& name) {
  auto named = nodes_of(port);
  std::erase_if(named, [&](pid_t pid) {
    return !has_pair(command_line(std::to_string(pid)), "--name", name);
  });
  return first_of(named);
}

std::vector<listening_socket> listening_sockets(pid_t pid) {
  std::set<std::string> own;
  std::error_code code;
  for (const auto& fd : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), code)) {
    const auto target = fs::read_symlink(fd.path(), code).string();
    if (target.starts_with("socket:[")) own.insert(target.substr(8, target.size() - 9));
  }
  auto out = listeners();
  std::erase_if(out, [&](const auto& l) { return !own.contains(l.inode); });
  return out;
}

std::vector<uint16_t> listening_ports(pid_t pid) {
  std::vector<uint16_t> out;
  for (const auto& l : listening_sockets(pid)) out.push_back(l.port);
  return out;
}

bool is_listening(uint16_t port) {
  const auto all = listeners();
  return std::any_of(all.begin(), all.end(), [&](const auto& l) { return l.port == port; });
}

bool eventually(const std::function<bool()>& there) {
  const auto deadline = clock::now() + patience;
  while (!there()) {
    if (clock::now() >= deadline) return false;
    poll(nullptr, 0, 10);
  }
  return true;
}

watched::watched(pid_t pid) : pid_(pid), fd_(open_pidfd(pid)) {}

void watched::signal(int number) const {
  if (fd_) static_cast<void>(syscall(SYS_pidfd_send_signal, fd_.get(), number, nullptr, 0));
}

bool watched::gone() const {
  if (!fd_) return true;
  pollfd p{fd_.get(), POLLIN, 0};
  return poll(&p, 1, milliseconds_to(clock::now() + patience)) == 1;
}

namespace {

/// What a node begins has its command line until it has one of its own: for that it is waited.
std::vector<pid_t> settled_nodes_of(uint16_t port) {
  std::vector<pid_t> pids;
  static_cast<void>(eventually([&] {
    pids = nodes_of(port);
    std::set<std::string> names;
    return std::ranges::all_of(pids, [&](pid_t pid) {
      const auto words = command_line(std::to_string(pid));
      const auto name = std::ranges::find(words, "--name");
      return name != words.end() && name + 1 != words.end() && names.insert(name[1]).second;
    });
  }));
  return pids;
}

}  // namespace

traces::traces(const program& up) {
  REQUIRE(up.port() != 0);
  auto pids = settled_nodes_of(up.port());
  pids.push_back(up.pid());
  pids.push_back(head_of(up.pid()));
  REQUIRE(pids.back() > 0);
  for (pid_t pid : pids) {
    processes.emplace_back(pid);
    lines += fmt::format("{}: {}\n", pid, fmt::join(command_line(std::to_string(pid)), " "));
    if (const auto crash_dumper = crash_dumper_of(pid); crash_dumper > 0)
      dumpers.emplace_back(crash_dumper);
    for (auto& socket : listening_sockets(pid)) ports.push_back(std::move(socket));
  }
}

bool traces::gone() const {
  for (const auto* all : {&processes, &dumpers})
    for (const auto& p : *all)
      if (!p.gone()) return false;
  const auto now = listeners();
  return std::none_of(ports.begin(), ports.end(), [&](const auto& socket) {
    return std::find(now.begin(), now.end(), socket) != now.end();
  });
}

}  // namespace troupe::cluster_test
