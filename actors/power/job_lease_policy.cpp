// Answers and steps to a cap and what is told of it.
#include "actors/power/job_lease_policy.hpp"

#include <utility>

namespace troupe::power {

grant_verdict job_lease_policy::hear(const power_answer& a, int64_t now_ns) {
  if (a.grant.answers.incarnation != incarnation_) return grant_verdict::not_to_us;
  if (a.static_share_mw < 0 || a.static_share_mw > beyond_mw) return grant_verdict::impossible;
  if (!lease_) lease_.emplace(a.static_share_mw, incarnation_, 0, told_within_ns);  // JLP-1
  lease_->set_static_share(a.static_share_mw);
  is_replaced_ = false;
  if (a.grant.order.epoch == 0) return grant_verdict::taken;
  return lease_->hear(a.grant, now_ns);
}

int64_t job_lease_policy::tick(int64_t now_ns) {
  if (!lease_) return 0;
  const auto before_mw = std::exchange(cap_mw_, lease_->tick(now_ns));
  if (before_mw != cap_mw_) decided_ = {0};  // no pace is, under this one
  read_back();
  return cap_mw_;
}

void job_lease_policy::decided(work_pace pace) {
  decided_ = pace;
  read_back();
}

void job_lease_policy::steps(uint64_t step, work_pace pace) {
  const bool begins = step != step_ || (step > 0 && pace != step_pace_);
  step_ = step;
  step_pace_ = pace;
  if (begins && lease_) {
    lease_->read_back(0);                              // of the step before
    step_mw_ = step == 0 ? 0 : lease_->in_force_mw();  // what may have reached the run by then
  }
  read_back();
}

/// JLP-2: what goes on by less than what is decided now keeps the cap of now.
void job_lease_policy::read_back() {
  if (step_ > 0 && step_pace_ <= decided_) step_mw_ = std::min(step_mw_, cap_mw_);
  if (lease_) lease_->read_back(step_mw_);
}

lease_hold job_lease_policy::hold() const {
  if (is_replaced_) return lease_hold::replaced;  // JLP-4
  if (!was_leased()) return lease_hold::no_lease;
  if (lease_->is_shed()) return lease_hold::shed;
  return cap_mw_ > 0 ? lease_hold::none : lease_hold::no_watts;
}

power_report job_lease_policy::report(int64_t now_ns, std::optional<int64_t> drawn_mw,
                                      int64_t wish_mw) const {
  if (lease_) return lease_->report(now_ns, drawn_mw, wish_mw);
  return {{incarnation_, now_ns}, {}, 0, drawn_mw, wish_mw};
}

}  // namespace troupe::power
