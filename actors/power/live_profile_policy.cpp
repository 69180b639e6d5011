// Counts steps, adds joules up, and takes middles.
#include "actors/power/live_profile_policy.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <utility>

namespace troupe::power {

namespace {

/// Between two steps that follow each other passes less than this share of one, or than the time
/// that telling of a step takes, however short it is: what ranks do then is wait.
constexpr double gap_of_step = 0.1, telling_s = 0.02;
/// Readings come when they do: so many seconds more are looked at than are wanted.
constexpr double reading_margin_s = 2;

double middle_of(std::vector<double> all) {
  const auto at = all.begin() + static_cast<std::ptrdiff_t>((all.size() - 1) / 2);
  std::nth_element(all.begin(), at, all.end());
  return *at;
}

double total_of(const std::vector<double>& all) {
  double out = 0;
  for (const double v : all) out += v;
  return out;
}

bool is_row(const clock_row& r) {
  const double watts = r.energy_j / r.time_s;
  return r.time_s >= 1e-9 && r.time_s <= clock_profile::s_ceiling &&
         watts >= clock_profile::least_w && watts <= clock_profile::most_w;
}

double seconds_of(int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

}  // namespace

std::vector<int> tried_clocks(std::vector<int> all_mhz, const live_profile_terms& terms) {
  std::ranges::sort(all_mhz, std::greater<>());
  all_mhz.erase(std::unique(all_mhz.begin(), all_mhz.end()), all_mhz.end());
  std::erase_if(all_mhz, [&, highest = all_mhz.empty() ? 0 : all_mhz.front()](int mhz) {
    return mhz < 1 || mhz > clock_profile::mhz_ceiling || mhz < terms.lowest * highest;
  });
  if (all_mhz.size() <= terms.clocks) return all_mhz;
  std::vector<int> out;
  for (size_t i = 0; i < terms.clocks; ++i)
    out.push_back(all_mhz[i * (all_mhz.size() - 1) / (terms.clocks - 1)]);
  return out;
}

std::string_view in_words(live_profile_policy::failure why) {
  switch (why) {
    case live_profile_policy::failure::no_watts:
      return "of one of its machines at least nothing says what it draws";
    case live_profile_policy::failure::seldom:
      return "of one of its machines at least joules are read too seldom: set "
             "power.meter_interval_ms and cluster.heartbeat_interval_ms to 1000 or less";
    case live_profile_policy::failure::uneven:
      return "its steps are too uneven to tell what a clock changes";
    case live_profile_policy::failure::cut_short:
      return "at lower clocks its ranks began anew each time";
    case live_profile_policy::failure::moved:
      return "its ranks came to other machines again and again";
    case live_profile_policy::failure::none:
      break;
  }
  return "";
}

live_profile_policy::live_profile_policy(std::vector<std::vector<int>> ladders, size_t replicas,
                                         double blocking_w, const live_profile_terms& terms)
    : ladders_(std::move(ladders)),
      replicas_(replicas),
      blocking_w_(blocking_w),
      terms_(terms),
      lane_of_(replicas),
      rows_(ladders_.size(), std::vector<std::vector<found_cost>>(levels())) {
  assert(replicas >= 1);
}

size_t live_profile_policy::levels() const {
  size_t out = 1;
  for (const auto& l : ladders_) out = std::max(out, l.size());
  return out;
}

size_t live_profile_policy::level_of(size_t replica) const {
  if (is_first()) return 0;
  const auto level = 1 + (of_ladder_ - 1) * lanes_ + lane_of_[replica];
  return level < levels() ? level : 0;
}

int live_profile_policy::clock_of(size_t stage, size_t replica) const {
  const auto& ladder = ladders_[stage];
  return ladder[std::min(level_of(replica), ladder.size() - 1)];
}

size_t live_profile_policy::steps_of_trial() const {
  const double energy_s = terms_.settling_s + terms_.energy_s + reading_margin_s;
  const double for_energy = step_s_ > 0 ? std::ceil(energy_s / step_s_) : 0;
  const auto counted = std::max(for_energy, static_cast<double>(terms_.least_steps));
  return static_cast<size_t>(terms_.settling_steps) + static_cast<size_t>(counted);
}

size_t live_profile_policy::steps_made() const {
  const auto each = steps_of_trial();
  const auto tried = static_cast<size_t>(settled_ + tried_);
  return of_ladder_ * each + std::min(each, tried);
}

void live_profile_policy::hear(size_t machine, double energy_j, bool modelled, int64_t at_ns) {
  if (!std::isfinite(energy_j) || energy_j < 0) return;
  auto& m = machines_[machine];
  if (m.latest && at_ns <= m.latest->at_ns) return;
  modelled_ |= modelled;
  m.latest = reading{at_ns, energy_j};
  if (is_open_ && !m.first && at_ns >= piece_ns_) m.first = m.latest;
}

/// LPP-3
void live_profile_policy::begin_again(bool at_its_clocks) {
  if (state_ != state::measuring) return;
  if (at_its_clocks && !is_first() && ++cuts_ > terms_.most_cuts) {
    finish();
    if (state_ == state::failed) fail(failure::cut_short);
    return;
  }
  begin_trial();
}

/// LPP-4
void live_profile_policy::begin_anew() {
  if (++moves_ > terms_.most_moves) return fail(failure::moved);  // LPP-3
  of_ladder_ = 0;
  cuts_ = 0;
  lane_of_.assign(replicas_, 0);
  lanes_ = 1;
  places_.clear();
  highest_.clear();
  for (auto& of_stage : rows_)
    for (auto& of_level : of_stage) of_level.clear();
  begin_trial();
}

void live_profile_policy::begin_trial() {
  ++trial_;
  settled_ = tried_ = 0;
  next_look_ = 0;
  begun_ns_.reset();
  ended_ns_.reset();
  counted_s_ = 0;
  is_open_ = false;
  ranks_.clear();
  for (auto& [number, m] : machines_)
    m = {.latest = m.latest, .first = {}, .last = {}, .before = {}};
}

/// LPP-1. Whether the step is one of those in which clocks are set.
bool live_profile_policy::settles(const trial_step& step) {
  if (!begun_ns_) begun_ns_ = step.ended_ns - static_cast<int64_t>(step.step_s * 1e9);
  const bool out = settled_ < terms_.settling_steps ||
                   seconds_of(step.ended_ns - *begun_ns_) - step.step_s < terms_.settling_s;
  settled_ += out ? 1 : 0;
  return out;
}

void live_profile_policy::open_piece(const trial_step& step) {
  is_open_ = true;
  piece_ns_ = step.ended_ns - static_cast<int64_t>(step.step_s * 1e9);
  for (auto& [number, m] : machines_)
    if (m.latest && m.latest->at_ns >= piece_ns_) m.first = m.latest;
}

void live_profile_policy::close_piece() {
  is_open_ = false;
  for (auto& [number, m] : machines_) {
    m.before = use_of(number);
    m.first.reset();
    m.last.reset();
  }
}

/// `with_gap_s`: from the end of the one before. Meters count that, too.
void live_profile_policy::add(const trial_step& step, double with_gap_s) {
  if (ranks_.empty())
    for (const auto& r : step.ranks) ranks_.push_back({r, {}, {}, {}});
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const auto& r = step.ranks[i];
    ranks_[i].who.machine = r.machine;
    ranks_[i].forward_s.push_back(r.forward_s);
    ranks_[i].backward_s.push_back(r.backward_s);
    ranks_[i].busy_s.push_back(r.busy_s);
  }
  counted_s_ += with_gap_s;
  for (auto& [number, m] : machines_)
    if (m.first && m.latest && m.latest->at_ns <= step.ended_ns) m.last = m.latest;
}

/// LPP-4
bool live_profile_policy::are_placed_as_first(std::span<const rank_sample> ranks) const {
  return std::ranges::equal(ranks, places_, [](const rank_sample& r, const rank_place& p) {
    return rank_place{r.stage, r.replica, r.machine} == p;
  });
}

void live_profile_policy::step(const trial_step& step) {
  if (state_ != state::measuring || step.trial != trial_) return;  // LPP-1
  if (!ranks_.empty() && ranks_.size() != step.ranks.size()) return begin_again();
  if (!is_first() && !are_placed_as_first(step.ranks)) return begin_anew();
  step_s_ = step.step_s;
  if (settles(step)) return;
  ++tried_;
  const double since_s = ended_ns_ ? seconds_of(step.ended_ns - *ended_ns_) : 0;
  if (is_open_ && since_s - step.step_s > std::max(gap_of_step * step.step_s, telling_s))
    close_piece();
  if (step.counts) {
    const bool follows = is_open_;
    if (!is_open_) open_piece(step);
    add(step, follows ? std::max(since_s, step.step_s) : step.step_s);
    ended_ns_ = step.ended_ns;
  } else {
    close_piece();
  }
  const bool is_over = tried_ >= terms_.tried_steps &&
                       seconds_of(step.ended_ns - *begun_ns_) >= terms_.tried_s;  // LPP-3
  if (is_over || (is_looked_at() && is_whole())) end_trial();
}

/// Each look goes through all steps of the trial, and short ones are many.
bool live_profile_policy::is_looked_at() {
  constexpr size_t look_parts = 8;
  const auto steps = ranks_.empty() ? 0 : ranks_.front().busy_s.size();
  if (steps < next_look_) return false;
  next_look_ = steps + 1 + steps / look_parts;
  return true;
}

/// Of all pieces.
live_profile_policy::used_energy live_profile_policy::use_of(size_t machine) const {
  const auto it = machines_.find(machine);
  if (it == machines_.end()) return {};
  const auto& m = it->second;
  used_energy out = m.before;
  if (m.first && m.last && m.last->energy_j >= m.first->energy_j) {
    out.s += seconds_of(m.last->at_ns - m.first->at_ns);
    out.j += m.last->energy_j - m.first->energy_j;
  }
  return out;
}

/// While their ranks compute, of those of which enough was heard: in one pass, for a job has many.
std::map<size_t, double> live_profile_policy::watts() const {
  struct rank_time {
    double busy_s = 0, waited_s = 0;
  };
  std::map<size_t, rank_time> times;
  const auto steps = static_cast<double>(ranks_.empty() ? 1 : ranks_.front().busy_s.size());
  const double step_s = counted_s_ / steps;
  for (const auto& r : ranks_) {
    if (!r.who.machine) continue;
    const double busy_s = total_of(r.busy_s) / steps;
    auto& t = times[*r.who.machine];
    t.busy_s += busy_s;
    t.waited_s += std::max(0.0, step_s - busy_s);
  }
  std::map<size_t, double> out;
  for (const auto& [machine, t] : times) {
    const auto used = use_of(machine);
    if (used.s < terms_.energy_s) continue;
    const double watts = (used.j / used.s * step_s - blocking_w_ * t.waited_s) / t.busy_s;
    if (watts >= clock_profile::least_w && watts <= clock_profile::most_w) out[machine] = watts;
  }
  return out;
}

/// LPP-2: the middle half of them lies close to the middle.
bool live_profile_policy::is_even(std::vector<double> times) const {
  std::ranges::sort(times);
  const auto quarter = times.size() / 4;
  const double middle = times[(times.size() - 1) / 2];
  return middle > 0 && times[times.size() - 1 - quarter] - times[quarter] <= terms_.uneven * middle;
}

/// LPP-2
std::optional<live_profile_policy::found_cost> live_profile_policy::cost_of(
    const rank_series& r, const std::map<size_t, double>& watts) const {
  if (r.forward_s.size() < static_cast<size_t>(terms_.least_steps) || !r.who.machine)
    return std::nullopt;
  const auto of_machine = watts.find(*r.who.machine);
  if (of_machine == watts.end()) return std::nullopt;
  if (!is_even(r.forward_s) || !is_even(r.backward_s)) return std::nullopt;
  return found_cost{middle_of(r.forward_s), middle_of(r.backward_s), of_machine->second};
}

/// Whether the trial has all that it is made for.
bool live_profile_policy::is_whole() const {
  if (ranks_.empty() || ranks_.front().busy_s.size() < static_cast<size_t>(terms_.least_steps))
    return false;
  const auto all_watts = watts();
  return std::ranges::all_of(ranks_,
                             [&](const auto& r) { return cost_of(r, all_watts).has_value(); });
}

void live_profile_policy::end_trial() {
  std::vector<std::optional<found_cost>> costs;
  const auto all_watts = watts();
  for (const auto& r : ranks_) costs.push_back(cost_of(r, all_watts));
  if (is_first()) {
    if (costs.empty() || !std::ranges::all_of(costs, [](const auto& c) { return c.has_value(); }))
      return fail();
    keep_highest(costs);
    divide_into_lanes();
  } else {
    keep_rows(costs);
  }
  if (++of_ladder_ == trials()) return finish();
  cuts_ = 0;
  begin_trial();
}

void live_profile_policy::keep_highest(const std::vector<std::optional<found_cost>>& costs) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const auto& who = ranks_[i].who;
    places_.push_back({who.stage, who.replica, who.machine});
    highest_.push_back(*costs[i]);
    rows_[ranks_[i].who.stage][0].push_back(*costs[i]);
  }
}

/// As they would be of the middle replica.
void live_profile_policy::keep_rows(const std::vector<std::optional<found_cost>>& costs) {
  const auto middle = [&](size_t stage, auto field) {
    std::vector<double> all;
    for (const auto& c : rows_[stage][0]) all.push_back(c.*field);
    return middle_of(std::move(all));
  };
  for (size_t i = 0; i < ranks_.size() && i < highest_.size(); ++i) {
    const auto stage = ranks_[i].who.stage;
    const auto level = level_of(ranks_[i].who.replica);
    if (!costs[i] || level == 0 || level >= ladders_[stage].size()) continue;
    const auto as_usual = [&](auto field) {
      return (*costs[i]).*field * middle(stage, field) / (highest_[i].*field);
    };
    rows_[stage][level].push_back({as_usual(&found_cost::forward_s),
                                   as_usual(&found_cost::backward_s),
                                   as_usual(&found_cost::watts)});
  }
}

/// LPP-4: replicas that share a machine, also by way of others, are of one lane.
void live_profile_policy::divide_into_lanes() {
  std::vector<size_t> leader(replicas_);
  for (size_t r = 0; r < replicas_; ++r) leader[r] = r;
  const auto joined = [&](size_t from, size_t into) {
    for (auto& l : leader)
      if (l == from) l = into;
  };
  std::map<size_t, size_t> first_of;
  for (const auto& r : ranks_) {
    const auto [it, is_new] = first_of.try_emplace(*r.who.machine, r.who.replica);
    if (!is_new) joined(leader[r.who.replica], leader[it->second]);
  }
  std::map<size_t, size_t> lanes;
  for (size_t r = 0; r < replicas_; ++r)
    lane_of_[r] = lanes.try_emplace(leader[r], lanes.size()).first->second;
  lanes_ = lanes.size();
}

void live_profile_policy::put_rows(size_t stage) {
  for (size_t level = 0; level < ladders_[stage].size(); ++level) {
    const auto& found = rows_[stage][level];
    if (found.empty()) continue;
    const auto middle = [&](auto field) {
      std::vector<double> all;
      for (const auto& c : found) all.push_back(c.*field);
      return middle_of(std::move(all));
    };
    const double watts = middle(&found_cost::watts);
    const auto row = [&, mhz = ladders_[stage][level]](double time_s) {
      return clock_row{mhz, time_s, watts * time_s};
    };
    const auto forward = row(middle(&found_cost::forward_s));
    const auto backward = row(middle(&found_cost::backward_s));
    if (!is_row(forward) || !is_row(backward)) continue;
    profile_.stages[stage][static_cast<size_t>(instruction::forward)].push_back(forward);
    profile_.stages[stage][static_cast<size_t>(instruction::backward)].push_back(backward);
  }
}

/// LPP-5
void live_profile_policy::finish() {
  profile_.stages.resize(ladders_.size());
  bool is_any_lower = false;
  for (size_t s = 0; s < ladders_.size(); ++s) {
    put_rows(s);
    const auto& rows = profile_.rows(static_cast<int>(s), instruction::forward);
    if (rows.empty() || rows.front().frequency_mhz != ladders_[s].front()) return fail();
    is_any_lower |= rows.size() > 1;
  }
  if (!is_any_lower) return fail();
  state_ = state::measured;
}

void live_profile_policy::fail(failure why) {
  state_ = state::failed;
  failure_ = why;
}

void live_profile_policy::fail() {
  fail(failure::uneven);
  const auto all_watts = watts();
  for (const auto& r : ranks_) {
    if (r.who.machine && all_watts.contains(*r.who.machine)) continue;
    failure_ =
        r.who.machine && is_heard_seldom(*r.who.machine) ? failure::seldom : failure::no_watts;
    if (failure_ == failure::no_watts) return;
  }
}

bool live_profile_policy::is_heard_seldom(size_t machine) const {
  const auto it = machines_.find(machine);
  return it != machines_.end() && it->second.latest && use_of(machine).s < terms_.energy_s;
}

}  // namespace troupe::power
