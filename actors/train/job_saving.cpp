// The job's checkpoints: when one begins, how it ends, in which order they are committed (JOB-7).
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "actors/train/job_policy.hpp"
#include "io/base/counted.hpp"
#include "io/checkpoint/catalog.hpp"

namespace troupe::train {

using enum job_state;

/// JOB-7.
void job_policy::begin_save(const std::filesystem::path& folder, uint64_t request, bool copy) {
  order o;
  o.state = state_now();
  o.validation_loss = report_.validation_loss;
  o.folder = folder / io::checkpoint::partial_name(step_, epoch_);
  o.request = request;
  pace_.begun(step_);
  // While it is paused, steps may still be added.
  const bool last =
      last_save_ || stop_ || (state_ != job_state::paused && all_steps_done() && !rewind_);
  out_.push_back(todo::save{step_, o.folder.string(), copy, {tokens_, loss_}, last});
  orders_[step_] = std::move(o);
  show_while_paused();
}

void job_policy::commit_save(const job_event& event) {
  const auto& saved = std::get<heard::shards_saved>(event);
  const auto it = orders_.find(saved.step);
  if (it == orders_.end() && is_given_up(saved.step)) return;
  if (it == orders_.end()) return refuse(event);
  it->second.bytes = saved.bytes;
  it->second.written = true;
  commit_next();
}

bool job_policy::commits() const {
  return std::any_of(orders_.begin(), orders_.end(),
                     [](const auto& open) { return open.second.committing; });
}

/// JOB-7.
void job_policy::commit_next() {
  if (commits()) return;
  const auto next = std::find_if(orders_.begin(), orders_.end(),
                                 [](const auto& open) { return open.second.written; });
  if (next != orders_.end()) commit(next->first, next->second);
}

/// With the loss of the last state, if that is known by now. It is not waited for: a second signal
/// ends the head at once, and what is written but not committed is nothing.
void job_policy::commit(uint64_t step, order& o) {
  o.committing = true;
  if (report_.step == step) o.validation_loss = report_.validation_loss;
  out_.push_back(todo::commit{step, o.state.tokens, o.state.loss, o.validation_loss,
                              o.folder.string(), checkpoint::format_state(o.state)});
}

void job_policy::end_save(const job_event& event) {
  const auto& done = std::get<heard::committed>(event);
  const auto it = orders_.find(done.step);
  if (it == orders_.end()) return refuse(event);
  std::erase(unsound_, done.folder);
  if (done.step >= saved_step_ && !done.folder.empty()) {
    saved_step_ = done.step;
    checkpoint_ = done.folder;
    resume_ = checkpoint::resume_point{done.folder, done.step, {}, it->second.state};
    if (it->second.validation_loss >= 0)
      resume_->state.validation_loss = it->second.validation_loss;
    requests_.is_saved(done.step);
    note_account();
  }
  ++checkpoints_;
  checkpoint_bytes_ += it->second.bytes;
  if (last_save_ && done.step == step_ && it->second.validation_loss < 0)
    without_loss_ = done;
  else
    offer_copy(done);
  if (state_ != validating) loss_is_known();
  save_ended(done.step, {});
}

/// JOB-21: or it is known that it will not be.
void job_policy::loss_is_known() {
  const auto done = std::exchange(without_loss_, {});
  if (!done) return;
  if (report_.step == done->step && report_.validation_loss >= 0 && !done->folder.empty()) {
    out_.push_back(todo::amend{done->folder, report_.validation_loss});
    if (resume_ && resume_->step == done->step)
      resume_->state.validation_loss = report_.validation_loss;
  }
  offer_copy(*done);
}

/// The second tier may copy it now, unless it was saved there.
void job_policy::offer_copy(const heard::committed& done) {
  if (second_.empty() || done.folder.empty()) return;
  if (at_most_ && done.step > *at_most_) return;  // JOB-13: it may be wrong
  if (std::filesystem::path(done.folder).parent_path() == second_) return;
  out_.push_back(todo::copy{done.step, done.folder});
}

/// No step shows a paused job's numbers anew.
void job_policy::show_while_paused() {
  if (state_ == paused && !pauses_.contains(pause_cause::room)) out_.push_back(todo::show{});
}

void job_policy::abandon_save(const job_event& event) {
  const auto& failed = std::get<heard::save_failed>(event);
  const auto it = orders_.find(failed.step);
  if (it == orders_.end() && is_given_up(failed.step)) return;
  if (it == orders_.end()) return refuse(event);
  out_.push_back(todo::abandon{failed.step, it->second.folder.string()});
  save_ended(failed.step, failed.why);
}

/// JOB-7 holds after the end, too.
void job_policy::abandon_late(const job_event& event) {
  const auto* saved = std::get_if<heard::shards_saved>(&event);
  const auto it = orders_.find(saved ? saved->step : std::get<heard::save_failed>(event).step);
  if (it == orders_.end()) return refuse(event);
  out_.push_back(todo::abandon{it->first, it->second.folder.string()});
  orders_.erase(it);
}

void job_policy::copy_late(const job_event& event) {
  const auto& done = std::get<heard::committed>(event);
  if (orders_.erase(done.step) == 0) return refuse(event);
  offer_copy(done);
}

/// FSV-1; of the last one each place and cause is told (LST-3).
void job_policy::tell_failed_save(uint64_t step, const std::string& place, const error& why) {
  save_failure_ = why;
  std::optional<uint64_t> before;
  if (!last_save_ || step != step_)
    before = failed_saves_.failed(place, why, now_ns_);
  else if (last_save_->is_news(fmt::format("checkpoint of step {} in {}", step, place), why))
    before = failed_saves_.take_counted();
  if (before)
    say(fmt::format("checkpoint of step {} failed{}: {}", step,
                    *before > 0 ? fmt::format(", as {} before it did", *before) : "", render(why)),
        true);
}

void job_policy::tell_counted() {
  if (const auto n = failed_saves_.take_counted(); n > 0)
    say(fmt::format("{} failed as the one did that a warning names",
                    counted(n, "further checkpoint")),
        true);
}

void job_policy::save_ended(uint64_t step, const status& how) {
  const auto o = std::move(orders_.extract(step).mapped());
  pace_.ended(step);
  hold_good();
  commit_next();
  if (how)
    tell_counted();
  else
    tell_failed_save(step, o.folder.parent_path().string(), how.error());
  if (o.request != 0)
    answer(o.request,
           how ? result<reply>(reply{fmt::format("saved {}", checkpoint_)}) : how.error());
  show_while_paused();
  if (pauses_.contains(pause_cause::room) && pace_.has_room()) {
    pauses_.erase(pause_cause::room);
    ledger_.save_blocked(waits_since_ns_, now_ns_);
    step_wait_ms_ = static_cast<double>(now_ns_ - waits_since_ns_) / 1e6;
    checkpoint_wait_ms_ += step_wait_ms_;
    begin_save(committer_folder_);
    return next_step();
  }
  if (state_ == settling && pace_.open().empty()) return judge_last();
  if (state_ == paused && leaving_) let_node_go();
}

}  // namespace troupe::train
