// Beats to groups, and groups to holds.
#include "actors/power/phase_policy.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::power {

namespace {

constexpr uint64_t no_step_us = 100'000'000;
constexpr int64_t ns_of_us = 1000;
/// A period that differs by more is another one.
constexpr double other_period = 0.02;
/// Of a step: until the next look jobs of a group drift apart by no more.
constexpr double allowed_drift = 1.0 / 3;
/// Of the way between two neighbours that stand evenly apart, and of a step: less is noise.
constexpr double noise_of_gap = 0.25, noise_of_step = 1.0 / 32;

/// Where in its step a job is, as a share: 0 where one begins.
double phase_at(const step_beat& b, int64_t now_ns) {
  const double steps = static_cast<double>(now_ns - b.began_ns) / static_cast<double>(b.period_ns);
  return steps - std::floor(steps);
}

/// How late each has to begin so that all are evenly apart in the order in which they begin, in
/// shares of a step. `begins`: in how long the next step of each does, rising and below 1. Each
/// share is at least 0 and below 1, and the least is 0. Who of them goes first makes no difference
/// to that, and no other order holds them back less together: of two that changed places one would
/// wait for as much more as the other for less.
std::vector<double> even_holds(const std::vector<double>& begins) {
  const auto count = static_cast<double>(begins.size());
  std::vector<double> late;  // by how much each begins behind its even place
  for (const double at : begins) late.push_back(at - static_cast<double>(late.size()) / count);
  const double latest = *std::max_element(late.begin(), late.end());
  for (auto& a : late) a = latest - a;
  return late;
}

}  // namespace

int64_t phase_ns_of(uint64_t us) {
  return static_cast<int64_t>(std::min(us, no_step_us)) * ns_of_us;
}

uint64_t phase_us_of(int64_t ns) {
  return static_cast<uint64_t>(std::max<int64_t>(0, ns) / ns_of_us);
}

bool is_sound(const step_beat& beat, int64_t now_ns) {
  if (beat.period_ns < fastest_beat_ns || beat.period_ns > slowest_beat_ns) return false;
  const auto bound_ns = beats_of_standing * beat.period_ns;
  return beat.began_ns >= now_ns - bound_ns && beat.began_ns <= now_ns + bound_ns;
}

int64_t phase_policy::settles_ns(int64_t period_ns) {
  return std::max(settle_ns, settle_steps * period_ns);
}

/// PHS-3, PHS-4
void phase_policy::hear(size_t child, uint64_t incarnation, const std::optional<step_beat>& beat,
                        int64_t now_ns) {
  auto& c = children_[child];
  const bool beats = beat && is_sound(*beat, now_ns);
  const bool is_another = std::exchange(c.incarnation, incarnation) != incarnation;
  const auto was_ns = static_cast<double>(c.since_period_ns);
  const bool is_new =
      beats && (is_another || !c.beat ||
                std::abs(static_cast<double>(beat->period_ns) - was_ns) > other_period * was_ns);
  c.beat = beats ? beat : std::nullopt;
  c.heard_ns = now_ns;
  if (!beats || is_another) c.stands = false;
  if (!is_new) return;
  c.since_ns = now_ns;
  c.since_period_ns = beat->period_ns;
}

bool phase_policy::is_ready(const account& c, int64_t now_ns) const {
  return c.beat && now_ns - c.heard_ns <= fresh_ns &&
         now_ns - c.since_ns >= settles_ns(c.beat->period_ns);
}

/// PHS-2
bool phase_policy::are_alike(size_t shorter, size_t longer) const {
  const auto least_ns = static_cast<double>(children_[shorter].beat->period_ns);
  const auto most_ns = static_cast<double>(children_[longer].beat->period_ns);
  const double steps = static_cast<double>(settles_ns(children_[longer].beat->period_ns)) / most_ns;
  return (most_ns - least_ns) * steps <= allowed_drift * least_ns;
}

std::vector<size_t> phase_policy::tick(bool quiet, int64_t now_ns) {
  std::vector<size_t> out, ready;
  if (!quiet) {  // PHS-4
    for (auto& c : children_) {
      c.stands = false;
      c.since_ns = now_ns;
    }
    return out;
  }
  for (size_t i = 0; i < children_.size(); ++i)
    if (is_ready(children_[i], now_ns)) ready.push_back(i);
  std::sort(ready.begin(), ready.end(), [this](size_t a, size_t b) {
    return std::pair(children_[a].beat->period_ns, a) < std::pair(children_[b].beat->period_ns, b);
  });
  for (size_t first = 0; first < ready.size();) {
    auto end = first + 1;
    while (end < ready.size() && are_alike(ready[first], ready[end])) ++end;
    spread({ready.begin() + static_cast<ptrdiff_t>(first),
            ready.begin() + static_cast<ptrdiff_t>(end)},
           now_ns, out);
    first = end;
  }
  return out;
}

/// PHS-1, PHS-5
void phase_policy::spread(const std::vector<size_t>& group, int64_t now_ns,
                          std::vector<size_t>& out) {
  const auto count = group.size();
  if (count < 2) return;
  std::vector<std::pair<double, size_t>> order;
  for (const auto i : group) {
    const double since = phase_at(*children_[i].beat, now_ns);
    order.emplace_back(since > 0 ? 1 - since : 0, i);  // in how long its next step begins
  }
  std::sort(order.begin(), order.end());
  std::vector<double> begins;
  for (const auto& [at, i] : order) begins.push_back(at);
  const auto holds = even_holds(begins);
  const double noise = std::max(noise_of_step, noise_of_gap / static_cast<double>(count));
  if (*std::max_element(holds.begin(), holds.end()) < noise) return;
  for (size_t k = 0; k < count; ++k) {
    auto& c = children_[order[k].second];
    c.since_ns = now_ns;  // PHS-3
    const auto offset_ns =
        std::min(c.beat->period_ns - 1,
                 static_cast<int64_t>(holds[k] * static_cast<double>(c.beat->period_ns)));
    if (holds[k] < noise_of_step || offset_ns <= 0) continue;
    c.last = {{++numbers_, offset_ns}, now_ns};
    c.stands = true;
    out.push_back(order[k].second);
  }
}

std::optional<phase_order> phase_policy::order_of(size_t child, int64_t now_ns) const {
  const auto& c = children_[child];
  if (!c.stands || now_ns - c.last->at_ns > told_for_ns) return std::nullopt;
  return c.last->order;
}

std::optional<int64_t> phase_policy::period_ns(size_t child, int64_t now_ns) const {
  const auto& c = children_[child];
  if (!c.beat || now_ns - c.heard_ns > fresh_ns) return std::nullopt;
  return c.beat->period_ns;
}

}  // namespace troupe::power
