// A device of a simulated pipeline: one operation at a time, at a clock that follows what was asked
// for some time later, or does not.
//
// It keeps no time: who drives it tells it when something happens, and asks what comes next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "actors/power/slack_plan.hpp"

namespace troupe::sim {

class slack_device {
 public:
  explicit slack_device(int mhz) : mhz_(mhz), newest_mhz_(mhz) {}

  int mhz() const noexcept { return mhz_; }
  /// What it has at least: while a clock is being set nobody knows which of both it is.
  int least_mhz() const noexcept { return setting_mhz_ ? std::min(mhz_, *setting_mhz_) : mhz_; }
  /// While it works.
  double watts() const { return row().energy_j / row().time_s; }
  bool works() const noexcept { return rows_ != nullptr; }
  double busy_s() const noexcept { return busy_s_; }
  double energy_j() const noexcept { return energy_j_; }
  uint64_t changes() const noexcept { return changes_; }
  /// Whether what comes_at() said of an operation's end still holds.
  uint64_t version() const noexcept { return version_; }

  /// An operation begins, which takes so many times as long as its rows say.
  void begin(double now_s, const std::vector<power::clock_row>& rows, double times) {
    rows_ = &rows;
    times_ = times;
    left_ = 1;
    since_s_ = now_s;
    ++version_;
  }
  /// When the operation ends, unless the clock changes.
  double ends_s() const { return since_s_ + left_ * lasts_s(); }
  void end(double now_s) {
    account(now_s);
    rows_ = nullptr;
    ++version_;
  }

  /// From now on this clock is wanted. Whether setting begins: set() is due when it has taken its
  /// time.
  bool wish(int mhz) {
    newest_mhz_ = mhz;
    return begin_setting();
  }
  /// From its next operation on it runs at that clock, whatever it is set to and says; 0: no more.
  void lies(int mhz) { lies_mhz_ = mhz; }
  /// It has that clock at once, and what is being set does not come.
  void let_go(double now_s, int mhz) {
    if (works()) account(now_s);
    mhz_ = newest_mhz_ = mhz;
    setting_mhz_.reset();
    ++version_;
  }
  /// What was begun is through. Whether setting begins again: something else is wanted by now.
  bool set(double now_s) {
    if (works()) account(now_s);
    mhz_ = *setting_mhz_;
    setting_mhz_.reset();
    ++changes_;
    ++version_;
    return begin_setting();
  }

 private:
  bool begin_setting() {
    if (setting_mhz_ || newest_mhz_ == mhz_) return false;
    setting_mhz_ = newest_mhz_;
    return true;
  }
  const power::clock_row& row() const {
    return (*rows_)[power::row_not_below(*rows_, lies_mhz_ > 0 ? lies_mhz_ : mhz_)];
  }
  double lasts_s() const { return row().time_s * times_; }
  void account(double now_s) {
    const double s = now_s - since_s_;
    left_ = std::max(0.0, left_ - s / lasts_s());
    busy_s_ += s;
    energy_j_ += s * row().energy_j / row().time_s;
    since_s_ = now_s;
  }

  int mhz_, newest_mhz_;
  std::optional<int> setting_mhz_;
  int lies_mhz_ = 0;
  const std::vector<power::clock_row>* rows_ = nullptr;
  double times_ = 1, left_ = 0, since_s_ = 0;
  double busy_s_ = 0, energy_j_ = 0;
  uint64_t changes_ = 0, version_ = 0;
};

}  // namespace troupe::sim
