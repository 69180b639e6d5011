// What a job does when it loses a node: it ends, or goes back to its newest checkpoint in a new
// epoch (JOB-11).
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "actors/train/job_policy.hpp"

namespace troupe::train {

using enum job_state;

/// A job whose steps are made does without its nodes; any other needs each of them.
void job_policy::lose_node(const job_event& event) {
  const auto& lost = std::get<heard::node_lost>(event);
  const error why{
      errc::unavailable, fmt::format("node {} {}", lost.name, lost.how),
      "look at its log and its host; training resumes from the last checkpoint with `troupe up`"};
  if (state_ == exporting || state_ == copying) return say(why.message, true);
  recover(why, lost);
}

/// A fault begins an incident, or belongs to the one that goes on.
void job_policy::notice(const error& why, const heard::node_lost& lost) {
  ledger_.noticed(now_ns_ - lost.silent_ns, now_ns_);
  if (!std::exchange(in_incident_, true)) {
    health::incident fault;
    fault.number = ++incident_count_;
    fault.epoch_from = fault.epoch_to = epoch_;
    fault.fell_after_step = step_;
    fault.fault_ns = now_ns_ - lost.silent_ns;
    fault.noticed_ns = now_ns_;
    fault.finding = lost.finding;
    fault.what = why.message;
    incidents_.push_back(std::move(fault));
    if (incidents_.size() > incidents_kept) incidents_.pop_front();
  }
  auto& fault = incidents_.back();
  if (fault.node.empty() && !lost.name.empty()) {  // who it was is known from now on
    fault.node = lost.name;
    fault.finding = lost.finding;
    fault.what = why.message;
    fault.fault_ns = std::min(fault.fault_ns, now_ns_ - lost.silent_ns);
    fault.named_ns = now_ns_;
  } else if (!lost.name.empty() && fault.node != lost.name &&
             fault.what.find("; ") == std::string::npos) {
    fault.what += "; " + why.message;
  }
}

void job_policy::close_incident(std::string done) {
  in_incident_ = false;
  auto& fault = incidents_.back();
  fault.resumed_after_step = step_;
  fault.back_ns = now_ns_;
  fault.done = std::move(done);
  if (fault.rule != 0) fault.done += fmt::format(" (rule {})", fault.rule);
  out_.push_back(todo::keep_incident{fault});
}

/// What the rules say of the fault that goes on. Errors: the job is to end.
status job_policy::decide(const heard::node_lost& lost) {
  constexpr std::array<std::string_view, 3> words{"restart", "hold", "end"};
  const auto finding =
      health::find_finding(lost.finding).value_or(health::finding_name::dead_process);
  const auto decision = recovery_.take(finding, lost.name, now_ns_);
  const auto made = decision ? *decision : health::recovery_decision{};
  auto& fault = incidents_.back();
  fault.rule = made.rule;
  fault.action = words[static_cast<size_t>(made.action)];
  fault.times_left = made.times_left;
  out_.push_back(todo::note_decision{fault});
  if (!decision) return decision.error();
  if (decision->action == config::recovery_action::end)
    return health::ended_by_rule(decision->rule);
  if (decision->action == config::recovery_action::hold)
    static_cast<void>(requests_.pause(fmt::format("rule {} holds it", decision->rule)));
  return {};
}

/// JOB-11. Ends the job where that cannot be. `lost`: the node, without a name where none is known.
void job_policy::recover(const error& why, const heard::node_lost& lost) {
  notice(why, lost);
  if (stop_ || !recovery_.can_mend(why)) return end(why);
  if (const auto done = decide(lost); !done) return end(done.error().within(why.message));
  ++epoch_;
  incidents_.back().epoch_to = epoch_;
  ledger_.named(now_ns_);
  if (plan_.job.cluster.launch == config::launch_mode::external) ledger_.hold(now_ns_);
  say(fmt::format("{}: recovery {} begins (epoch {} -> {})", why.message, recovery_.begun(),
                  epoch_ - 1, epoch_),
      true);
  give_up_saves();
  unexplained_.reset();
  last_save_.reset();
  save_failure_.reset();
  nodes_are_back_ = false;
  requests_.step_is_lost();
  enter(recovering, "recovering");
  out_.push_back(todo::recover{epoch_, why.message});
}

/// Those whose ranks are gone before all shards were written.
void job_policy::give_up_saves() {
  pauses_.erase(pause_cause::room);
  for (auto it = orders_.begin(); it != orders_.end();) {
    const auto& [step, o] = *it;
    if (o.committing) {
      ++it;
      continue;
    }
    if (o.request != 0)
      answer(o.request,
             error{errc::unavailable,
                   fmt::format("the checkpoint of step {} is given up: the run recovers", step)});
    pace_.ended(step);
    given_up_.emplace_back(step, o.folder);
    it = orders_.erase(it);
  }
}

void job_policy::nodes_are_back(const job_event&) {
  nodes_are_back_ = true;
  ledger_.members_there(now_ns_);
  if (!orders_.empty()) return;
  for (auto& [step, folder] : std::exchange(given_up_, {}))
    out_.push_back(todo::abandon{step, folder.string()});
  return_to_checkpoint();
  requests_.go_back(step_);
  use_settings();
  begin_phase(start_phase::open_folder);
}

/// What is on the disk is what the job returns to.
void job_policy::commit_before_return(const job_event& event) {
  if (std::holds_alternative<heard::committed>(event))
    end_save(event);
  else
    abandon_save(event);
  if (nodes_are_back_ && orders_.empty()) nodes_are_back(event);
}

}  // namespace troupe::train
