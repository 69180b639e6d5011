// A job that goes back because a person or the loss wants it so (JOB-17).
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/job/skipped_data.hpp"
#include "actors/train/job_policy.hpp"
#include "io/base/counted.hpp"

namespace troupe::train {

using enum job_state;

namespace {

/// Settings within so many steps before a spike are named with it.
constexpr uint64_t named_settings_steps = 100;

std::string steps_text(uint64_t steps) {
  return fmt::format("{} step{}", steps, steps == 1 ? "" : "s");
}

}  // namespace

// -- what a person orders -------------------------------------------------------------------------

/// JOB-17: at once where no step runs.
void job_policy::ask_rewind(const job_event& event) {
  if (!takes_requests()) return refuse(event);
  const auto& asked = std::get<heard::rewind>(event);
  if (const auto good = can_rewind(asked); !good) return answer(asked.request, good.error());
  rewind_.emplace().what = {asked.at_most, asked.skip_steps, asked.reason};
  const auto data = asked.skip_steps == 0
                        ? std::string()
                        : fmt::format("; the data of {} from there on are passed over",
                                      steps_text(asked.skip_steps));
  const bool between = state_ == paused && !pauses_.contains(pause_cause::room);
  const bool in_step = state_ == stepping || state_ == validating;
  answer(asked.request,
         reply{fmt::format("goes back {} to the newest checkpoint of step {} or before{}",
                           between        ? "now"
                           : in_step      ? fmt::format("after step {}", save_point())
                           : falls_back() ? "once the run has recovered"
                                          : "before the next step",
                           asked.at_most, data)});
  if (between) rewind_now();
}

status job_policy::can_rewind(const heard::rewind& asked) const {
  if (!plan_.job.recovery.enabled)
    return error{errc::usage, "the run cannot go back: recovery.enabled is false",
                 "stop it; checkpoint.resume takes the path of the checkpoint to go on from"};
  if (rewind_)
    return error{errc::usage,
                 fmt::format("the run goes back already, to step {} or before",
                             rewind_->what.at_most)};
  if (!falls_back() && asked.at_most > step_)
    return error{errc::usage, fmt::format("step {} is not made yet: step {} is the last one",
                                          asked.at_most, step_)};
  if (!resume_)
    return error{errc::usage, "there is no checkpoint to go back to yet",
                 "`checkpoint` saves one after the step"};
  if (asked.at_most < began_after_)
    return error{errc::usage,
                 fmt::format("the run cannot go back behind step {}, which it began from",
                             began_after_),
                 "stop it; checkpoint.resume takes the path of the checkpoint to go on from"};
  if (asked.skip_steps > checkpoint::most_skipped_steps)
    return error{errc::usage,
                 fmt::format("the data of {} cannot be passed over at once: {} "
                             "at most",
                             counted(asked.skip_steps, "step"), checkpoint::most_skipped_steps)};
  if (asked.skip_steps > 0 && skipped_.size() >= checkpoint::skipped_limit)
    return error{errc::usage, fmt::format("{} parts of the data are passed over already",
                                          skipped_.size())};
  return {};
}

// -- what the loss says ---------------------------------------------------------------------------

/// "the loss of step 7 is not a number".
std::string job_policy::bad_loss_text() const {
  const double culprit = std::isfinite(loss_) ? report_.grad_norm : loss_;
  return fmt::format("the {} of step {} is {}", std::isfinite(loss_) ? "gradient norm" : "loss",
                     step_, std::isnan(culprit) ? "not a number" : "infinite");
}

/// Whether the job goes back at once: the step's weights are of no use.
bool job_policy::judge_loss(bool finite) {
  using health::finding_name;
  if (!finite) {
    out_.push_back(todo::find{{finding_name::bad_loss}, {0, 0, "", bad_loss_text()}});
    if (rewind_ && !stop_) return true;  // a person was quicker
    return rewind_for_loss(finding_name::bad_loss, step_, bad_loss_text());
  }
  const auto seen = losses_.judge(step_, loss_);
  if (!seen) {
    if (std::exchange(spike_told_, false))
      out_.push_back(todo::find{{finding_name::loss_spike}, {}, true});
    return false;
  }
  auto what = fmt::format("the loss rose in step {} beyond what the {} before it varied",
                          seen->first_step, steps_text(seen->steps));
  std::vector<std::string> set;
  for (const auto& s : requests_.changes())
    if (s.step + named_settings_steps > seen->first_step && s.step <= seen->first_step)
      set.push_back(fmt::format("{} was set to {} for step {}", s.key, s.value, s.step));
  if (!set.empty()) what += fmt::format("; {}", fmt::join(set, ", "));
  out_.push_back(todo::find{{finding_name::loss_spike}, {seen->loss, seen->at_most, "nats", what}});
  if (!std::exchange(spike_told_, true))
    rewind_for_loss(finding_name::loss_spike, seen->first_step, what);
  return false;
}

/// JOB-18. Whether the job will go back.
bool job_policy::rewind_for_loss(health::finding_name finding, uint64_t first_step,
                                 const std::string& what) {
  const auto& rules = plan_.job.recovery;
  if (rules.on_spike == config::spike_action::tell || !rules.enabled || rewind_ || !resume_ ||
      stop_)
    return false;
  const bool skips = rules.on_spike == config::spike_action::rewind_skip;
  const auto not_again = [&](std::string_view why) {
    say(fmt::format("{}: the run does not go back again, since {}", what, why), true);
    return false;
  };
  if (!skips && rewound_for_ == first_step)
    return not_again("the same steps were made again and came to the same");
  if (skips && skipped_.size() >= checkpoint::skipped_limit)
    return not_again(fmt::format("{} parts of the data are passed over already", skipped_.size()));
  if (const auto budget = recovery_.take_unruled(now_ns_); !budget)
    return not_again(budget.error().message);
  rewound_for_ = first_step;
  const auto before = first_step - 1;
  const auto back = static_cast<uint64_t>(rules.spike_steps_back);
  rewind_.emplace().what = {before - std::min(before, back), 0, what};
  rewind_->before = before;
  rewind_->finding = facts_of(finding).name;
  if (skips) rewind_->skip_until = tokens_;
  return true;
}

// -- going back -----------------------------------------------------------------------------------

/// JOB-17. Between two steps.
void job_policy::rewind_now() {
  auto& r = *rewind_;
  r.begun = true;
  at_most_ = r.what.at_most;
  copies_.gone_back(std::nullopt);  // they may be newer
  copies_believed_ = {};
  const bool of_person = r.finding.empty();
  const auto why = of_person ? fmt::format("the run goes back to step {} or before, as ordered{}{}",
                                           r.what.at_most, r.what.reason.empty() ? "" : ": ",
                                           r.what.reason)
                             : r.what.reason;
  notice({errc::unavailable, why}, {"", why, of_person ? "rewound" : r.finding, 0, true});
  if (of_person) recovery_.take_ordered();
  begin_epoch({errc::unavailable, why});
}

bool job_policy::is_rewinding() const {
  return rewind_ && rewind_->begun && !rewind_->nowhere;
}

/// There is no checkpoint as old as was wanted.
void job_policy::rewind_less(const error& why) {
  const auto before = rewind_->before;
  if (before > *at_most_) {  // JOB-18
    at_most_ = before;
    if (must_choose()) return choose_checkpoint();
  } else {
    say(fmt::format("the run cannot go back: {}", render(why)), true);
    rewind_->nowhere = rewind_->applied = true;
  }
  go_back();
}

/// What was set since does not hold where a person goes back (REQ-6), nor where it is not known any
/// more what those steps used.
void job_policy::restore_settings() {
  const bool ordered = is_rewinding() && rewind_->finding.empty() && !rewind_->applied;
  if (!ordered && requests_.can_go_back(step_)) return requests_.go_back(step_);
  const auto set = resume_ ? resume_->state.set : std::vector<checkpoint::setting_change>();
  for (auto& sentence : requests_.rewind(step_, set)) say(std::move(sentence));
}

void job_policy::pass_over_data() {
  auto& r = *rewind_;
  if (std::exchange(r.applied, true)) return;  // a fault came between, and it is the same place
  const auto& train = plan_.job.train;
  const auto row_of = [&](uint64_t tokens) {  // its first token: rows are passed over whole
    return tokens - tokens % static_cast<uint64_t>(train.seq_len);
  };
  const auto rows = r.what.skip_steps * static_cast<uint64_t>(train.batch);
  const auto from = row_of(tokens_);
  const auto until =
      row_of(std::max(r.skip_until, tokens_after(tokens_, rows, train.seq_len, skipped_)));
  if (until <= from) return;
  const auto passed =
      until - from - skipped_before(until, skipped_) + skipped_before(from, skipped_);
  r.skipped_steps = passed / static_cast<uint64_t>(plan_.job.tokens_per_step());
  skipped_ = with_part(std::move(skipped_), from, until);
  say(fmt::format("passing over the data of {} after step {}", steps_text(r.skipped_steps), step_));
}

/// The job goes on. What was wrong with its loss is not any more, unless it is where it was; what
/// it passes over is to be on the disk soon: the checkpoint behind it does not say so.
void job_policy::end_rewind() {
  using health::finding_name;
  if (!rewind_->nowhere) {
    for (const auto name : {finding_name::bad_loss, finding_name::loss_spike})
      out_.push_back(todo::find{{name}, {}, true});
    spike_told_ = false;
  }
  if (rewind_->skipped_steps > 0) save_wanted_ = true;
  rewind_.reset();
}

std::string job_policy::rewind_text() const {
  const auto steps = rewind_->skipped_steps;
  if (rewind_->nowhere) return "there was no checkpoint to go back to";
  return steps == 0 ? "it went back"
                    : fmt::format("it went back and passed over the data of {}", steps_text(steps));
}

/// The place in the data behind the next step.
uint64_t job_policy::tokens_after_step() const {
  const auto& train = plan_.job.train;
  return tokens_after(tokens_, static_cast<uint64_t>(train.batch), train.seq_len, skipped_);
}

}  // namespace troupe::train
