// Ends the process if an orderly end takes too long: a stream may be stuck in a dead peer's
// collective, and CAF has a rare race in the shutdown of detached actors.
#pragma once

#include <unistd.h>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "apps/talk.hpp"
#include "apps/voice.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// From its making to its destruction at most `patience` may pass; then the process ends with
/// `code`, and says `why` where it is an error: nobody else will.
class watchdog {
 public:
  watchdog(std::chrono::milliseconds patience, int code, error why)
      : thread_([this, patience, code, why = std::move(why)] {
          std::unique_lock lock(mutex_);
          if (done_.wait_for(lock, patience, [this] { return over_; })) return;
          if (why.code != errc::none) say(why);
          settle_voice();
          _exit(code);
        }) {}
  ~watchdog() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    done_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace troupe::apps
