// A process of which a test makes a slow one: it gets a share of its time, an eighth or less.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include <doctest/doctest.h>

#include "io/file.hpp"

namespace troupe::cluster_test {

/// Stops a process in turns that are short beside a step, as long as this lives; between them it
/// has 2 ms. By its pidfd: the process may end meanwhile.
class slowed_process {
 public:
  explicit slowed_process(pid_t pid,
                          std::chrono::milliseconds stopped = std::chrono::milliseconds(14))
      : stopped_(stopped),
        fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
        turns_([this] { take_turns(); }) {
    CHECK(fd_);
  }
  ~slowed_process() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    turns_.join();
  }

 private:
  bool send(int signal) const {
    return syscall(SYS_pidfd_send_signal, fd_.get(), signal, nullptr, 0) == 0;
  }
  /// Whether it is over by then.
  bool over_after(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [this] { return over_; });
  }
  void take_turns() {
    bool over = false;
    while (!over && send(SIGSTOP)) {
      over = over_after(stopped_);
      send(SIGCONT);
      over = over || over_after(std::chrono::milliseconds(2));
    }
  }

  std::chrono::milliseconds stopped_;
  io::unique_fd fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread turns_;
};

}  // namespace troupe::cluster_test
