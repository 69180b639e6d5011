// The last windows against the best.
#include "actors/health/regression_policy.hpp"

#include <algorithm>
#include <vector>

namespace troupe::health {

std::optional<regression_policy::verdict> regression_policy::judge(const step_window& last) {
  if (limit_ <= 0) return {};
  if (last.epoch != epoch_ || last.tokens != tokens_ || paces_differ(last.pace, pace_)) {
    epoch_ = last.epoch;
    tokens_ = last.tokens;
    pace_ = last.pace;
    best_ms_ = 0;
    lately_.clear();
  }
  lately_.push_back(last.step_ms);
  if (lately_.size() > windows) lately_.pop_front();
  if (lately_.size() < windows) return {};
  std::vector<double> sorted(lately_.begin(), lately_.end());
  std::sort(sorted.begin(), sorted.end());
  const double middle = sorted[windows / 2];
  if (best_ms_ == 0 || middle < best_ms_) best_ms_ = middle;
  if (sorted.front() < best_ms_ * (1 + limit_)) return {};  // RGR-2
  return verdict{middle, best_ms_};
}

}  // namespace troupe::health
