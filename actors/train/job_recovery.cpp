// What a job does when it loses a node: it ends, or goes back to its newest checkpoint in a new
// epoch (JOB-11).
#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/train/job_policy.hpp"
#include "actors/train/keeper_policy.hpp"
#include "io/base/text.hpp"

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
  out_.push_back(todo::keep_incident{fault});
}

/// JOB-11. Ends the job where that cannot be. `lost`: the node, without a name where none is known.
void job_policy::recover(const error& why, const heard::node_lost& lost) {
  notice(why, lost);
  if (stop_ || !recovery_.can_mend(why)) return end(why);
  if (const auto left = recovery_.take(lost.name, now_ns_); !left)
    return end(left.error().within(why.message));
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
  back_to_.reset();
  if (copies_.any()) return begin_phase(start_phase::find_copies);
  go_back();
}

void job_policy::go_back() {
  return_to_checkpoint();
  requests_.go_back(step_);
  use_settings();
  begin_phase(start_phase::open_folder);
}

// -- copies in memory -----------------------------------------------------------------------------

/// JOB-12.
void job_policy::take_copies(const heard::phase_done& found) {
  back_to_ = copies_.choose(found.copies, resume_ ? resume_->step : 0);
  copies_.gone_back(back_to_ ? std::optional(back_to_->tag) : std::nullopt);
  go_back();
}

void job_policy::load_copies() {
  say(fmt::format("going back to step {} from {}", step_, source_text()));
  begin_phase(start_phase::load_weights);
  auto& order = std::get<todo::ask>(out_.back());
  order.copy = back_to_->tag;
  order.from_keeper = back_to_->from_keeper;
}

checkpoint::train_state job_policy::state_now() const {
  return {step_, tokens_, loss_, config_toml_, requests_.changes()};
}

/// Whether the state of the step that has ended goes into memory; with a save, that orders it.
bool job_policy::copy_if_due(bool with_save) {
  if (!copies_.due(step_) || stop_ || all_steps_done()) return false;
  copies_.ordered({epoch_, step_}, state_now());
  if (!with_save) out_.push_back(todo::copy_state{step_});
  return true;
}

const std::string& job_policy::node_of_rank(int rank) const {
  const auto& place = plan_.ranks.at(static_cast<size_t>(rank));
  return plan_.job.cluster.node.at(static_cast<size_t>(place.node)).name;
}

/// Where copies live, or why there are none.
std::string job_policy::copies_text() const {
  const auto& job = plan_.job;
  if (!copies_.taken())
    return "checkpoint.memory: no copies are taken, since there is one node alone: a copy needs "
           "the memory of another one";
  const int keeper = copies_.keepers().front();
  const auto every = job.checkpoint.memory.every;
  return fmt::format(
      "copies in memory after {}: each rank's share in its own process and in another node's "
      "(rank 0 of {}: {}, as rank {}){}",
      every == 1 ? "each step" : fmt::format("every {} steps", every), node_of_rank(0),
      node_of_rank(keeper), keeper,
      on_one_host(job) ? "; all nodes are on one host, which they do not outlive" : "");
}

/// "the memory of node3 (142 MiB)": who kept what is fetched.
std::string job_policy::source_text() const {
  std::set<std::string> nodes;
  for (size_t r = 0; r < back_to_->from_keeper.size(); ++r)
    if (back_to_->from_keeper[r]) nodes.insert(node_of_rank(copies_.keepers()[r]));
  if (nodes.empty()) return "memory";
  return fmt::format("the memory of {} ({})", fmt::join(nodes, ", "),
                     bytes_text(back_to_->fetched_bytes));
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
