// Sums of what was drawn and of what was promised.
#include "actors/power/pace_follow_policy.hpp"

#include <algorithm>
#include <utility>

namespace troupe::power {

namespace {

/// Of what it drew: a fall that is less says nothing, and one that misses less came true. Steps
/// differ by as much.
constexpr double least_promise = 0.05, least_miss = 0.025;
/// Of a fall: so much of it is all of it.
constexpr double nearly_all = 0.7;
/// Of what it drew at that pace: so much more is far more. Steps differ by less.
constexpr double far_more = 0.25;
/// What it draws at its pace may come to be more by so much from look to look.
constexpr double slowly_more = 0.01;
/// What was seen of falls that were taken back is held beside later ones.
constexpr int64_t kept_for_ns = 60'000'000'000;

}  // namespace

void pace_follow_policy::sums::add(const sums& one) {
  s += one.s;
  drawn_j += one.drawn_j;
  promised_j += one.promised_j;
  unfallen_j += one.unfallen_j;
  until_ns = std::max(until_ns, one.until_ns);
}

bool pace_follow_policy::is_falling() const {
  return from_w_ && promised_w_ < *from_w_ * (1 - least_promise);
}

void pace_follow_policy::measured(double watts) {
  if (is_falling()) return;
  level_w_ = from_w_ ? std::min(watts, level_w_ * (1 + slowly_more)) : watts;
  from_w_ = promised_w_ = watts;
}

void pace_follow_policy::changes(double idle_w, double ratio, int64_t now_ns) {
  changed_ns_ = now_ns;
  if (!from_w_) return;
  const auto scaled_w = [&](double w) {
    const double fixed_w = std::min(idle_w, w);
    return fixed_w + (w - fixed_w) * ratio;
  };
  promised_w_ = scaled_w(promised_w_);
  level_w_ = scaled_w(level_w_);
}

void pace_follow_policy::clear() {
  from_w_.reset();
  last_.reset();
  falls_ = {};
  recent_.clear();
  doubted_w_.reset();
}

void pace_follow_policy::look(double used_j, int64_t read_ns) {
  const auto before = std::exchange(last_, seen{used_j, read_ns});
  if (!from_w_ || !before || before->read_ns < changed_ns_) return;
  const double s = static_cast<double>(read_ns - before->read_ns) / 1e9;
  const double promised_w = is_falling() ? promised_w_ : level_w_;
  const sums one{s, used_j - before->used_j, promised_w * s, *from_w_ * s, read_ns};
  recent_.push_back(one);
  if (recent_.size() > most_intervals) recent_.pop_front();
  if (!is_falling()) return;
  if (before->read_ns - falls_.until_ns > kept_for_ns) falls_ = {};
  falls_.add(one);  // PFL-2: however often falls are taken back between intervals
}

/// The last intervals, as many as are so long; none: they are not.
std::optional<pace_follow_policy::sums> pace_follow_policy::recent(double long_s) const {
  sums out;
  for (auto it = recent_.rbegin(); it != recent_.rend(); ++it) {
    out.add(*it);
    if (out.s >= long_s) return out;
  }
  return recent_.size() < most_intervals ? std::nullopt : std::optional(out);
}

void pace_follow_policy::judge(double long_s) {
  if (!from_w_) return;
  if (is_falling() && falls_.s > 0 && falls_.s >= long_s) judge_fall();
  const auto last = recent(long_s);
  if (!last) return;
  judge_level(*last);
  doubted_w_.reset();
  if (credit_ < 1) doubted_w_ = last->drawn_j / last->s;
}

/// PFL-1
void pace_follow_policy::judge_fall() {
  const auto seen = std::exchange(falls_, {});
  const double fall_j = seen.unfallen_j - seen.promised_j;
  const double missed_j = seen.drawn_j - seen.promised_j;
  const bool came_true =
      missed_j <= (1 - nearly_all) * fall_j || missed_j <= least_miss * seen.unfallen_j;
  takes(seen.drawn_j / seen.s, came_true ? 1 : std::max(0.0, 1 - missed_j / fall_j));
}

/// PFL-4
void pace_follow_policy::judge_level(const sums& last) {
  if (last.drawn_j > last.promised_j * (1 + far_more)) takes(last.drawn_j / last.s, 0);
}

void pace_follow_policy::takes(double drew_w, double credit) {
  credit_ = credit;
  from_w_ = promised_w_ = level_w_ = drew_w;
  for (auto& one : recent_) one.promised_j = std::max(one.promised_j, one.drawn_j);
}

std::optional<double> pace_follow_policy::believed_w() const {
  if (!from_w_) return {};
  return believed_w(*from_w_, promised_w_);
}

double pace_follow_policy::believed_w(double from_w, double promised_w) const {
  return promised_w < from_w ? from_w - credit_ * (from_w - promised_w) : promised_w;
}

}  // namespace troupe::power
