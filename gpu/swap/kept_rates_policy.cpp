// Shares of the measured rates.
#include "gpu/swap/kept_rates_policy.hpp"

#include <algorithm>

namespace troupe::gpu {

step_moves& step_moves::operator+=(const step_moves& other) {
  read_bytes += other.read_bytes;
  written_bytes += other.written_bytes;
  read_s += other.read_s;
  write_s += other.write_s;
  step_s += other.step_s;
  busy_s += other.busy_s;
  untold += other.untold;
  return *this;
}

void step_moves::settle_sum(int ranks) {
  for (auto* seconds : {&read_s, &write_s, &step_s, &busy_s}) *seconds /= ranks;
}

machine_rates kept_rates_policy::rates() const {
  auto out = measured_;
  out.read_bytes_s *= kept_.read;
  out.write_bytes_s *= kept_.write;
  return out;
}

bool kept_rates_policy::stepped(const phase_work& work, const step_moves& moved) {
  if (!bounds(work, moved)) return false;
  last_.push_back(shown_by(moved));
  if (last_.size() > steps_in_a_row) last_.erase(last_.begin());
  if (last_.size() < steps_in_a_row) return false;
  const shares now{next(&shares::read), next(&shares::write)};
  if (now.read == kept_.read && now.write == kept_.write) return false;
  kept_ = now;
  last_.clear();
  return true;
}

/// KRT-4.
bool kept_rates_policy::bounds(const phase_work& work, const step_moves& moved) const {
  if (moved.step_s > 0 && moved.busy_s >= all_the_while * moved.step_s) return true;
  return limit_of(work, rates()).part == bound_by::disk;
}

/// KRT-1, KRT-2.
kept_rates_policy::shares kept_rates_policy::shown_by(const step_moves& moved) const {
  const double alone = disk_seconds(moved.read_bytes, moved.written_bytes, measured_);
  const auto share = [&](double busy_s, double in_use) {
    const double took = std::min(busy_s, moved.step_s);  // streams that read at once are one drive
    return took > 0 && alone > 0 ? std::min(1.0, alone / took) : in_use;
  };
  return {share(moved.read_s, kept_.read), share(moved.write_s, kept_.write)};
}

/// KRT-3.
double kept_rates_policy::next(double shares::*of) const {
  const auto [least, most] = std::minmax_element(
      last_.begin(), last_.end(), [of](const shares& a, const shares& b) { return a.*of < b.*of; });
  const double used = kept_.*of;
  if ((*most).*of < used * (1 - worth_it)) return (*most).*of;
  if ((*least).*of <= used * (1 + worth_it)) return used;
  const bool last_rise = (*least).*of * (1 + worth_it) >= 1;  // no share is that much above it
  return last_rise ? 1.0 : (*least).*of;
}

}  // namespace troupe::gpu
