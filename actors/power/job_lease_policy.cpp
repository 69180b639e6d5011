// Answers and steps to a cap and what is told of it.
#include "actors/power/job_lease_policy.hpp"

#include <algorithm>
#include <utility>

namespace troupe::power {

/// JLP-1, JLP-6
void job_lease_policy::begin(int64_t share_mw) {
  begun_with_mw_ = begins_with_share_ ? share_mw : 0;
  lease_.emplace(share_mw, incarnation_, begun_with_mw_);
}

void job_lease_policy::begin_with_share(std::optional<int64_t> share_mw) {
  begins_with_share_ = true;
  if (share_mw && !lease_) begin(*share_mw);
}

grant_verdict job_lease_policy::hear(const power_answer& a, int64_t now_ns) {
  if (a.grant.answers.incarnation != incarnation_) return grant_verdict::not_to_us;
  if (a.static_share_mw < 0 || a.static_share_mw > beyond_mw) return grant_verdict::impossible;
  if (!lease_) begin(a.static_share_mw);
  lease_->set_static_share(a.static_share_mw);
  refused_ = lease_hold::none;
  const auto out = a.grant.order.epoch == 0 ? grant_verdict::taken : lease_->hear(a.grant, now_ns);
  if (out != grant_verdict::impossible) told_brake_ = a.brake;
  return out;
}

int64_t job_lease_policy::tick(int64_t now_ns) {
  if (!lease_) return 0;
  const auto before_mw = std::exchange(cap_mw_, lease_->tick(now_ns));
  if (before_mw != cap_mw_) decided_ = {0};  // no pace is, under this one
  is_braked_ = told_brake_ && lease_->is_leased(now_ns);  // JLP-5
  read_back();
  return cap_mw_;
}

/// What is decided as it was told is not told anew: from now on it is that cap's.
void job_lease_policy::decided(work_pace pace) {
  decided_ = pace;
  if (!words_.empty() && words_.back().pace == pace)
    words_.back().cap_mw = std::max(words_.back().cap_mw, cap_mw_);
  read_back();
}

void job_lease_policy::told(uint64_t number) {
  if (!words_.empty() && words_.back().pace == decided_)
    words_.back().number = number;
  else
    words_.push_back({number, decided_, cap_mw_});
  if (words_.size() > words_kept) {
    words_[1].pace = std::max(words_[0].pace, words_[1].pace);
    words_[1].cap_mw = std::max(words_[0].cap_mw, words_[1].cap_mw);
    words_.erase(words_.begin());
  }
  read_back();
}

void job_lease_policy::steps(uint64_t step, work_pace pace, uint64_t follows) {
  const bool begins = step != step_ || (step > 0 && pace != step_pace_);
  const auto before_mw = std::max(cap_mw_, followed_mw());
  step_ = step;
  step_pace_ = pace;
  const auto later = std::find_if(words_.begin(), words_.end(),
                                  [&](const word& w) { return w.number >= follows; });
  words_.erase(words_.begin(), later);  // JLP-2: the run has heard a later one
  if (begins) {
    const bool is_of_word = !words_.empty() && pace <= words_.front().pace;
    step_mw_ = step == 0 ? 0 : is_of_word ? words_.front().cap_mw : before_mw;
  }
  read_back();
}

/// The most that the run may draw by what it follows, or may come to.
int64_t job_lease_policy::followed_mw() const {
  int64_t out = step_mw_;
  for (const auto& w : words_) out = std::max(out, w.cap_mw);
  return out;
}

/// JLP-2: what goes on by less than what is decided now keeps the cap of now.
void job_lease_policy::read_back() {
  if (step_ > 0 && step_pace_ <= decided_) step_mw_ = std::min(step_mw_, cap_mw_);
  for (auto& w : words_)
    if (w.pace <= decided_) w.cap_mw = std::min(w.cap_mw, cap_mw_);
  if (lease_) lease_->read_back(followed_mw());
}

lease_hold job_lease_policy::hold() const {
  if (refused_ == lease_hold::replaced) return refused_;  // JLP-4
  if (!was_leased())
    return begins_with_share_ && cap_mw_ > 0 ? lease_hold::none : lease_hold::no_lease;
  if (refused_ != lease_hold::none) return refused_;
  if (lease_->is_shed()) return lease_hold::shed;
  if (is_braked_) return lease_hold::brake;
  return cap_mw_ > 0 ? lease_hold::none : lease_hold::no_watts;
}

power_report job_lease_policy::report(int64_t now_ns, std::optional<int64_t> drawn_mw,
                                      int64_t wish_mw) const {
  if (lease_) return lease_->report(now_ns, drawn_mw, wish_mw);
  return {{incarnation_, now_ns}, {}, 0, drawn_mw, wish_mw};
}

}  // namespace troupe::power
