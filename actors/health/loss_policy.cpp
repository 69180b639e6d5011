// Median and scatter.
#include "actors/health/loss_policy.hpp"

#include <algorithm>
#include <cmath>

#include "io/base/median.hpp"

namespace troupe::health {

std::deque<double> loss_policy::usual_losses() const {
  std::deque<double> out;
  for (auto it = told_.rbegin(); it != told_.rend() && out.size() < window; ++it)
    if (!it->high) out.push_front(it->loss);
  return out;
}

std::optional<loss_policy::spike> loss_policy::judge(uint64_t step, double loss) {
  if (deviations_ <= 0) return {};
  const auto usual = usual_losses();
  spike seen{0, loss};
  bool high = false;
  if (usual.size() >= least_known) {  // LSS-1
    seen.usual = upper_median(usual);
    seen.steps = usual.size();
    std::deque<double> distances;
    for (const double l : usual) distances.push_back(std::abs(l - seen.usual));
    const double scatter = 1.4826 * upper_median(std::move(distances));
    seen.at_most = seen.usual + std::max(deviations_ * scatter, 0.02 * std::abs(seen.usual));
    high = loss > seen.at_most;
  }
  told_.push_back({step, loss, high});
  if (told_.size() > 2 * window) told_.pop_front();
  const auto run = [&](bool of_high) {
    size_t length = 0;
    for (auto it = told_.rbegin(); it != told_.rend() && it->high == of_high; ++it) ++length;
    return length;
  };
  if (run(true) >= window) {  // LSS-3
    for (auto& t : told_) t.high = false;
    since_.reset();
  }
  if (!since_ && run(true) >= in_a_row)
    since_ = told_[told_.size() - in_a_row].step;
  else if (since_ && run(false) >= in_a_row)
    since_.reset();
  if (!since_) return {};
  seen.first_step = *since_;
  return seen;
}

void loss_policy::go_back(uint64_t step) {
  while (!told_.empty() && told_.back().step > step) told_.pop_back();
  if (since_ && *since_ > step) since_.reset();
}

}  // namespace troupe::health
