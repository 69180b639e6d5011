// Energy over an interval, and what follows from it.
#include "actors/sim/power_model.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::sim {

void power_model::works(int64_t from_ns, int64_t until_ns, double watts) {
  if (until_ns <= from_ns) return;
  jobs_.push_back({from_ns, until_ns, watts});
  if (trace_ != nullptr) trace_->add(from_ns, until_ns, watts - options_.idle_w);
}

void power_model::stops(int64_t now_ns) {
  for (auto& j : jobs_) {
    const auto until_ns = std::min(j.until_ns, std::max(j.from_ns, now_ns));
    if (trace_ != nullptr) trace_->add(until_ns, j.until_ns, options_.idle_w - j.watts);
    j.until_ns = until_ns;
  }
}

void power_model::follows_again(double watts) {
  const auto it = std::find(stuck_at_w_.begin(), stuck_at_w_.end(), watts);
  if (it != stuck_at_w_.end()) stuck_at_w_.erase(it);
}

power_model::reading power_model::read(int64_t now_ns) {
  const auto span_ns = static_cast<double>(now_ns - read_ns_);
  double busy_ns = 0, above_idle = 0;  // watts times nanoseconds
  for (const auto& j : jobs_) {
    const auto part =
        static_cast<double>(std::min(j.until_ns, now_ns) - std::max(j.from_ns, read_ns_));
    if (part <= 0) continue;
    busy_ns += part;
    above_idle += part * (j.watts - options_.idle_w);
  }
  while (!jobs_.empty() && jobs_.front().until_ns <= now_ns) jobs_.pop_front();
  reading out;
  out.power_w = options_.idle_w;
  if (span_ns > 0) {
    out.power_w += above_idle / span_ns;
    out.busy_percent = 100 * busy_ns / span_ns;
  }
  for (const double watts : stuck_at_w_) out.power_w = std::max(out.power_w, watts);  // DRW-3
  last_w_ = out.power_w;
  const double target = options_.room_c + options_.c_per_w * out.power_w;
  temperature_c_ += (target - temperature_c_) * (1 - std::exp(-span_ns / (options_.lag_s * 1e9)));
  out.temperature_c = temperature_c_;
  out.power_w *= 1 + options_.noise * (2 * chance_.unit() - 1);
  read_ns_ = now_ns;
  return out;
}

}  // namespace troupe::sim
