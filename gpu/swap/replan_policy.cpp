// A search over few choices, and what steps say of it.
#include "gpu/swap/replan_policy.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "io/base/median.hpp"

namespace troupe::gpu {

namespace {

constexpr size_t steps_compared = 3;

}  // namespace

std::optional<replan_policy::decision> replan_policy::stepped(const step_moves& moved) {
  if (moved.untold > 0) return std::nullopt;  // SRP-4
  ++since_;
  if (since_ <= untold_steps) return std::nullopt;
  const auto& now = work_[static_cast<size_t>(again_)];
  kept_.stepped(now.whole(), moved);
  recent_.push_back(moved.step_s);
  if (recent_.size() > steps_compared) recent_.erase(recent_.begin());
  if (again_ == 0 && kept_.keeps_all() && since_ >= patience) patience_ = patience;
  if (again_ > 0 && !shorter()) return choose(cause::slower, 0);
  if (since_ < wait_) return std::nullopt;
  if (kept_.keeps_all()) return again_ > 0 ? std::optional(choose(cause::rates, 0)) : std::nullopt;
  const auto rates = kept_.rates();
  const bool seen = limit_of(now.whole(), rates).part == bound_by::disk;
  if (again_ > 0 && !seen && since_ >= patience_) return choose(cause::trial, 0);
  const int other = best(rates);
  if (expected(other, rates) * (1 + worth_it) >= expected(again_, rates))  // SRP-2
    return std::nullopt;
  return choose(cause::rates, other);
}

void replan_policy::set_duplex(double duplex) {
  if (duplex == measured_.duplex) return;
  measured_.duplex = duplex;
  kept_ = kept_rates_policy(measured_);
  before_s_.reset();
  recent_.clear();
  since_ = 0;
}

double replan_policy::expected(int again, const machine_rates& rates) const {
  const auto& work = work_[static_cast<size_t>(again)];
  return limit_of(work.forward, rates).seconds + limit_of(work.backward, rates).seconds;
}

int replan_policy::best(const machine_rates& rates) const {
  int out = 0;
  for (int i = 1; i < static_cast<int>(work_.size()); ++i)
    if (expected(i, rates) < expected(out, rates)) out = i;
  return out;
}

/// SRP-3, once for each choice. True as long as it cannot be told.
bool replan_policy::shorter() {
  if (!before_s_ || recent_.size() < steps_compared) return true;
  return upper_median(recent_) < *std::exchange(before_s_, std::nullopt);
}

replan_policy::decision replan_policy::choose(cause why, int again) {
  const decision out{why, std::exchange(again_, again), again, kept_.rates()};
  wait_ = steps_between;
  if (why != cause::rates) {
    kept_ = kept_rates_policy(measured_);
    if (why == cause::slower) wait_ = patience_;
    patience_ = std::min(2 * patience_, times_as_long * patience);
  }
  before_s_.reset();
  if (again > out.before && recent_.size() == steps_compared) before_s_ = upper_median(recent_);
  recent_.clear();
  since_ = 0;
  return out;
}

}  // namespace troupe::gpu
