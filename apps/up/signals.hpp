// Signals and wake-ups of the launcher's main thread, in one place to wait at.
#pragma once

#include <csignal>
#include <memory>
#include <optional>

#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::apps {

/// Blocks SIGINT, SIGTERM, SIGCHLD and, unless it is ignored (`nohup`), SIGHUP in this thread and
/// every thread it starts later: make it before any other thread. The destructor restores nothing:
/// most often the process is about to end.
class signal_queue {
 public:
  static result<std::unique_ptr<signal_queue>> open();
  /// Of SIGINT alone; what else comes does what it always does.
  static result<std::unique_ptr<signal_queue>> of_interrupts();

  /// Waits until a signal comes (its number), wake() was called (0), or `timeout_ms` has passed
  /// (nothing); sooner where there is something to read at `also`.
  std::optional<int> wait(int timeout_ms, int also = -1);

  /// From any thread.
  void wake() noexcept;

  /// In the thread that opened it: from now on signals do there, and in threads that it starts
  /// later, what they did before. One that came and was not waited for does so at once.
  void give_back() noexcept;

 private:
  /// Blocks them from now on.
  static result<std::unique_ptr<signal_queue>> of(const sigset_t& set);
  signal_queue(io::unique_fd signals, io::unique_fd bell, const sigset_t& before)
      : signals_(std::move(signals)), bell_(std::move(bell)), before_(before) {}
  io::unique_fd signals_;
  io::unique_fd bell_;
  sigset_t before_;  ///< those that were blocked
};

}  // namespace troupe::apps
