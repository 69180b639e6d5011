// A clock that no device has: notes what it is set to, and hangs, refuses or lies when it is told.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gpu/controls/actuator.hpp"

namespace troupe::gpu::controls::made {

class made_clock final : public actuator {
 public:
  status set(int) override { return {}; }
  void end() noexcept override {}
  actuator_facts facts() const override { return {"made", 0, 1, 0, true}; }
  bool sets_clocks() const override { return true; }

  status set_clock(int mhz) override {
    std::unique_lock lock(mutex_);
    asked_.push_back(mhz);
    told_.notify_all();
    told_.wait(lock, [&] { return !hangs_; });
    ++done_;
    told_.notify_all();
    if (refuses_ && mhz != highest_clock_mhz) return error{errc::permission, "nobody may"};
    return {};
  }
  status check_clock() override {
    std::lock_guard lock(mutex_);
    ++checks_;
    told_.notify_all();
    if (lies_) return error{errc::unavailable, "it is higher"};
    return {};
  }
  std::string take_note() override {
    std::lock_guard lock(mutex_);
    return std::exchange(note_, {});
  }

  unsigned given_back_to() const override {
    std::lock_guard lock(mutex_);
    return given_back_to_;
  }

  void note(std::string text) {
    std::lock_guard lock(mutex_);
    note_ = std::move(text);
  }
  void give_back_to(unsigned others) {
    std::lock_guard lock(mutex_);
    given_back_to_ = others;
  }

  void hang(bool on) {
    std::lock_guard lock(mutex_);
    hangs_ = on;
    told_.notify_all();
  }
  void refuse() {
    std::lock_guard lock(mutex_);
    refuses_ = true;
  }
  void lie() {
    std::lock_guard lock(mutex_);
    lies_ = true;
  }
  /// What was asked of it, once that are so many.
  std::vector<int> asked(size_t count) {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [&] { return asked_.size() >= count; });
    return asked_;
  }
  /// The same, once so many are through.
  std::vector<int> done(size_t count) {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [&] { return done_ >= count; });
    return asked_;
  }
  void await_checks(size_t count) {
    std::unique_lock lock(mutex_);
    told_.wait(lock, [&] { return checks_ >= count; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable told_;
  std::vector<int> asked_;
  size_t done_ = 0, checks_ = 0;
  bool hangs_ = false, refuses_ = false, lies_ = false;
  std::string note_;
  unsigned given_back_to_ = 0;
};

}  // namespace troupe::gpu::controls::made
