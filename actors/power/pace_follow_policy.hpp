// Whether a machine draws as much less as its pace falls.
//
// A job whose pace has changed tells what steps before say of the new one, until its meters have
// said: one that does as it is told is over its cap for no moment. A device that takes its pace and
// does not slow must not be excused so again with each pace. So what a pace promises is believed as
// far as the fall before came true, and that is looked at by time: by the meter's own intervals,
// whatever paces they had, so that paces that change with each step put nothing off.
//
// Pure: it is told what was measured, changes and readings.
//
// Invariants
//   PFL-1  Of a fall that a pace promises as much is believed as was measured of the last one, from
//     when that was looked at for as long as was asked for. A fall that nearly came true, or fell
//     short by no more than steps differ, is believed.
//   PFL-2  Changes of pace end nothing: what was measured under one promise is held beside what was
//     under the next. An interval of the meter in which the pace changed says nothing.
//   PFL-3  A rise promises what it says, but what is held against a fall was measured: who rose by
//     a promise alone has not followed when that is taken back.
//   PFL-4  Who draws far more than it did at the pace that it has, within the last time that is as
//     long, is not believed either: with the next fall it has to show that it follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace troupe::power {

class pace_follow_policy {
 public:
  /// Where what is asked for has more, it is looked at for as long as these. PFL-4
  static constexpr size_t most_intervals = 256;

  /// It draws so much at the pace in force: from there it is to fall. A fall that is looked at goes
  /// on being.
  void measured(double watts);
  /// From now on it is to have `ratio` of the pace before; `idle_w` of it has no pace.
  void changes(double idle_w, double ratio, int64_t now_ns);
  /// What it has drawn says nothing of a pace now. What is believed stays.
  void clear();
  /// A meter's joules since some moment, while it works.
  void look(double used_j, int64_t read_ns);
  /// Whether what was promised came true, once it was looked at for so long.
  void judge(double long_s);
  /// What it has drawn within the last time that is as long, where it is not believed.
  std::optional<double> doubted_w() const { return doubted_w_; }
  /// What it draws at the pace in force, as far as that is believed; none: nothing was measured.
  std::optional<double> believed_w() const;
  /// The same of one that drew `from_w` before.
  double believed_w(double from_w, double promised_w) const;

 private:
  struct seen {
    double used_j = 0;
    int64_t read_ns = 0;
  };
  /// Of the intervals that were looked at.
  struct sums {
    double s = 0, drawn_j = 0, promised_j = 0, unfallen_j = 0;
    int64_t until_ns = 0;
    void add(const sums& one);
  };
  bool is_falling() const;
  void judge_fall();
  void judge_level(const sums& recent);
  void takes(double drew_w, double credit);
  std::optional<sums> recent(double long_s) const;

  double credit_ = 1;             ///< of a fall that is promised
  std::optional<double> from_w_;  ///< what it drew; none: nothing says it
  double promised_w_ = 0;         ///< of that, at the pace in force
  double level_w_ = 0;            ///< the same by more than a moment, where no fall is promised
  int64_t changed_ns_ = 0;
  std::optional<seen> last_;
  sums falls_;               ///< while a fall is promised
  std::deque<sums> recent_;  ///< intervals up to now
  std::optional<double> doubted_w_;
};

}  // namespace troupe::power
