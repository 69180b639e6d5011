// getrusage, /proc and posix_spawn.
#include "apps/bench/checkpoint_process.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::apps::ckpt_bench {

namespace {

constexpr size_t most_output = 16 << 20;

/// "VmHWM:   1234 kB" of a file of /proc, in bytes.
uint64_t proc_bytes(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key + ":"))
      return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) << 10;
  return 0;
}

}  // namespace

double processor_s() {
  rusage r{};
  ::getrusage(RUSAGE_SELF, &r);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(r.ru_utime) + seconds(r.ru_stime);
}

uint64_t resident_bytes() {
  return proc_bytes("/proc/self/status", "VmRSS");
}

bool forget_peak() {
  std::ofstream out("/proc/self/clear_refs");
  out << "5" << std::flush;
  return out.good();
}

uint64_t peak_bytes() {
  return proc_bytes("/proc/self/status", "VmHWM");
}

uint64_t available_bytes() {
  return proc_bytes("/proc/meminfo", "MemAvailable");
}

result<std::unique_ptr<child_process>> child_process::start(
    const std::vector<std::string>& command) {
  int to[2], from[2];
  // A socket, so that a program that has ended is an error and no SIGPIPE.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to) != 0)
    return error::system("make a socket", errno);
  io::unique_fd to_read(to[0]), to_write(to[1]);
  if (::pipe2(from, O_CLOEXEC) != 0) return error::system("make a pipe", errno);
  io::unique_fd from_read(from[0]), from_write(from[1]);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, to_read.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, from_write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);  // our interrupt is not its own: we end it
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> argv;
  for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) return error::system("start " + command[0], failed);
  return std::unique_ptr<child_process>(
      new child_process(pid, std::move(to_write), std::move(from_read)));
}

child_process::~child_process() {
  in_.reset();
  ::kill(-pid_, SIGKILL);  // its group: start() made one
  ::waitpid(pid_, nullptr, 0);
}

status child_process::say(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    const auto n = ::send(in_.get(), text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error::system("speak with another program", errno);
    at += static_cast<size_t>(n);
  }
  return {};
}

std::optional<std::string> child_process::hear(double timeout_s) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  for (;;) {
    if (const auto end = heard_.find('\n'); end != heard_.npos) {
      auto line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return line;
    }
    const auto left =
        std::chrono::duration<double, std::milli>(until - std::chrono::steady_clock::now());
    pollfd fd{out_.get(), POLLIN, 0};
    if (left.count() <= 0 || heard_.size() > most_output) return std::nullopt;
    if (::poll(&fd, 1, static_cast<int>(std::min(left.count(), 1e9)) + 1) < 0 && errno != EINTR)
      return std::nullopt;
    char buffer[4096];
    if (fd.revents == 0) continue;
    const auto n = ::read(out_.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    ended_ = n <= 0;
    if (ended_) return std::nullopt;
    heard_.append(buffer, static_cast<size_t>(n));
  }
}

std::string child_process::read_all() {
  in_.reset();
  char buffer[65536];
  while (heard_.size() <= most_output) {
    const auto n = ::read(out_.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    heard_.append(buffer, static_cast<size_t>(n));
  }
  return std::move(heard_);
}

}  // namespace troupe::apps::ckpt_bench
