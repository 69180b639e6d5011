// A person who interrupts long work: told to what works, which ends in order.
#pragma once

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>

#include "apps/up/signals.hpp"

namespace troupe::apps {

/// Made before any other thread (signal_queue).
class interrupt_watch {
 public:
  static result<std::unique_ptr<interrupt_watch>> start() {
    TROUPE_TRY(signals, signal_queue::open());
    return std::unique_ptr<interrupt_watch>(new interrupt_watch(std::move(signals)));
  }

  /// Whether SIGINT, SIGTERM or SIGHUP has come. It lives as long as this.
  const std::atomic<bool>& asked() const noexcept { return asked_; }
  /// Which of them came first; 0: none has.
  int signal() const noexcept { return signal_; }

  /// Ends the watch, in the thread that started it: from now on a signal ends the process at once.
  /// Whether one has come before that.
  bool give_back() {
    thread_.request_stop();
    thread_.join();
    while (const auto event = signals_->wait(0)) note(*event);
    signals_->give_back();
    return asked_;
  }

 private:
  explicit interrupt_watch(std::unique_ptr<signal_queue> signals)
      : signals_(std::move(signals)), thread_([this](const std::stop_token& over) {
          const std::stop_callback bell(over, [this] { signals_->wake(); });
          while (!over.stop_requested())
            if (const auto event = signals_->wait(-1)) note(*event);
        }) {}

  void note(int event) {
    if (event != SIGINT && event != SIGTERM && event != SIGHUP) return;
    int none = 0;
    signal_.compare_exchange_strong(none, event);
    asked_ = true;
  }

  std::unique_ptr<signal_queue> signals_;
  std::atomic<bool> asked_{false};
  std::atomic<int> signal_{0};
  std::jthread thread_;
};

}  // namespace troupe::apps
