// Every thread is traced from system call to system call. See held.hpp.
#include "tests/cluster/held.hpp"

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

namespace troupe::cluster_test {

namespace {

constexpr int at_system_call = SIGTRAP | 0x80;  // PTRACE_O_TRACESYSGOOD

/// A path of another process, cut where its memory ends.
std::string path_at(pid_t process, uint64_t address) {
  char bytes[256];  // less than a page, and each piece ends with one
  std::string out;
  while (out.size() < 4096) {
    const size_t count = sizeof(bytes) - address % sizeof(bytes);
    const iovec here{bytes, count};
    const iovec there{reinterpret_cast<void*>(address), count};
    if (process_vm_readv(process, &here, 1, &there, 1, 0) != static_cast<ssize_t>(count)) break;
    const size_t length = strnlen(bytes, count);
    out.append(bytes, length);
    if (length < count) break;
    address += count;
  }
  return out;
}

/// Whether a thread that stopped at a system call is about to open such a file.
bool is_opening(pid_t thread, std::string_view part) {
  __ptrace_syscall_info call{};
  if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(call), &call) <= 0) return false;
  return call.op == PTRACE_SYSCALL_INFO_ENTRY && call.entry.nr == SYS_openat &&
         path_at(thread, call.entry.args[1]).find(part) != std::string::npos;
}

/// The signal that a stop is about; 0 where it is about something else.
int signal_of(int how) {
  return how >> 16 == 0 && WSTOPSIG(how) != at_system_call ? WSTOPSIG(how) : 0;
}

/// Lets a thread go that is stopped, or stops for it.
void let_go(pid_t thread) {
  if (ptrace(PTRACE_DETACH, thread, nullptr, nullptr) == 0) return;
  int how = 0;
  if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0 ||
      waitpid(thread, &how, __WALL) != thread || !WIFSTOPPED(how))
    return;  // it is gone
  ptrace(PTRACE_DETACH, thread, nullptr, static_cast<intptr_t>(signal_of(how)));
}

/// Who is there, stopped, and who else is traced; nobody is there where the process ended before.
struct found_threads {
  pid_t there = -1;
  std::set<pid_t> others = {};
};

/// Kills a process that is not done in time: who waits for it is then told of its end.
class time_limit {
 public:
  time_limit(pid_t process, std::chrono::milliseconds limit)
      : watch_([this, process, limit](const std::stop_token& done) {
          std::unique_lock lock(mutex_);
          const auto never = [] { return false; };
          if (!over_.wait_for(lock, done, limit, never) && !done.stop_requested())
            kill(process, SIGKILL);
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any over_;
  std::jthread watch_;  // last: it is ended before what it waits with
};

found_threads run_until_opening(pid_t process, std::string_view part) {
  std::set<pid_t> threads{process};
  for (;;) {
    siginfo_t next{};
    if (waitid(P_ALL, 0, &next, WSTOPPED | WEXITED | WNOWAIT | __WALL) != 0) return {};
    const pid_t thread = next.si_pid;
    const bool has_ended = next.si_code != CLD_TRAPPED && next.si_code != CLD_STOPPED;
    if (has_ended && thread == process) return {};  // which program::wait() is told as well
    int how = 0;
    REQUIRE(waitpid(thread, &how, __WALL) == thread);
    if (has_ended) {
      threads.erase(thread);
      continue;
    }
    threads.insert(thread);
    unsigned long born = 0;  // its own first stop may not be told of yet
    if (how >> 8 == (SIGTRAP | PTRACE_EVENT_CLONE << 8) &&
        ptrace(PTRACE_GETEVENTMSG, thread, nullptr, &born) == 0)
      threads.insert(static_cast<pid_t>(born));
    if (WSTOPSIG(how) == at_system_call && is_opening(thread, part)) {
      threads.erase(thread);
      return {thread, std::move(threads)};
    }
    ptrace(PTRACE_SYSCALL, thread, nullptr, static_cast<intptr_t>(signal_of(how)));
  }
}

}  // namespace

std::optional<bool> interrupt_at_open(const program& p, std::string_view part,
                                      std::chrono::milliseconds limit) {
  constexpr intptr_t how = PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
  if (ptrace(PTRACE_SEIZE, p.pid(), nullptr, how) != 0) {
    if (errno == EPERM) return std::nullopt;
    return false;
  }
  ptrace(PTRACE_INTERRUPT, p.pid(), nullptr, nullptr);
  const auto found = [&] {
    const time_limit net(p.pid(), limit);
    return run_until_opening(p.pid(), part);
  }();
  if (found.there < 0) return false;
  for (const pid_t thread : found.others) let_go(thread);  // before: a stop for it would swallow it
  REQUIRE(kill(p.pid(), SIGINT) == 0);
  let_go(found.there);
  return true;
}

}  // namespace troupe::cluster_test
