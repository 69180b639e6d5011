// What a job does when something fails or it loses a node: it ends, or goes back to a checkpoint in
// a new epoch (JOB-11).
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/train/drive_failure.hpp"
#include "actors/train/job_policy.hpp"
#include "actors/train/keeper_policy.hpp"
#include "io/base/text.hpp"

namespace troupe::train {

using enum job_state;

namespace {

/// How long a better word is waited for. A coordinator that sees a connection break waits half of
/// it for its launcher's word.
constexpr int64_t word_patience_ns = 2'000'000'000;

double seconds(int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

/// " [dead_process, noticed after 0.2 s]"; nothing of what a person ordered.
std::string noticed_text(const heard::node_lost& lost) {
  if (lost.ordered || !health::find_finding(lost.finding)) return {};
  return fmt::format(" [{}, noticed after {:.1f} s]", lost.finding, seconds(lost.silent_ns));
}

/// What a load fails of that a reader finds in the files.
bool is_of_files(errc code) {
  return code == errc::bad_data || code == errc::io || code == errc::not_found ||
         code == errc::version_mismatch;
}

}  // namespace

// -- what fails -----------------------------------------------------------------------------------

void job_policy::fail(const job_event& event) {
  const auto& why = std::get<heard::ask_failed>(event).why;
  copies_.load_failed(why);
  if (state_ == loading && resume_ && !back_to_ && is_of_files(why.code))
    return leave_checkpoint(why);
  if (state_ == opening && phase_asked_ == start_phase::choose_checkpoint) {
    const bool rewinds = is_rewinding() && at_most_;
    if (rewinds && why.code == errc::bad_data) return rewind_less(why);
    if (!rewinds && back_if_can_ && why.code == errc::bad_data) return go_on_from_newest();
    if (!rewinds) {
      say(render(why), true);
      return end(*end_if_none_);
    }
  }
  if (state_ == validating && last_save_) {  // JOB-21
    say(fmt::format("the state of step {} is not validated: {}", step_, render(why)), true);
    may_validate_ = true;
    return settle();
  }
  if (!stop_ && recovery_.can_mend(why)) return await_word(why);
  end_with_word(why);
}

/// JOB-10.
void job_policy::end_with_word(const error& why) {
  if (why.code != errc::unavailable) return end(why);
  await_word(why);
}

/// What a failure is called of which nobody has said better. What a swap drive fails its rank says.
heard::node_lost job_policy::unexplained_as(const error& why) const {
  const bool of_drive = why.is(swap_drive_fails);
  return {"", "", of_drive ? "disk_failing" : "stuck_collective"};
}

void job_policy::await_word(const error& why) {
  if (recovery_.can_mend(why)) notice(why, unexplained_as(why));
  unexplained_ = why;
  enter(explaining, "ending");
  wait(word_patience_ns);
}

void job_policy::end_unexplained(const job_event& event) {
  if (now_ns_ < waits_until_ns_) return refuse(event);
  const auto why = *std::exchange(unexplained_, {});
  recover(why, unexplained_as(why));
}

// -- a node that is lost --------------------------------------------------------------------------

/// A job whose steps are made does without its nodes; any other needs each of them.
void job_policy::lose_node(const job_event& event) {
  const auto& lost = std::get<heard::node_lost>(event);
  const error why{
      errc::unavailable, fmt::format("node {} {}", lost.name, lost.how),
      "look at its log and its host; training resumes from the last checkpoint with `troupe up`"};
  if (lost.ordered && (stop_ || no_step_follows()))  // JOB-12
    return say(fmt::format("node {} stays: the run saves and ends", lost.name), true);
  if (state_ == exporting || state_ == copying) return say(why.message, true);
  recover(why, lost);
}

bool job_policy::no_step_follows() const {
  return state_ == settling || state_ == waiting || state_ == reopening || state_ == exporting ||
         state_ == copying || (state_ == validating && last_save_);
}

/// "named 0.2 s, re-formed 0.5 s, restored 0.3 s": where the time of the recovery went.
std::string job_policy::phases_text() const {
  using enum health::time_use;
  const auto since = [&](health::time_use use) {
    return ledger_.whole()[use] - time_before_incident_[use];
  };
  auto out = fmt::format("named {:.1f} s, ", seconds(since(diagnose)));
  if (const auto away = since(head_away); away > 0)
    out = fmt::format("no head for {:.1f} s, ", seconds(away));
  if (const auto waited = since(waiting_for_nodes); waited > 0)
    out += fmt::format("waited for nodes {:.1f} s, ", seconds(waited));
  return out + fmt::format("re-formed {:.1f} s, restored {:.1f} s", seconds(since(re_form)),
                           seconds(since(restore)));
}

/// A fault begins an incident, or belongs to the one that goes on.
void job_policy::notice(const error& why, const heard::node_lost& lost) {
  if (!in_incident_) time_before_incident_ = ledger_.whole();
  ledger_.noticed(now_ns_ - lost.silent_ns, now_ns_);
  if (!std::exchange(in_incident_, true)) {
    nodes_before_ = nodes_;
    replicas_before_ = plan_.job.parallel.data;
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
  const auto finding =
      health::find_finding(lost.finding).value_or(health::finding_name::dead_process);
  const auto decision = recovery_.take(finding, lost.name, now_ns_);
  const auto made = decision ? *decision : health::recovery_decision{};
  auto& fault = incidents_.back();
  fault.rule = made.rule;
  fault.action = config::recovery_action_words[static_cast<size_t>(made.action)];
  fault.times_left = made.times_left;
  out_.push_back(todo::note_decision{fault});
  if (!decision) return decision.error();
  if (decision->action == config::recovery_action::end)
    return health::ended_by_rule(decision->rule);
  if (decision->action == config::recovery_action::hold)
    requests_.hold(fmt::format("rule {} holds it", decision->rule));
  return {};
}

/// JOB-11. Ends the job where that cannot be. `lost`: the node, without a name where none is known.
void job_policy::recover(const error& why, const heard::node_lost& lost) {
  notice(why, lost);
  if (stop_ || (!lost.ordered && !recovery_.can_mend(why))) return end(why);
  if (lost.ordered)
    recovery_.take_ordered();
  else if (const auto done = decide(lost); !done)
    return end(done.error().within(why.message));
  begin_epoch(why, noticed_text(lost));
}

void job_policy::begin_epoch(const error& why, const std::string& noticed) {
  ++epoch_;
  incidents_.back().epoch_to = epoch_;
  ledger_.named(now_ns_);
  if (plan_.job.cluster.launch == config::launch_mode::external) ledger_.hold(now_ns_);
  say(fmt::format("{}{}: recovery {} begins (epoch {} -> {})", why.message, noticed,
                  recovery_.begun(), epoch_ - 1, epoch_),
      true);
  loss_is_known();
  give_up_saves();
  unexplained_.reset();
  left_validation_ = may_validate_ = false;
  last_save_.reset();
  save_failure_.reset();
  nodes_are_back_ = false;
  leaving_.reset();
  pauses_.erase(pause_cause::nodes);
  requests_.step_is_lost();
  note_account();
  enter(recovering, "recovering");
  out_.push_back(todo::recover{epoch_, why.message});
}

/// A save whose ranks may still say how it went.
bool job_policy::is_given_up(uint64_t step) const {
  return std::any_of(given_up_.begin(), given_up_.end(),
                     [&](const auto& save) { return save.first == step; });
}

/// Those whose ranks are gone before all shards were written.
void job_policy::give_up_saves() {
  pauses_.erase(pause_cause::room);
  for (auto it = orders_.begin(); it != orders_.end();) {
    const auto& [step, o] = *it;
    if (o.written) {
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

void job_policy::nodes_are_back(const job_event& event) {
  if (const auto* there = std::get_if<heard::admitted>(&event)) {
    nodes_ = there->nodes;
    lay_out(*there);
    const bool others = plan_.job.parallel.data != replicas_before_;
    if (const auto what = others ? replicas_text() : takeovers(); !what.empty())
      say(fmt::format("recovery {} (epoch {} -> {}): {}", recovery_.begun(),
                      incidents_.back().epoch_from, epoch_, what));
  }
  nodes_are_back_ = true;
  ledger_.members_there(now_ns_);
  if (!orders_.empty()) return;
  for (auto& [step, folder] : std::exchange(given_up_, {}))
    out_.push_back(todo::abandon{step, folder.string()});
  back_to_.reset();
  if (must_choose()) return choose_checkpoint();
  if (copies_.any()) return begin_phase(start_phase::find_copies);
  go_back();
}

/// What the job is where it goes on from, or begins.
void job_policy::return_to_checkpoint() {
  const auto* from = back_to_ ? &back_to_->state : resume_ ? &resume_->state : nullptr;
  step_ = back_to_ ? back_to_->tag.step : resume_ ? resume_->step : 0;
  loss_ = from ? from->loss : 0;
  tokens_ = from ? from->tokens : 0;
  if (tokens_ == 0)  // a checkpoint that does not say
    tokens_ = step_ * static_cast<uint64_t>(plan_.job.tokens_per_step());
  parts_.clear();
  if (report_.step == step_ && step_ > 0 && all_steps_done()) return;  // of that very state
  report_ = {};
  report_.validation_loss = -1;
}

void job_policy::go_back() {
  at_most_.reset();
  back_if_can_ = false;
  return_to_checkpoint();
  for (auto* good : {&compared_, &rechecked_}) good->step = std::min(good->step, step_);
  losses_.go_back(step_);
  restore_settings();
  if (is_rewinding()) pass_over_data();
  use_settings();
  begin_phase(start_phase::open_folder);
}

// -- a lost head ----------------------------------------------------------------------------------

void job_policy::remember(const job_memory& memory) {
  for (auto& left_out : requests_.remember(memory)) say(std::move(left_out), true);
  account_ = memory.account;
  lost_head_ = memory.lost;
  if (lost_head_) copies_.believe(copies_believed_ = memory.copies);
  if (!memory.skipped.empty()) skipped_ = memory.skipped;  // they only grow
  if (memory.rewind && resume_) rewind_.emplace().what = *memory.rewind;
  if (rewind_ && rewind_->what.at_most < began_after_) {
    say(fmt::format("the run does not go back to step {} or before, as ordered: the head that was "
                    "to do it is lost, and this one began from step {}",
                    rewind_->what.at_most, began_after_),
        true);
    rewind_.reset();
  }
  was_paused_ = memory.paused;
  incident_count_ = account_.incidents;
  recovery_.remember(account_.recoveries);
}

job_memory job_policy::memory() const {
  auto out = requests_.memory();
  out.account = account_;
  out.copies = copies_believed_;
  out.skipped = skipped_;
  if (rewind_ && rewind_->finding.empty() && !rewind_->applied) out.rewind = rewind_->what;
  return out;
}

std::vector<job_command> job_policy::begin(int64_t now_ns) {
  now_ns_ = now_ns;
  if (lost_head_)
    go_on_for(*lost_head_);
  else
    ledger_.begin(now_ns);
  return std::exchange(out_, {});
}

/// Until when the lost head was there, by the account's clock.
int64_t job_policy::head_there_until_ns() const {
  return std::clamp(lost_head_->at_ns, account_.at_ns, std::max(account_.at_ns, now_ns_));
}

/// JOB-16. What it made since the account's last line is made again, as far as is known yet.
void job_policy::go_on_for(const lost_head& lost) {
  const auto last_step = std::max(lost.after_step, step_);  // one that is saved may not be told yet
  auto time = time_before_incident_ = account_.time;
  if (account_.at_ns > 0) {
    const auto at_ns = head_there_until_ns();
    time[was_paused_ ? health::time_use::paused : health::time_use::repeated] +=
        at_ns - account_.at_ns;
    time[health::time_use::head_away] += std::max<int64_t>(0, now_ns_ - at_ns);
  }
  ledger_.begin_after(time, account_.steps_repeated, last_step, now_ns_);
  recovery_.take_ordered();
  recovery_.has_begun();  // not a start that a person watches (RCV-2)
  in_incident_ = true;
  replicas_before_ = plan_.job.parallel.data;
  health::incident fault;
  fault.number = ++incident_count_;
  fault.finding = facts_of(health::finding_name::head_lost).name;
  fault.node = "head";
  fault.what = "the head " + lost.how;
  fault.epoch_from = account_.epoch;
  fault.epoch_to = epoch_;
  fault.fell_after_step = last_step;
  fault.fault_ns = fault.noticed_ns = fault.named_ns = std::min(lost.at_ns, now_ns_);
  say(fmt::format("{}: recovery {} begins (epoch {} -> {})", fault.what, recovery_.begun(),
                  fault.epoch_from, epoch_),
      true);
  incidents_.push_back(std::move(fault));
}

/// Of the time that the lost head had since its account's last line, what made the steps that
/// copies have kept was of use.
void job_policy::account_for_copies() {
  if (was_paused_ || account_.at_ns == 0) return;
  const auto saved = resume_ ? resume_->step : 0;
  const auto made = std::max(incidents_.back().fell_after_step, back_to_->tag.step) - saved;
  const auto kept = static_cast<double>(back_to_->tag.step - saved) / static_cast<double>(made);
  const auto had_ns = static_cast<double>(head_there_until_ns() - account_.at_ns);
  ledger_.was_of_use(static_cast<int64_t>(had_ns * kept));
}

/// As if the job went back at once to what it is saved by.
void job_policy::note_account() {
  auto ledger = ledger_;
  ledger.noticed(now_ns_, now_ns_);
  ledger.named(now_ns_);
  ledger.restored(saved_step_, epoch_, now_ns_);
  account_ = {epoch_,         incident_count_, recovery_.made(),
              ledger.whole(), now_ns_,         ledger_.steps_repeated()};
}

// -- an older checkpoint --------------------------------------------------------------------------

/// JOB-15. All ranks are asked and each one's word counts: what one cannot load none trains from.
void job_policy::leave_checkpoint(const error& why) {
  const error none_older{why.code, why.message, why.hint, start_unsound};
  if (recoveries() == 0 || stop_) return end(none_older);
  unsound_.push_back(resume_->path.string());
  end_if_none_ = none_older;
  begin_epoch(why);
}

bool job_policy::must_choose() const {
  if (!resume_) return false;
  return (at_most_ && resume_->step > *at_most_) ||
         std::find(unsound_.begin(), unsound_.end(), resume_->path.string()) != unsound_.end();
}

void job_policy::choose_checkpoint() {
  begin_phase(start_phase::choose_checkpoint);
  auto& asked = std::get<todo::ask>(out_.back());
  const auto failed = std::find(unsound_.begin(), unsound_.end(), resume_->path.string());
  if (failed != unsound_.end()) {  // it comes last; where nobody has failed no file is suspect
    std::rotate(failed, failed + 1, unsound_.end());
    asked.unsound = unsound_;
  }
  asked.at_most = at_most_.value_or(resume_->step);
}

void job_policy::take_checkpoint(const checkpoint::resume_point& chosen) {
  resume_ = chosen;
  saved_step_ = chosen.step;
  checkpoint_ = chosen.path.string();
  for (auto* good : {&compared_, &rechecked_})
    if (good->held > chosen.step) out_.push_back(todo::hold{std::exchange(good->held, 0), false});
  if (copies_.any()) return begin_phase(start_phase::find_copies);
  go_back();
}

// -------------------------------------------------------------------------------------------------

/// "spare node4 for node2"; empty: everybody is where he was.
std::string job_policy::takeovers() const {
  std::string out;
  for (size_t place = 0; place < std::min(nodes_.size(), nodes_before_.size()); ++place)
    if (nodes_[place] != nodes_before_[place])
      out += fmt::format("{}spare {} for {}", out.empty() ? "" : ", ", nodes_[place],
                         nodes_before_[place]);
  return out;
}

std::string job_policy::what_was_done() const {
  if (rewind_ && rewind_->begun) return rewind_text();
  if (plan_.job.parallel.data != replicas_before_) return replicas_text();
  if (auto who = takeovers(); !who.empty()) return who;
  const auto& node = incidents_.back().node;
  if (node.empty()) return "its ranks began anew";
  const bool launches = plan_.job.cluster.launch != config::launch_mode::external;
  return node + (launches ? " was started again" : " joined again");
}

// -- copies in memory -----------------------------------------------------------------------------

/// JOB-14.
void job_policy::take_copies(const heard::phase_done& found) {
  back_to_ = copies_.choose(found.copies, resume_ ? resume_->step : 0);
  copies_.gone_back(back_to_ ? std::optional(back_to_->tag) : std::nullopt);
  if (back_to_ && lost_head_ && incidents_.size() == 1) account_for_copies();
  go_back();
}

void job_policy::load_copies() {
  say(fmt::format("going back to step {} from {}", step_, source_text()));
  begin_phase(start_phase::load_weights);
  auto& asked = std::get<todo::ask>(out_.back());
  asked.copy = back_to_->tag;
  asked.from_keeper = back_to_->from_keeper;
}

checkpoint::train_state job_policy::state_now() const {
  const bool fewer = replicas() < replicas_configured();
  return {step_,    tokens_,
          loss_,    config_toml_,
          requests_.changes(), skipped_,
          fewer ? int64_t{replicas_configured()} : 0};
}

/// Whether the state of the step that has ended goes into memory; with a save, that orders it.
bool job_policy::copy_if_due(bool with_save) {
  if (!copies_.due(step_) || stop_ || all_steps_done()) return false;
  copies_.ordered({epoch_, step_}, state_now());
  if (!with_save) out_.push_back(todo::copy_state{step_, {tokens_, loss_}});
  return true;
}

const std::string& job_policy::node_of_rank(int rank) const {
  return nodes_.at(static_cast<size_t>(plan_.ranks.at(static_cast<size_t>(rank)).node));
}

/// Where copies live, or why there are none.
std::string job_policy::copies_text() const {
  const auto& job = plan_.job;
  if (!copies_.taken())
    return "checkpoint.memory: no copies are taken, since there is one node alone: a copy needs "
           "the memory of another one";
  const bool unknown = job.cluster.launch == config::launch_mode::external;
  const int keeper = copies_.keepers().front();
  const auto every = job.checkpoint.memory.every;
  return fmt::format(
      "copies in memory after {}: each rank's share in its own process and in another node's "
      "(rank 0 of {}: {}, as rank {}){}",
      every == 1 ? "each step" : fmt::format("every {} steps", every), node_of_rank(0),
      node_of_rank(keeper), keeper,
      on_one_host(job) ? "; all nodes are on one host, which they do not outlive"
      : unknown        ? "; whether those are on other hosts is not known here"
                       : "");
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
