// Steps to a beat, and orders to holds.
#include "actors/power/step_phase_policy.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace troupe::power {

namespace {

/// Of their median.
constexpr double alike_within = 0.05;

}  // namespace

void step_phase_policy::steps(uint64_t step, uint32_t epoch, int64_t late_ns, int64_t now_ns) {
  if (step == 0 || epoch != epoch_) {  // SPH-1, SPH-4
    took_ns_.clear();
    step_ = 0;
    drop();
  }
  epoch_ = epoch;
  if (step == step_) return;
  if (step_ > 0 && late_ns_ == 0) took_ns_.push_back(now_ns - began_ns_);
  if (took_ns_.size() > steps_kept) took_ns_.pop_front();
  step_ = step;
  began_ns_ = now_ns;
  late_ns_ = std::max<int64_t>(0, late_ns);
  since_held_ = late_ns_ > 0 ? 0 : since_held_ + 1;
}

int64_t step_phase_policy::median_ns() const {
  std::vector<int64_t> sorted(took_ns_.begin(), took_ns_.end());
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::optional<step_beat> step_phase_policy::beat(int64_t now_ns) const {
  if (step_ == 0 || took_ns_.size() < steps_kept) return std::nullopt;
  const auto median = median_ns();
  const auto odd = static_cast<int64_t>(alike_within * static_cast<double>(median));
  const auto alike = std::count_if(took_ns_.begin(), took_ns_.end(),
                                   [&](int64_t t) { return std::abs(t - median) <= odd; });
  const step_beat out{median, began_ns_ + late_ns_};
  if (static_cast<size_t>(alike) < steps_alike || !is_sound(out, now_ns)) return std::nullopt;
  return out;
}

/// SPH-2, SPH-3
bool step_phase_policy::hear(uint64_t life, const phase_order& said, int64_t sent_ns,
                             int64_t now_ns) {
  const std::pair order{life, said.number};
  if (said.number == 0 || order <= last_) return false;
  last_ = order;
  const auto own = beat(now_ns);
  if (!own || said.offset_ns <= 0 || said.offset_ns >= own->period_ns) return false;
  // Where no lease is granted nobody has looked at when that was sent.
  if (sent_ns > now_ns || sent_ns < now_ns - late_answer_ns) return false;
  if (since_held_ < steps_between) return false;
  since_held_ = 0;
  pending_ns_ = said.offset_ns;
  return true;
}

}  // namespace troupe::power
