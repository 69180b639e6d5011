// The signals that ask a launch to stop, heard in every phase by a thread that does nothing else.
//
// What the main thread does while it starts (read includes, measure the disk, verify a checkpoint)
// may take minutes; it need not look up for a Ctrl-C to be heard.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "apps/up/signals.hpp"
#include "apps/up/stop_policy.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

class stop_signals {
 public:
  /// As signal_queue::open(): before any thread that takes signals, but after the crash dumper was
  /// forked and the outboxes were made, which its own last words go through.
  static result<std::unique_ptr<stop_signals>> open();
  ~stop_signals();
  stop_signals(const stop_signals&) = delete;
  stop_signals& operator=(const stop_signals&) = delete;

  void enter(phase next);

  /// What a signal that ends the process at once calls before that, on the thread that listens,
  /// with its number. It is given a second; null: nothing.
  void at_once(std::function<void(int signal)> last_word);

  /// The signal that asked to stop, or 0.
  int asked() const;

  /// Waits until a signal asks to stop, a child ends, wake() was called, or so long.
  void wait(std::chrono::milliseconds most);

  /// From any thread.
  void wake() noexcept;

 private:
  explicit stop_signals(std::unique_ptr<signal_queue> signals);
  void listen();
  void take(int signal);

  std::unique_ptr<signal_queue> signals_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  stop_policy policy_;
  phase phase_ = phase::starting;
  int asked_ = 0;
  bool rung_ = false;
  bool closing_ = false;
  std::function<void(int)> last_word_;
  std::thread listener_;
};

}  // namespace troupe::apps
