// What a job does when its nodes become others by order: one leaves, or there are enough for more
// replicas; and what it is with another number of replicas (JOB-19).
#include <utility>

#include <fmt/format.h>

#include "actors/job/replicas_policy.hpp"
#include "actors/train/job_policy.hpp"
#include "actors/train/keeper_policy.hpp"

namespace troupe::train {

using enum job_state;

// -- how many replicas ----------------------------------------------------------------------------

result<job_plan> job_policy::plan_with(uint32_t replicas) const {
  return with_replicas(whole_, replicas == 0 ? whole_.job.parallel.data : replicas);
}

/// JOB-19. Settings stay as they are, and copies in memory where there are as many replicas: layers
/// that a next head is told are those that its copies were made with (JOB-14).
void job_policy::lay_out(const heard::admitted& there) {
  const bool cut = is_split_open(whole_.job) && !there.layers.empty() &&
                   settle_layers(whole_, there.layers, there.order);
  auto plan = plan_with(there.replicas);
  if (!plan) return;
  const bool others = plan->job.parallel.data != plan_.job.parallel.data;
  if (!cut && !others) return;
  requests_.lay_out(plan->job);
  plan->job = {};
  plan_ = std::move(*plan);
  use_settings();
  // Who keeps whose copies goes by the hosts of their nodes, which may have changed places.
  copies_ = copies_policy(plan_.job.checkpoint.memory.every, keepers_of(plan_.job));
  if (others) copies_believed_ = {};
  copies_.believe(copies_believed_);
}

std::string job_policy::replicas_text() const {
  return fmt::format("going on with {} of {} replicas", replicas(), replicas_configured());
}

/// What is not saved would be made again.
void job_policy::stay_as_it_is() {
  say(fmt::format("{}, but it goes on with {} until it has saved", leaving_->how, replicas()),
      true);
  leaving_.reset();
  pauses_.erase(pause_cause::nodes);
  next_step();
}

// -- a node that leaves in order ------------------------------------------------------------------

/// JOB-12: at once where no step runs.
void job_policy::release_node(const job_event& event) {
  note_release(event);
  if (!pauses_.contains(pause_cause::room)) let_node_go();
}

/// Once a step is over, or the start.
void job_policy::note_release(const job_event& event) {
  if (stop_ || leaving_) return;
  leaving_ = std::get<heard::release>(event);
  saves_for_leaving_ = false;
}

/// JOB-12. Called again when a save has ended.
void job_policy::let_node_go() {
  if (!leaving_) return;
  if (!std::exchange(saves_for_leaving_, true)) {
    waits_since_ns_ = now_ns_;
    if (!last_is_saved() && !pace_.open().contains(step_)) begin_save(committer_folder_);
    pauses_.insert(pause_cause::nodes);
    enter(paused, leaving_->grows ? "saving before there are more replicas"
                                  : "saving before a node leaves");
  }
  if (!pace_.open().empty()) {
    pauses_.insert(pause_cause::nodes);  // whoever else lifted it: nothing goes on meanwhile
    return;
  }
  ledger_.save_blocked(waits_since_ns_, now_ns_);
  if (!leaving_->grows) {
    const heard::node_lost who{leaving_->name, leaving_->how, "drained", 0, true};
    return recover({errc::unavailable, fmt::format("node {} {}", who.name, who.how)}, who);
  }
  if (!last_is_saved()) return stay_as_it_is();
  recover({errc::unavailable, leaving_->how}, {"", leaving_->how, "more_replicas", 0, true});
}

}  // namespace troupe::train
