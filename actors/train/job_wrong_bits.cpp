// What a job does where a rank holds or computes other bits than its equals (JOB-13, JOB-20).
#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/train/job_policy.hpp"

namespace troupe::train {

// -- what was found good --------------------------------------------------------------------------

/// The state before the step that has ended.
void job_policy::note_good(const heard::step_done& done) {
  if (done.weights.compared) {
    compared_.step = step_;
    hold_good(compared_);
  }
  if (done.products.compared) {
    rechecked_.step = step_;
    hold_good(rechecked_);
  }
  if (done.products.alone.empty() || std::exchange(alone_told_, true)) return;
  say(fmt::format("what rank {} computes is compared with nobody's: no other rank of its stage has "
                  "the same device, instruction set and threads",
                  fmt::join(done.products.alone, ", ")),
      true);
}

/// The newest checkpoint that is known to be good. One that is held already was the newest before.
/// While one is committed its answer is waited for: it may remove the one before.
void job_policy::hold_good(good_state& of) {
  if (commits()) return;
  if (saved_step_ > of.step || saved_step_ <= of.held) return;
  out_.push_back(todo::hold{saved_step_, true});
  if (of.held > 0) out_.push_back(todo::hold{of.held, false});
  of.held = saved_step_;
}

/// Those that a comparison came before.
void job_policy::hold_good() {
  if (plan_.job.parallel.data > 1) hold_good(compared_);
  if (plan_.job.health.recheck_every > 0) hold_good(rechecked_);
}

// -- what is wrong --------------------------------------------------------------------------------

/// Those that are still to be committed among them.
uint64_t job_policy::newest_on_disk() const {
  uint64_t newest = resume_ ? resume_->step : 0;
  for (const auto& [step, save] : orders_)
    if (save.written) newest = std::max(newest, step);
  return newest;
}

/// JOB-13.
void job_policy::find_wrong_bits(const health::odd_replicas& odd) {
  const auto who = odd.ranks.empty() ? odd.differing : odd.ranks;
  const auto what =
      fmt::format("{} other weights than {} before step {}", who.size() == 1 ? "holds" : "hold",
                  odd.ranks.empty() ? "each other" : "its replicas", step_ + 1);
  const error why = weights_differ(fmt::format("{}", fmt::join(who, ", ")), what);
  if (leave_doubtful(why, compared_)) lose_wrong(why, who, !odd.ranks.empty());
}

/// JOB-20.
void job_policy::find_wrong_products(const health::odd_products& odd) {
  const auto who = odd.ranks.empty() ? odd.differing : odd.ranks;
  const auto what = fmt::format("{} layer {} otherwise than {} in step {}",
                                who.size() == 1 ? "computes" : "compute", odd.layer,
                                odd.by_itself       ? "it should"
                                : odd.ranks.empty() ? "each other"
                                                    : "its replicas",
                                step_ + 1);
  const error why = products_differ(fmt::format("{}", fmt::join(who, ", ")), what);
  if (!leave_doubtful(why, rechecked_)) return;
  back_if_can_ = at_most_.has_value();
  lose_wrong(why, who, !odd.ranks.empty());
}

/// What is younger than the last good state is not gone back to; false: the job has ended.
bool job_policy::leave_doubtful(const error& why, const good_state& good) {
  const auto saved = newest_on_disk();
  if (saved > good.step) {
    const auto none_older = wrong_bits_saved(why.message, saved, good.step);
    if (!recovery_.can_mend(why)) {
      end(none_older);
      return false;
    }
    at_most_ = good.step;
    end_if_none_ = none_older;
  }
  copies_.gone_back(std::nullopt);  // nobody compared them
  copies_believed_ = {};
  return true;
}

void job_policy::lose_wrong(const error& why, const std::vector<int>& who, bool named) {
  const auto on_one_node = [&] {
    return std::all_of(who.begin(), who.end(),
                       [&](int rank) { return node_of_rank(rank) == node_of_rank(who.front()); });
  };
  give_up_saves();  // they would be of what was found wrong
  if (named && on_one_node())
    out_.push_back(
        todo::give_up_node{node_of_rank(who.front()), "is wrong: " + why.message, "wrong_bits"});
  else
    recover(why, {"", why.message, "wrong_bits"});
}

/// JOB-20: none is as old as was wanted.
void job_policy::go_on_from_newest() {
  say(fmt::format("no checkpoint is left of step {} or before, from which all ranks were last seen "
                  "to compute alike: the run goes on from its newest one, which may hold what was "
                  "computed wrongly",
                  at_most_.value_or(0)),
      true);
  at_most_.reset();
  back_if_can_ = false;
  if (must_choose()) return choose_checkpoint();
  if (copies_.any()) return begin_phase(start_phase::find_copies);
  go_back();
}

}  // namespace troupe::train
