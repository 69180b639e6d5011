// Votes, deadlines and what follows from them.
#include "actors/checkpoint/commit_policy.hpp"

#include <cassert>

#include <fmt/format.h>

namespace troupe::checkpoint {

std::vector<commit_step> commit_policy::begin(checkpoint_id which, int64_t deadline_ns) {
  assert(members_ > 0);
  std::vector<commit_step> out;
  if (!can_begin()) return out;
  if (state_ == state::collecting)
    out.push_back(abort(fmt::format("step {} began before it was done", which.step), true));
  state_ = state::collecting;
  which_ = which;
  deadline_ns_ = deadline_ns;
  voted_.clear();
  return out;
}

/// Whether a vote is one for what is being collected (COM-2, COM-3).
bool commit_policy::counts(checkpoint_id which, uint32_t member) {
  const bool wanted = state_ == state::collecting && which == which_ && member < members_ &&
                      !voted_.contains(member);
  if (!wanted) ++dropped_;
  return wanted;
}

commit_step commit_policy::yes(checkpoint_id which, uint32_t member) {
  if (!counts(which, member)) return {};
  voted_.insert(member);
  if (voted_.size() < members_) return {};
  state_ = state::writing;  // COM-1
  return {commit_step::kind::write, which_, {}, false};
}

commit_step commit_policy::no(checkpoint_id which, uint32_t member, const std::string& why) {
  if (!counts(which, member)) return {};
  return abort(why, true);
}

commit_step commit_policy::lost(uint32_t member, const std::string& why) {
  if (state_ != state::collecting || voted_.contains(member)) return {};
  return abort(why, true);
}

commit_step commit_policy::written(checkpoint_id which, const std::string& failure) {
  if (state_ != state::writing || which != which_) return {};
  if (!failure.empty()) return abort(failure, false);
  state_ = state::idle;
  return {commit_step::kind::committed, which_, {}, false};
}

commit_step commit_policy::tick(int64_t now_ns) {
  if (state_ != state::collecting || now_ns < deadline_ns_) return {};
  const auto silent = missing();
  return abort(fmt::format("{} of {} votes missing at the deadline, the first of member {}",
                           silent.size(), members_, silent.front()),
               true);
}

commit_step commit_policy::abort(std::string why, bool remove) {
  state_ = state::idle;
  return {commit_step::kind::aborted, which_, std::move(why), remove};
}

std::optional<checkpoint_id> commit_policy::open() const {
  if (state_ == state::idle) return std::nullopt;
  return which_;
}

std::vector<uint32_t> commit_policy::missing() const {
  std::vector<uint32_t> out;
  if (state_ != state::collecting) return out;
  for (uint32_t m = 0; m < members_; ++m)
    if (!voted_.contains(m)) out.push_back(m);
  return out;
}

}  // namespace troupe::checkpoint
