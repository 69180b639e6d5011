// The child's process, and its parent's goodbye; see survivor.hpp.
#include "io/survivor.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

namespace troupe::io {

namespace {

constexpr char orderly = 'o';

/// What `ps` shows of us: not the words of our parent, for which we would be taken.
void rename_process(const std::string& title) {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string words{std::istreambuf_iterator<char>(in), {}};
  char* at = program_invocation_name;  // argv[0]; the others lie behind it
  if (words.empty() || std::strcmp(at, words.c_str()) != 0) return;
  std::memset(at, 0, words.size());
  std::memcpy(at, title.data(), std::min(title.size(), words.size() - 1));
}

/// The child: never returns.
[[noreturn]] void outlive(int goodbye, pid_t parent, const std::string& name,
                          const std::function<void(pid_t)>& work) {
  dup2(goodbye, 3);  // first: where standard descriptors were closed it has the number of one
  setsid();          // SRV-2
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) signal(s, SIG_IGN);
  prctl(PR_SET_NAME, fmt::format("troupe-{}", name).c_str());
  rename_process(fmt::format("{} {}", name, parent));
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < 3; ++fd) dup2(nothing, fd);
  if (chdir("/") != 0) _exit(1);  // SRV-3
  close_range(4, ~0u, 0);  // whoever waits for the end of the parent's files is not kept waiting
  char word = 0;
  ssize_t n = 0;
  do n = read(3, &word, 1);
  while (n < 0 && errno == EINTR);
  if (n != 1 || word != orderly) work(parent);
  _exit(0);
}

}  // namespace

result<survivor> survivor::start(const std::string& name, const std::function<void(pid_t)>& work) {
  int ends[2];
  // Sockets, so that a goodbye to a child that was killed is an error and no SIGPIPE.
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return error::system("make a pair of sockets for the " + name, errno);
  unique_fd reading(ends[0]), writing(ends[1]);
  const auto parent = getpid();
  const auto child = fork();
  if (child < 0) return error::system("make the process of the " + name, errno);
  if (child == 0) {
    writing.reset();
    outlive(reading.get(), parent, name, work);
  }
  return survivor(std::move(writing), child);
}

survivor::survivor(survivor&& other) noexcept
    : goodbye_(std::move(other.goodbye_)), child_(std::exchange(other.child_, -1)) {}

survivor::~survivor() {
  if (child_ < 0) return;
  while (send(goodbye_.get(), &orderly, 1, MSG_NOSIGNAL) < 0 && errno == EINTR) continue;
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) continue;
}

}  // namespace troupe::io
