// Keeps when each operation ends and what follows it up to date while clocks change.
#include "actors/power/clock_rounding.hpp"

#include <algorithm>
#include <utility>

namespace troupe::power {

namespace {

/// Slack and pairs are tried so often at most; it is rarely more than five times.
constexpr int rounding_rounds = 12;
/// A smaller gain is rounding of sums.
constexpr double least_gain_j = 1e-9;

}  // namespace

clock_rounding::clock_rounding(const pipeline_dag& dag,
                               std::vector<const std::vector<clock_choice>*> choices)
    : dag_(dag), choices_(std::move(choices)), moved_(choices_.size(), 0) {}

size_t clock_rounding::slowest_within(size_t node, int64_t window) const {
  const auto& all = *choices_[node];
  const auto fits = std::partition_point(all.begin(), all.end(),
                                         [&](const clock_choice& c) { return c.ticks > window; });
  return static_cast<size_t>(std::min(fits, all.end() - 1) - all.begin());
}

void clock_rounding::begin_at_ends(const std::vector<node_times>& times) {
  for (size_t i = 0; i < times.size(); ++i) {
    const int64_t from = begins(i);
    chosen_[i] = slowest_within(i, times[i].ends - from);
    ends_[i] = from + now(i).ticks;
  }
}

void clock_rounding::begin_at_begins(const std::vector<node_times>& times) {
  for (size_t i = times.size(); i-- > 0;) {
    rests_[i] = dag_.rest_of(rests_, lasts_, i);
    chosen_[i] = slowest_within(i, most_ticks_ - rests_[i] - times[i].begins);
    lasts_[i] = now(i).ticks;
  }
}

void clock_rounding::walk() {
  for (size_t i = 0; i < chosen_.size(); ++i) lasts_[i] = now(i).ticks;
  ends_ = dag_.ends(lasts_);
  rests_ = dag_.rests(lasts_);
}

int64_t clock_rounding::begins(size_t node, int without) const {
  const auto& n = dag_.nodes()[node];
  return pipeline_dag::latest_of(ends_, n.before_here == without ? -1 : n.before_here,
                                 n.before_there == without ? -1 : n.before_there);
}

int64_t clock_rounding::must_end(size_t node, int without) const {
  const auto& n = dag_.nodes()[node];
  int64_t rest = 0;
  for (const int next : {n.after_here, n.after_there})
    if (next >= 0 && next != without)
      rest = std::max(rest, rests_[static_cast<size_t>(next)] + lasts_[static_cast<size_t>(next)]);
  return most_ticks_ - rest;
}

void clock_rounding::set(size_t node, size_t choice) {
  chosen_[node] = choice;
  lasts_[node] = now(node).ticks;
  size_t last = node;
  moved_[node] = 1;
  for (size_t i = node; i <= last; ++i) {
    if (!std::exchange(moved_[i], 0)) continue;
    const int64_t ends = begins(i) + lasts_[i];
    if (ends == std::exchange(ends_[i], ends)) continue;
    for (const int next : {dag_.nodes()[i].after_here, dag_.nodes()[i].after_there})
      if (next >= 0) {
        moved_[static_cast<size_t>(next)] = 1;
        last = std::max(last, static_cast<size_t>(next));
      }
  }
  const auto tell_before = [&](size_t i, size_t& first) {
    for (const int before : {dag_.nodes()[i].before_here, dag_.nodes()[i].before_there})
      if (before >= 0) {
        moved_[static_cast<size_t>(before)] = 1;
        first = std::min(first, static_cast<size_t>(before));
      }
  };
  size_t first = node;
  tell_before(node, first);
  for (size_t i = node; i-- > first;) {
    if (!std::exchange(moved_[i], 0)) continue;
    const int64_t rest = dag_.rest_of(rests_, lasts_, i);
    if (rest != std::exchange(rests_[i], rest)) tell_before(i, first);
  }
}

bool clock_rounding::slow_some() {
  bool changed = false;
  for (size_t i = 0; i < chosen_.size(); ++i) {
    if (chosen_[i] == 0) continue;
    const auto& slower = (*choices_[i])[chosen_[i] - 1];
    if (begins(i) + slower.ticks > must_end(i)) continue;
    set(i, chosen_[i] - 1);
    changed = true;
  }
  return changed;
}

bool clock_rounding::improve_pair(size_t first, int second_or_none) {
  if (second_or_none < 0) return false;
  const auto second = static_cast<size_t>(second_or_none);
  if (chosen_[first] == 0 && chosen_[second] == 0) return false;
  const int64_t from = begins(first), first_must = must_end(first, second_or_none);
  const int64_t others = begins(second, static_cast<int>(first)), second_must = must_end(second);
  const auto& of_first = *choices_[first];
  const auto& of_second = *choices_[second];
  double best_j = now(first).cost_j + now(second).cost_j - least_gain_j;
  const auto before = std::pair(chosen_[first], chosen_[second]);
  auto best = before;
  // The faster the first, the slower may the second be.
  size_t k = of_second.size() - 1;
  for (size_t i = slowest_within(first, first_must - from); i < of_first.size(); ++i) {
    const int64_t begins = std::max(from + of_first[i].ticks, others);
    if (begins + of_second[k].ticks > second_must) continue;
    while (k > 0 && begins + of_second[k - 1].ticks <= second_must) --k;
    const double cost_j = of_first[i].cost_j + of_second[k].cost_j;
    if (cost_j < best_j) {
      best_j = cost_j;
      best = {i, k};
    }
    if (k == 0) break;
  }
  if (best == before) return false;
  set(first, best.first);
  set(second, best.second);
  if (ends_.back() <= most_ticks_) return true;
  // The second waited for the first by another way, too.
  set(second, before.second);
  set(first, before.first);
  return false;
}

bool clock_rounding::improve_pairs() {
  bool changed = false;
  for (size_t i = 0; i < chosen_.size(); ++i)
    for (const int next : {dag_.nodes()[i].after_here, dag_.nodes()[i].after_there})
      changed |= improve_pair(i, next);
  return changed;
}

const std::vector<size_t>& clock_rounding::round(const std::vector<node_times>& times,
                                                 int64_t most_ticks, bool forwards) {
  most_ticks_ = most_ticks;
  for (auto* part : {&lasts_, &ends_, &rests_}) part->assign(times.size(), 0);
  chosen_.assign(times.size(), 0);
  forwards ? begin_at_ends(times) : begin_at_begins(times);
  walk();
  for (int i = 0; i < rounding_rounds; ++i) {
    const bool slower = slow_some(), better = improve_pairs();
    if (!slower && !better) break;
  }
  return chosen_;
}

}  // namespace troupe::power
