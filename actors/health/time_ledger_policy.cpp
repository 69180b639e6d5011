// Time is counted as it goes, in spans; what is settled backwards paints spans over.
#include "actors/health/time_ledger_policy.hpp"

#include <algorithm>
#include <iterator>

namespace troupe::health {

namespace {

constexpr int64_t minute_width_ns = 60'000'000'000;
constexpr int64_t hour_width_ns = 60 * minute_width_ns;
constexpr size_t minutes_kept = 61;
constexpr std::array<std::string_view, time_uses> names = {
    "useful",   "repeated",          "start",    "detect",
    "diagnose", "re_form",           "restore",  "checkpoint_stall",
    "paused",   "waiting_for_nodes", "head_away"};

/// Adds to the buckets of `width_ns` that [from, to) touches, both counted from the run's begin.
/// What lies before the oldest that is kept is in none.
void count_into(std::deque<time_entries>& buckets, uint64_t& first, int64_t width_ns, size_t kept,
                int64_t from_ns, int64_t to_ns, time_use use, int64_t sign) {
  from_ns = std::max(from_ns, static_cast<int64_t>(first) * width_ns);
  const auto last = static_cast<uint64_t>(std::max<int64_t>(to_ns - 1, 0) / width_ns);
  if (last >= first + buckets.size() + kept) {  // all that is kept is too old by now
    buckets.clear();
    first = last + 1 - kept;
    from_ns = std::max(from_ns, static_cast<int64_t>(first) * width_ns);
  }
  while (from_ns < to_ns) {
    const auto number = static_cast<uint64_t>(from_ns / width_ns);
    const int64_t until_ns = std::min(to_ns, static_cast<int64_t>(number + 1) * width_ns);
    while (first + buckets.size() <= number) buckets.emplace_back();
    buckets[number - first][use] += sign * (until_ns - from_ns);
    from_ns = until_ns;
    for (; buckets.size() > kept; ++first) buckets.pop_front();
  }
}

}  // namespace

std::string_view to_string(time_use use) {
  return names[static_cast<size_t>(use)];
}

int64_t time_entries::wall_ns() const noexcept {
  int64_t sum = 0;
  for (const auto ns : ns_) sum += ns;
  return sum;
}

double time_entries::effective() const noexcept {
  const auto wall = wall_ns();
  return wall == 0 ? 1 : static_cast<double>((*this)[time_use::useful]) / static_cast<double>(wall);
}

time_entries& time_entries::operator+=(const time_entries& other) noexcept {
  for (size_t i = 0; i < time_uses; ++i) ns_[i] += other.ns_[i];
  return *this;
}

// -- time goes on ---------------------------------------------------------------------------------

bool time_ledger_policy::recovers() const noexcept {
  return phase_ == phase::diagnosing || phase_ == phase::re_forming || phase_ == phase::restoring;
}

time_use time_ledger_policy::use_now() const noexcept {
  if (holds_) return time_use::waiting_for_nodes;
  switch (phase_) {
    case phase::diagnosing:
      return time_use::diagnose;
    case phase::re_forming:
      return time_use::re_form;
    case phase::restoring:
      return time_use::restore;
    case phase::training:
      return paused_ ? time_use::paused : time_use::useful;
    default:
      return time_use::start;
  }
}

void time_ledger_policy::advance(int64_t now_ns) {
  if (phase_ == phase::idle || phase_ == phase::over || now_ns <= last_ns_) return;
  append({last_ns_, now_ns, use_now(), 0, 0});
  count(last_ns_, now_ns, use_now(), 1);
  last_ns_ = now_ns;
}

/// HEAL-7: what is in a span is counted in the whole, its hours and its minutes, once.
void time_ledger_policy::count(int64_t from_ns, int64_t to_ns, time_use use, int64_t sign) {
  whole_[use] += sign * (to_ns - from_ns);
  const auto from = from_ns - begun_ns_, to = to_ns - begun_ns_;
  count_into(hours_, first_hour_, hour_width_ns, hours_kept, from, to, use, sign);
  count_into(minutes_, first_minute_, minute_width_ns, minutes_kept, from, to, use, sign);
}

void time_ledger_policy::append(const span& s) {
  if (!spans_.empty()) {
    auto& last = spans_.back();
    if (last.use == s.use && last.first_step == s.first_step && last.last_step == s.last_step) {
      last.to_ns = s.to_ns;
      return;
    }
  }
  spans_.push_back(s);
  if (spans_.size() > spans_kept) merge();
}

/// TLG-1: neighbours in pairs where both are steps, or the same; if that is not enough, the older
/// half is settled for good.
void time_ledger_policy::merge() {
  std::deque<span> out;
  bool merged = false;  // the last one, with its neighbour
  for (const auto& s : spans_) {
    const bool same = !out.empty() && out.back().use == s.use &&
                      (out.back().first_step == 0) == (s.first_step == 0);
    if (same && !merged) {
      out.back().to_ns = s.to_ns;
      out.back().last_step = s.last_step;
    } else {
      out.push_back(s);
    }
    merged = same && !merged;
  }
  spans_ = std::move(out);
  if (spans_.size() > spans_kept * 3 / 4)
    spans_.erase(spans_.begin(), spans_.begin() + static_cast<int64_t>(spans_.size() / 2));
}

// -- what is settled backwards --------------------------------------------------------------------

void time_ledger_policy::split_at(int64_t at_ns) {
  const auto it = std::find_if(spans_.rbegin(), spans_.rend(),
                               [&](const span& s) { return s.from_ns < at_ns; });
  if (it == spans_.rend() || it->to_ns <= at_ns) return;
  span late = *it;
  late.from_ns = at_ns;
  it->to_ns = at_ns;
  spans_.insert(it.base(), late);
}

/// What of [from, to) `from_these` wants becomes another thing.
template <class F>
void time_ledger_policy::repaint(int64_t from_ns, int64_t to_ns, time_use into, F from_these) {
  if (from_ns >= to_ns) return;
  split_at(from_ns);
  split_at(to_ns);
  for (auto it = spans_.rbegin(); it != spans_.rend() && it->to_ns > from_ns; ++it) {
    if (it->from_ns >= to_ns || it->use == into || !from_these(*it)) continue;
    count(it->from_ns, it->to_ns, it->use, -1);
    count(it->from_ns, it->to_ns, into, 1);
    it->use = into;
    it->first_step = it->last_step = 0;
  }
}

/// The step that is under way ends, or never will.
void time_ledger_policy::settle_under_way(time_use use, uint64_t step) {
  for (auto it = spans_.rbegin(); it != spans_.rend() && it->to_ns > step_ended_ns_; ++it) {
    if (it->use != time_use::useful || it->first_step != 0) continue;
    count(it->from_ns, it->to_ns, it->use, -1);
    count(it->from_ns, it->to_ns, use, 1);
    it->use = use;
    it->first_step = it->last_step = step;
  }
}

/// Of a span of several steps, a share by their number.
void time_ledger_policy::take_back_steps(uint64_t above) {
  for (size_t i = spans_.size(); i-- > 0;) {
    const auto s = spans_[i];
    if (s.use != time_use::useful || s.last_step <= above) continue;
    const auto steps = static_cast<int64_t>(s.last_step - s.first_step + 1);
    const auto kept = static_cast<int64_t>(above >= s.first_step ? above - s.first_step + 1 : 0);
    const int64_t at_ns =
        s.from_ns + static_cast<int64_t>(static_cast<__int128>(s.to_ns - s.from_ns) * kept / steps);
    if (kept > 0) {
      split_at(at_ns);
      spans_[i].last_step = above;
    }
    repaint(at_ns, s.to_ns, time_use::repeated, [](const span&) { return true; });
  }
}

// -- events ---------------------------------------------------------------------------------------

void time_ledger_policy::begin(int64_t now_ns) {
  if (phase_ != phase::idle) return;
  phase_ = phase::starting;
  begun_ns_ = last_ns_ = step_ended_ns_ = now_ns;
}

void time_ledger_policy::begin_after(const time_entries& before, uint64_t steps_repeated,
                                     uint64_t last_step, int64_t now_ns) {
  begin(now_ns);
  whole_ += before;
  steps_repeated_ += steps_repeated;
  last_step_ = last_step;
  phase_ = phase::re_forming;
}

void time_ledger_policy::step_began(uint64_t step, uint32_t epoch, int64_t now_ns) {
  advance(now_ns);
  if (epoch >= epoch_) under_way_ = true;
  if (phase_ != phase::starting || epoch < epoch_) return;
  phase_ = phase::training;
  holds_ = false;
  epoch_ = epoch;
  last_step_ = std::max<uint64_t>(step, 1) - 1;
  step_ended_ns_ = last_ns_;
}

void time_ledger_policy::step_ended(uint64_t step, uint32_t epoch, int64_t now_ns) {
  advance(now_ns);
  if (phase_ != phase::training || epoch != epoch_ || step <= last_step_) return;
  settle_under_way(time_use::useful, step);
  under_way_ = false;
  last_step_ = step;
  step_ended_ns_ = last_ns_;
}

void time_ledger_policy::noticed(int64_t last_sign_ns, int64_t now_ns) {
  advance(now_ns);
  if (phase_ == phase::idle || phase_ == phase::over) return;
  repaint(std::max(last_sign_ns, step_ended_ns_), last_ns_, time_use::detect, [](const span& s) {
    return s.use == time_use::useful || s.use == time_use::start || s.use == time_use::re_form ||
           s.use == time_use::restore || s.use == time_use::checkpoint_stall;
  });
  settle_under_way(time_use::repeated, 0);
  if (phase_ == phase::starting) return;  // what a start loses, it starts again
  phase_ = phase::diagnosing;
  holds_ = false;
}

void time_ledger_policy::named(int64_t now_ns) {
  advance(now_ns);
  if (phase_ == phase::diagnosing) phase_ = phase::re_forming;
}

void time_ledger_policy::hold(int64_t now_ns) {
  advance(now_ns);
  holds_ = phase_ == phase::starting || recovers();
}

void time_ledger_policy::members_there(int64_t now_ns) {
  advance(now_ns);
  holds_ = false;
}

void time_ledger_policy::connected(int64_t now_ns) {
  advance(now_ns);
  if (!recovers()) return;
  holds_ = false;
  phase_ = phase::restoring;
}

void time_ledger_policy::restored(uint64_t step, uint32_t epoch, int64_t now_ns) {
  advance(now_ns);
  if (!recovers()) return;
  holds_ = false;
  if (step < last_step_) {
    take_back_steps(step);
    steps_repeated_ += last_step_ - step;
    last_step_ = step;
  }
  epoch_ = std::max(epoch_, epoch);
  phase_ = phase::training;
  step_ended_ns_ = last_ns_;
}

void time_ledger_policy::was_of_use(int64_t ns) {
  const auto moved = std::clamp<int64_t>(ns, 0, whole_[time_use::repeated]);
  whole_[time_use::repeated] -= moved;
  whole_[time_use::useful] += moved;
}

void time_ledger_policy::save_blocked(int64_t from_ns, int64_t to_ns) {
  advance(to_ns);
  repaint(from_ns, std::min(to_ns, last_ns_), time_use::checkpoint_stall,
          [](const span& s) { return s.use == time_use::useful; });
}

void time_ledger_policy::pause(int64_t now_ns) {
  advance(now_ns);
  paused_ = true;
}

void time_ledger_policy::resume(int64_t now_ns) {
  advance(now_ns);
  paused_ = false;
}

void time_ledger_policy::head_was_away(int64_t since_ns, int64_t now_ns) {
  advance(now_ns);
  repaint(since_ns, std::min(now_ns, last_ns_), time_use::head_away,
          [&](const span& s) { return s.use != time_use::useful || s.first_step == 0; });
}

/// A step that was under way is in vain; what was done after the last one is not.
void time_ledger_policy::end(int64_t now_ns) {
  advance(now_ns);
  if (phase_ == phase::training)
    settle_under_way(under_way_ ? time_use::repeated : time_use::useful,
                     under_way_ ? 0 : last_step_);
  phase_ = phase::over;
}

time_entries time_ledger_policy::last_hour() const {
  time_entries out;
  for (const auto& m : minutes_) out += m;
  return out;
}

}  // namespace troupe::health
