// The line through two looks, and parts of a third one.
#include "actors/power/machine_part_policy.hpp"

#include <algorithm>

namespace troupe::power {

namespace {

/// Processors. Looks that differ by less say nothing of what work draws.
constexpr double apart = 0.2;

}  // namespace

void machine_part_policy::look(double power_w, double busy) {
  least_w_ = std::min(least_w_.value_or(power_w), power_w);
  if (busy < 0) return;
  if (!rested_ || busy < rested_->busy) rested_ = seen{power_w, busy};
  if (!worked_ || busy > worked_->busy) worked_ = seen{power_w, busy};
}

double machine_part_policy::without_work_w() const {
  const double least_w = least_w_.value_or(0);
  if (!rested_ || worked_->busy - rested_->busy < apart)
    return !rested_ || rested_->busy < apart ? least_w : 0;
  const double of_work_w =
      std::max(0.0, worked_->power_w - rested_->power_w) / (worked_->busy - rested_->busy);
  return std::clamp(rested_->power_w - of_work_w * rested_->busy, 0.0, least_w);
}

double machine_part_policy::part_w(double power_w, double own) const {
  if (jobs_ == 1) return power_w;  // MPT-2
  const double idle_w = std::min(without_work_w(), power_w);
  return idle_w / jobs_ + (power_w - idle_w) * std::clamp(own, 0.0, 1.0);
}

std::optional<double> machine_part_policy::idle_w() const {
  if (!least_w_ || jobs_ == 1) return least_w_;
  return without_work_w() / jobs_;
}

}  // namespace troupe::power
