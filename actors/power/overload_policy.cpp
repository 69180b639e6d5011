// A window of looks, and what it says of the brake.
#include "actors/power/overload_policy.hpp"

#include <algorithm>

namespace troupe::power {

namespace {

/// Two at least: one look is a moment.
size_t looks_of(int64_t window_ns, int64_t tick_ns) {
  return static_cast<size_t>(std::max<int64_t>(2, (window_ns + tick_ns - 1) / tick_ns));
}

/// Fewer that have a reading are no mean of a window.
constexpr size_t read_of_four = 3;

}  // namespace

overload_policy::overload_policy(const row_rules& rules, int64_t tick_ns, int64_t fresh_ns)
    : rules_(rules),
      far_looks_(looks_of(fresh_ns + tick_ns, tick_ns)),
      looks_(std::max(looks_of(window_ns, tick_ns), far_looks_)) {}

/// Of the looks with a reading; none where too many have none. OVL-1
std::optional<double> overload_policy::mean_read() const {
  double sum = 0;
  size_t reads = 0;
  for (const auto& l : looks_)
    if (l.read) {
      sum += l.at_least;
      ++reads;
    }
  if (4 * reads < read_of_four * looks_.size()) return std::nullopt;
  return sum / static_cast<double>(reads);
}

double overload_policy::mean_most() const {
  double sum = 0;
  for (const auto& l : looks_) sum += l.at_most;
  return sum / static_cast<double>(looks_.size());
}

bool overload_policy::is_far_over() const {
  if (count_ < far_looks_) return false;
  for (size_t i = 1; i <= far_looks_; ++i) {
    if (looks_[(count_ - i) % looks_.size()].of_budget < far_over) return false;
  }
  return true;
}

/// OVL-2
bool overload_policy::is_over() const {
  if (is_far_over()) return true;
  if (!is_whole() || !(last().at_least > over)) return false;
  const auto mean = mean_read();
  return mean && *mean > over;
}

bool overload_policy::has_room() const {
  return is_whole() && last().read &&
         std::all_of(looks_.begin(), looks_.end(), [](const auto& l) { return l.at_most < room; });
}

bool overload_policy::has_room_as_read() const {
  return mean_read() && last().read && is_whole() &&
         std::all_of(looks_.begin(), looks_.end(), [](const auto& l) { return l.at_least < room; });
}

/// OVL-5
bool overload_policy::may_try(const row_state& s, int64_t now_ns) const {
  return (tries_ || now_ns - s.brake_ns >= tries_after * rules_.brake_hold_ns) &&
         has_room_as_read();
}

/// Whether there is room for the next group, after one that was let go.
bool overload_policy::may_follow(const row_state& s, int64_t now_ns) const {
  if (now_ns - s.brake_ns < rules_.release_gap_ns || !is_whole() || !last().read) return false;
  return mean_most() <= over || may_try(s, now_ns);
}

/// Where nobody waits any more.
void overload_policy::end_release(row_state& s) const {
  if (s.brake == row_brake::releasing && s.released_groups >= rules_.release_groups)
    s.brake = row_brake::off;
}

void overload_policy::release(row_decision& d) const {
  d.commands.release_group = d.state.released_groups++;
  d.commands.reason = row_reason::held;
}

void overload_policy::let_go() {
  let_go_ = true;
  tries_ = false;
  calm_since_ns_.reset();
  count_ = 0;  // what was held says nothing of what is drawn without
}

void overload_policy::watch(const overload_look& seen, int64_t now_ns) {
  looks_[count_++ % looks_.size()] = seen;
  if (!let_go_) return;
  const auto mean = is_whole() && seen.read ? mean_read() : std::nullopt;
  if (!mean || *mean > over || is_far_over())
    calm_since_ns_.reset();
  else if (!calm_since_ns_)
    calm_since_ns_ = now_ns;
  else if (now_ns - *calm_since_ns_ >= calm_ns)
    let_go_ = false;
}

/// OVL-3, OVL-5. A row policy that was at work before may have left its brake on its way.
row_decision overload_policy::decide(const row_state& before, const overload_look& seen,
                                     int64_t now_ns) {
  watch(seen, now_ns);
  row_decision out{before, {}};
  auto& s = out.state;
  auto& c = out.commands;
  end_release(s);
  const bool releases = s.brake == row_brake::releasing;
  const bool holds = s.brake == row_brake::on || s.brake == row_brake::arming;
  const bool is_over_long = s.brake == row_brake::off && now_ns - s.brake_ns > window_ns;
  if (holds || is_over_long) tries_ = false;
  if (!holds && !let_go_ && (is_over() || (tries_ && seen.at_least > over))) {
    s.brake = row_brake::on;
    s.released_groups = 0;
    ++s.brakes;
    c.brake = true;
    c.reason = row_reason::overload;
  } else if (holds && now_ns - s.brake_ns >= rules_.brake_hold_ns &&
             (has_room() || may_try(s, now_ns))) {
    tries_ = !has_room();
    s.brake = row_brake::releasing;
    c.brake = false;
    release(out);
  } else if (releases && may_follow(s, now_ns)) {
    tries_ |= mean_most() > over;
    release(out);
  } else {
    if (!seen.read) c.reason = row_reason::no_reading;
    return out;
  }
  s.brake_ns = now_ns;
  end_release(s);
  return out;
}

}  // namespace troupe::power
