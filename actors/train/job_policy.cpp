// What each rule of the table does (job_table.cpp).
#include "actors/train/job_policy.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/job/skipped_data.hpp"
#include "actors/train/keeper_policy.hpp"
#include "actors/train/resume_policy.hpp"
#include "io/base/counted.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/config/load.hpp"

namespace troupe::train {

namespace {

using enum job_state;

struct phase_facts {
  job_state state;
  std::string_view phase;  ///< as a person reads it; empty: still the one before
};

constexpr std::array<phase_facts, 10> phases{{{opening, "opening the checkpoint folder"},
                                             {opening, "opening the data"},
                                             {building, "building the stages"},
                                             {building, ""},
                                             {building, ""},
                                             {connecting, "connecting the data plane"},
                                             {connecting, ""},
                                             {loading, "loading weights"},
                                             {opening, "looking for copies in memory"},
                                             {opening, "choosing an older checkpoint"}}};

const phase_facts& facts_of(start_phase phase) {
  return phases[static_cast<size_t>(phase)];
}

/// As a person reads it.
std::string_view phase_of(const std::set<pause_cause>& pauses) {
  const bool by_person = pauses.contains(pause_cause::person);
  return pauses.contains(pause_cause::power) && !by_person ? "waiting for power" : "paused";
}

constexpr std::string_view how_to_end_without =
    "a first Ctrl-C or SIGTERM asks it to end, a second one a second later ends it without";

bool due(uint64_t step, int64_t every) {
  return every > 0 && step % static_cast<uint64_t>(every) == 0;
}

}  // namespace

job_policy::job_policy(job_plan plan, uint32_t epoch,
                       const std::optional<checkpoint::resume_point>& resume,
                       std::filesystem::path second)
    : plan_(std::move(plan)),
      whole_(plan_),
      epoch_(epoch),
      second_(std::move(second)),
      resume_(resume),
      lr_(lr_of(plan_.job.train)),
      copies_(plan_.job.checkpoint.memory.every, keepers_of(plan_.job)),
      config_toml_(config::to_toml(plan_.job)),
      recovery_(plan_.job.recovery) {
  losses_ = health::loss_policy(plan_.job.health.spike_deviations);
  if (resume_) skipped_ = resume_->state.skipped;
  return_to_checkpoint();
  compared_.step = rechecked_.step = began_after_ = step_;
  if (resume_) {
    if (lies_in_place(resume_->path, plan_.job.checkpoint)) saved_step_ = step_;  // JOB-9
    checkpoint_ = resume_->path.string();
  }
  requests_ = requests_policy(
      plan_.job, step_, resume_ ? resume_->state.set : decltype(checkpoint::train_state::set)());
}


std::vector<job_command> job_policy::on(const job_event& event, int64_t now_ns) {
  now_ns_ = now_ns;
  const auto rules = job_rules();
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const job_rule& r) {
    return r.event == event.index() && r.is_for(state_);
  });
  if (rule != rules.end())
    (this->*rule->act)(event);
  else
    refuse(event);
  return std::exchange(out_, {});
}

/// JOB-6: what comes after the end, or too late for its state. Persons are told why.
void job_policy::refuse(const job_event& event) {
  ++refused_;
  const auto request = std::visit(
      [](const auto& e) -> uint64_t {
        if constexpr (requires { e.request; })
          return e.request;
        else
          return 0;
      },
      event);
  if (request == 0) return;
  const char* const why = state_ == ended || state_ == explaining ? "the run has ended"
                          : stop_                                 ? "the run is stopping"
                                  : "the last step is made: the run saves and ends";
  answer(request, error{errc::unavailable, why});
}

void job_policy::enter(job_state state, std::string_view phase) {
  const bool saving =
      pauses_.contains(pause_cause::room) || pauses_.contains(pause_cause::nodes);
  if (state == paused && !saving)
    ledger_.pause(now_ns_);
  else
    ledger_.resume(now_ns_);
  state_ = state;
  phase_ = phase;
  out_.push_back(todo::show{});
}

void job_policy::say(std::string text, bool warning) {
  out_.push_back(todo::say{std::move(text), warning});
}

/// JOB-3.
void job_policy::end(const error& why) {
  loss_is_known();
  enter(ended, "ended");
  tell_counted();
  if (in_incident_) close_incident("the job ended: " + why.message);
  ledger_.end(now_ns_);
  for (auto& [step, open] : orders_) {
    if (open.request != 0) answer(open.request, error{errc::unavailable, "the run has ended"});
    if (open.written && !open.committing) commit(step, open);  // nobody will say when
  }
  for (const auto& [step, folder] : std::exchange(given_up_, {}))
    out_.push_back(todo::abandon{step, folder.string()});  // JOB-7
  out_.push_back(todo::end{why});
}

// -- the start ------------------------------------------------------------------------------------

void job_policy::begin_start(const job_event& event) {
  const auto& there = std::get<heard::admitted>(event);
  nodes_ = there.nodes;
  lay_out(there);
  if (lost_head_ && copies_.any()) return begin_phase(start_phase::find_copies);  // JOB-14
  begin_phase(start_phase::open_folder);  // what cannot be saved need not be trained
}

void job_policy::begin_phase(start_phase phase, std::string folder) {
  const auto& facts = facts_of(phase);
  phase_asked_ = phase;
  if (!facts.phase.empty()) enter(facts.state, facts.phase);
  out_.push_back(todo::ask{phase, std::move(folder), resume_.has_value(), loads_weights()});
}

void job_policy::next_phase(const job_event& event) {
  const auto& done = std::get<heard::phase_done>(event);
  if (done.phase != phase_asked_) return refuse(event);
  const auto& job = plan_.job;
  switch (done.phase) {
    case start_phase::choose_checkpoint:
      return take_checkpoint(*done.chosen);
    case start_phase::find_copies:
      return take_copies(done);
    case start_phase::open_folder:
      committer_folder_ = done.folder;
      return begin_phase(start_phase::open_data);
    case start_phase::open_data:
      has_validation_ = done.validation_windows > 0;
      if (recoveries() == 0)
        say(fmt::format(
            "data: {}, {}{}, {} held out", counted(done.tokens, "token"),
            counted(done.train_windows, "training window"),
            job.data.source.size() > 1
                ? fmt::format(" of {} sources", job.data.source.size())
                : fmt::format(" ({:.1f} steps a pass)", static_cast<double>(done.train_windows) /
                                                            static_cast<double>(job.train.batch)),
            done.validation_windows));
      return begin_phase(start_phase::build_stages);
    case start_phase::build_stages:
      if (recoveries() == 0)
        say(
            fmt::format("model: {} with {}, {:.2f} M parameters; {} data x {} pipeline "
                        "ranks, {:.0f} MiB "
                        "on the largest",
                        to_string(plan_.model.family), counted(plan_.model.layers, "layer"),
                        static_cast<double>(plan_.model.parameters()) / 1e6, job.parallel.data,
                        job.parallel.pipeline, static_cast<double>(done.most_bytes) / (1 << 20)));
      if (recoveries() == 0 && job.checkpoint.memory.every > 0)
        say(copies_text(), !copies_.taken());
      return begin_phase(start_phase::attach_loaders);
    case start_phase::connect_data_plane:
      ledger_.connected(now_ns_);
      return load();
    case start_phase::load_weights:
      files_taken_of_ = done.takes_files && resume_ ? resume_->path.string() : "";
      return begin_steps();
    default:
      return begin_phase(static_cast<start_phase>(static_cast<int>(done.phase) + 1));
  }
}

/// Before the first step, instead of beginning with new ones.
bool job_policy::loads_weights() const {
  const auto& model = plan_.job.model;
  const bool pretrained = !model.path.empty() && model.init != config::weight_init::random;
  return back_to_ || resume_ || pretrained;
}

void job_policy::load() {
  if (!loads_weights()) return begin_steps();
  if (back_to_) return load_copies();
  const auto folder = resume_ ? resume_->path.string() : plan_.job.model.path;
  say(resume_ ? fmt::format("resuming after step {} from {}", step_, folder)
              : fmt::format("starting from the weights of {}", folder));
  begin_phase(start_phase::load_weights, folder);
}

void job_policy::begin_steps() {
  if (in_incident_) {
    auto& fault = incidents_.back();
    fault.fell_after_step = std::max(fault.fell_after_step, step_);  // a lost head had not told it
    ledger_.restored(step_, epoch_, now_ns_);
    say(fmt::format("recovered in {:.1f} s ({}): step {} follows, {} made again",
                    static_cast<double>(now_ns_ - fault.noticed_ns) / 1e9, phases_text(), step_ + 1,
                    counted(fault.fell_after_step - step_, "is", "are")));
    close_incident(fmt::format("{}, from {}", what_was_done(),
                               back_to_  ? source_text()
                               : resume_ ? resume_->path.filename().string()
                                         : "the start"));
  }
  copies_believed_ = {epoch_, back_to_ ? std::optional(back_to_->tag) : std::nullopt};
  back_to_.reset();
  if (rewind_ && rewind_->begun) end_rewind();
  recovery_.has_begun();
  note_account();
  // The next one is far. Of one that goes with the first step nothing is held (JOB-22).
  if (plan_.job.health.recheck_every > 0 && files_taken_of_.empty()) hold_good(rechecked_);
  next_step();
}

void job_policy::wait(int64_t ns) {
  waits_until_ns_ = now_ns_ + ns;
  out_.push_back(todo::wait{ns});
}

void job_policy::give_up(const job_event& event) {
  end(std::get<heard::not_admitted>(event).why);
}

void job_policy::stop_start(const job_event& event) {
  end({errc::cancelled, std::get<heard::stop>(event).reason});  // JOB-2
}

// -- steps ----------------------------------------------------------------------------------------

/// Of as many as will be wanted once what persons asked for has taken effect.
bool job_policy::all_steps_done() const {
  return step_ >= static_cast<uint64_t>(requests_.wanted().train.steps);
}

/// JOB-5: what persons asked for, in order.
void job_policy::take_effect() {
  for (auto& sentence : requests_.take_effect()) say(std::move(sentence));
  const bool was_paused = pauses_.contains(pause_cause::person);
  if (requests_.paused())
    pauses_.insert(pause_cause::person);
  else
    pauses_.erase(pause_cause::person);
  if (was_paused != requests_.paused()) note_account();  // what follows is another use of time
  if (plan_.job == requests_.job()) return;
  use_settings();
}

void job_policy::use_settings() {
  plan_.job = requests_.job();
  config_toml_ = config::to_toml(plan_.job);
  lr_ = lr_of(plan_.job.train);
}

void job_policy::next_step() {
  if (stop_ || (all_steps_done() && !rewind_)) return finish();  // JOB-2
  if (rewind_) return rewind_now();
  if (leaving_) return let_node_go();
  take_effect();
  if (!pauses_.empty()) return enter(paused, phase_of(pauses_));
  enter(stepping, "training");
  requests_.step_begins();
  ledger_.step_began(step_ + 1, epoch_, now_ns_);
  const auto& job = plan_.job;
  const bool saved = saved_step_ == step_ || orders_.contains(step_);
  const bool rechecks = due(step_ + 1, job.health.recheck_every);
  const bool compares = job.parallel.data > 1 && job.health.digest_every > 0 &&
                        (saved || rechecks || due(step_ + 1, job.health.digest_every));
  const auto lr = lr_.at(static_cast<int64_t>(step_) + 1);
  out_.push_back(
      todo::run_step{step_ + 1, lr, compares, rechecks, std::exchange(files_taken_of_, {})});
}

/// Attention that is reset at documents' ends does what lies within them.
double job_policy::flops_of(const heard::step_done& done) const {
  const auto tokens = static_cast<double>(plan_.job.tokens_per_step());
  const double whole = tokens * static_cast<double>(plan_.job.train.seq_len);
  const auto pairs = static_cast<double>(done.document_pairs);
  return plan_.model.flops_of(tokens, pairs > 0 ? std::min(pairs, whole) : whole);
}

void job_policy::end_step(const job_event& event) {
  const auto& done = std::get<heard::step_done>(event);
  const auto& job = plan_.job;
  if (done.weights.odd) return find_wrong_bits(*done.weights.odd);
  if (done.products.odd) return find_wrong_products(*done.products.odd);
  note_good(done);
  ++step_;
  // What ranks say they waited is no longer than the step.
  const auto waited_ns =
      static_cast<int64_t>(1e6 * (done.waited_ms > 0 ? std::min(done.waited_ms, done.took_ms) : 0));
  if (waited_ns > 0) ledger_.save_blocked(now_ns_ - waited_ns, now_ns_);
  ledger_.step_ended(step_, epoch_, now_ns_);
  requests_.step_ended();
  recovery_.has_progressed();
  tokens_ = tokens_after_step();
  loss_ = done.loss_sum / static_cast<double>(done.targets);
  report_ = {};
  report_.step = step_;
  report_.steps = static_cast<uint64_t>(job.train.steps);
  report_.loss = loss_;
  report_.grad_norm = done.grad_norm;
  report_.lr = lr_.at(static_cast<int64_t>(step_));
  report_.step_ms = done.took_ms;
  report_.tokens_per_s = static_cast<double>(job.tokens_per_step()) / (report_.step_ms / 1e3);
  report_.flops_per_s = flops_of(done) / (report_.step_ms / 1e3);
  report_.validation_loss = -1;
  report_.replicas = replicas() == replicas_configured() ? 0 : replicas();
  report_.tokens = tokens_ - skipped_before(tokens_, skipped_);
  checkpoint_wait_ms_ += done.waited_ms;
  report_.checkpoint_wait_ms = done.waited_ms + std::exchange(step_wait_ms_, 0);
  report_.saved_step = saved_step_;
  parts_ = done.parts;
  report_.parts = to_message(parts_);
  report_.process_peak_bytes = done.process_peak_bytes;
  const bool finite = std::isfinite(loss_) && std::isfinite(done.grad_norm);
  if (judge_loss(finite)) return rewind_now();
  if (!finite)  // JOB-4
    return end({errc::training, bad_loss_text(),
                "lower train.lr, raise train.warmup_steps, or look at the data"});
  out_.push_back(todo::measure{report_});
  const bool last = all_steps_done() && !rewind_ && !stop_;
  const bool is_due = last || due(step_, job.train.validate_every);
  if (!is_due || !must_validate()) return report();
  validate();
}

/// JOB-21: where nothing says yet how good the last step's state is.
bool job_policy::must_validate() const {
  const bool is_made = report_.step == step_;
  const bool is_known = is_made ? report_.validation_loss >= 0 : !ends_as_loaded();
  return step_ > 0 && !is_known && has_validation_ && plan_.job.train.validate_every > 0;
}

/// Whether no step is left to make behind a checkpoint that does not say how good it is: whoever
/// made it was gone before its last validation was over.
bool job_policy::ends_as_loaded() const {
  return resume_ && resume_->step == step_ && !resume_->state.validation_loss && all_steps_done();
}

void job_policy::validate() {
  const auto batches = plan_.job.train.validate_batches;
  enter(validating, "validating");
  out_.push_back(todo::validate{step_, static_cast<uint32_t>(batches)});
}

void job_policy::end_validation(const job_event& event) {
  const auto& done = std::get<heard::validated>(event);
  const bool is_made = report_.step == step_;
  report_.step = step_;
  if (done.targets > 0) report_.validation_loss = done.loss_sum / static_cast<double>(done.targets);
  if (!last_save_) return report();
  if (is_made)
    out_.push_back(todo::report{report_});
  else
    say(fmt::format("the state of step {} is validated: its loss is {:.4f}", step_,
                    report_.validation_loss));
  settle();
}

void job_policy::report() {
  out_.push_back(todo::report{report_});
  save_if_due();
}

/// Begins a checkpoint if one is due or asked for and there is room; else does what
/// checkpoint.when_busy says.
void job_policy::save_if_due() {
  using verdict = pace_policy::verdict;
  const auto& c = plan_.job.checkpoint;
  const bool asked = std::exchange(save_wanted_, false);
  switch (pace_.at_step_end(step_, c.every, c.when_busy, asked)) {
    case verdict::begin:
      begin_save(committer_folder_, 0, copy_if_due(true));
      return next_step();
    case verdict::wait:
      copy_if_due(false);
      waits_since_ns_ = now_ns_;
      pauses_.insert(pause_cause::room);
      return enter(paused, "waiting for an older checkpoint");
    case verdict::skip:
      if (pace_.skipped() == 1)
        say(fmt::format("checkpoint of step {} left out: two older ones are still being written "
                        "(checkpoint.when_busy is skip; the summary counts them)",
                        step_),
            true);
      break;
    case verdict::postpone:
    case verdict::none:
      break;
  }
  copy_if_due(false);
  next_step();
}

// -- the end --------------------------------------------------------------------------------------

/// No step follows. The last save must succeed for the job to have succeeded (JOB-8).
void job_policy::finish() {
  // Whoever stops a job without saving, but after its last step, has come too late.
  if (stop_ && !stop_->saves && !all_steps_done()) return succeed();
  if (requests_.no_step_follows()) say("no step follows: it does not pause");
  const auto& c = plan_.job.checkpoint;
  last_save_.emplace(c.room_wait_s * 1'000'000'000, !second_.empty());
  state_ = settling;
  ledger_.resume(now_ns_);
  const bool has_time = !stop_ || stop_->saves;
  if (!has_time || !must_validate()) return settle();
  if (!last_is_saved() && !pace_.open().contains(step_)) begin_save(committer_folder_);
  // What the second tier has already would stay as it is there.
  if (saved_step_ == step_ && second_.empty()) without_loss_ = heard::committed{step_, checkpoint_};
  validate();  // while the checkpoint is written
}

/// Waits for the checkpoints that are under way; for the last one once more, where it failed while
/// its state was validated.
void job_policy::settle() {
  loss_is_known();
  settling_since_ns_ = now_ns_;
  if (!last_is_saved() && !pace_.open().contains(step_)) begin_save(committer_folder_);
  if (pace_.open().empty()) return judge_last();
  enter(settling, "finishing checkpoints");
}

/// JOB-21: what ranks still say of it is passed over. No save begins, as they are at it.
void job_policy::leave_validation() {
  left_validation_ = may_validate_ = true;
  loss_is_known();
  settling_since_ns_ = now_ns_;
  if (!pace_.open().empty()) return enter(settling, "finishing checkpoints");
  if (!last_is_saved()) return end(save_failure_.value_or(error{errc::io, "the last save failed"}));
  export_model();
}

/// One rank that fails says nothing of the others.
void job_policy::pass_over(const job_event& event) {
  if (!std::exchange(left_validation_, false)) return refuse(event);
  if (!std::holds_alternative<heard::validated>(event) || state_ == ended) return;
  may_validate_ = false;
  out_.push_back(todo::show{});
}

/// Before the first step there is nothing to save.
bool job_policy::last_is_saved() const {
  return step_ == 0 || saved_step_ == step_;
}

/// The latest try of the last save has ended, one way or the other.
void job_policy::judge_last() {
  if (last_is_saved()) {
    if (last_save_->has_waited())
      say(fmt::format("the last checkpoint, of step {}, is saved: {}", step_, checkpoint_));
    return export_model();
  }
  const auto why = save_failure_.value_or(error{errc::io, "the last save failed"});
  const bool given_up = stop_ && !stop_->saves;
  const auto next = given_up ? std::nullopt : last_save_->failed(why, now_ns_);
  if (!next) return end_with_word(why);
  using tier = last_save_policy::tier;
  next_try_ = next->where == tier::second ? second_ : committer_folder_;
  if (next->pause_ns == 0) return reopen();
  const auto what = fmt::format("the last checkpoint, of step {}, waits for room in {}", step_,
                                next_try_.string());
  if (last_save_->is_news(what, why))
    say(fmt::format("{} ({}): it is tried again every {} s (checkpoint.room_wait_s is {}); {}",
                    what, cause_of(why), next->pause_ns / 1'000'000'000,
                    plan_.job.checkpoint.room_wait_s, how_to_end_without),
        true);
  enter(waiting, "waiting for room");
  wait(next->pause_ns);
}

/// The committer is asked first: it has then removed what the try before left, and its folder is
/// there; the second tier's does not depend on it.
void job_policy::reopen() {
  state_ = reopening;
  out_.push_back(todo::reopen_folder{});
}

void job_policy::try_again(const job_event& event) {
  const auto& open = std::get<heard::folder_open>(event);
  if (open.why_not && next_try_ != second_) {
    save_failure_ = open.why_not->within("open the checkpoint folder");
    return judge_last();
  }
  begin_save(next_try_);
  enter(settling, "finishing checkpoints");
}

void job_policy::end_wait(const job_event& event) {
  if (now_ns_ < waits_until_ns_) return refuse(event);
  reopen();
}

/// The model of the last checkpoint as a Hugging Face folder, if the job wants one.
void job_policy::export_model() {
  ledger_.save_blocked(settling_since_ns_, now_ns_);
  const auto& job = plan_.job;
  if (!job.checkpoint.export_model || checkpoint_.empty()) return copy_last();
  enter(exporting, "exporting the model");
  out_.push_back(
      todo::export_model{checkpoint_, (std::filesystem::path(job.job.output) / "model").string()});
}

void job_policy::end_export(const job_event& event) {
  const auto& done = std::get<heard::exported>(event);
  if (done.why_not)
    say(render(*done.why_not), true);
  else
    model_ = done.folder;
  copy_last();
}

/// Waits for the copy of the last checkpoint into the second tier, as long as
/// checkpoint.second.wait_s says; what fails is a warning. Who does not save waits for none.
void job_policy::copy_last() {
  const bool waits = plan_.job.checkpoint.second.wait_s > 0 && (!stop_ || stop_->saves);
  if (second_.empty() || checkpoint_.empty() || !waits) return succeed();
  enter(copying, "copying to the second tier");
  out_.push_back(todo::finish_copies{saved_step_, checkpoint_});
}

void job_policy::end_copies(const job_event& event) {
  if (const auto& why = std::get<heard::copied>(event).why_not)
    say(fmt::format("the last checkpoint, of step {}, is not in the second tier: {}", saved_step_,
                    render(*why)),
        true);
  succeed();
}

void job_policy::succeed() {
  if (stop_ && !all_steps_done()) return end({errc::cancelled, stop_->reason});
  end({errc::none, ""});
}

// -- stops --------------------------------------------------------------------------------------

void job_policy::stop_steps(const job_event& event) {
  stop_ = std::get<heard::stop>(event);
  if (state_ == validating && last_save_ && !stop_->saves) return leave_validation();
  // Where an older checkpoint is waited for, the one that is due begins first.
  if (state_ == paused && !pauses_.contains(pause_cause::room)) next_step();
}

/// Who stops again without saving ends what only waits, for good: a later stop begins no save.
void job_policy::hurry(const job_event& event) {
  const bool saves = !stop_ || stop_->saves;
  stop_ = std::get<heard::stop>(event);
  stop_->saves = stop_->saves && saves;
  if (stop_->saves && last_save_->has_waited() && !last_is_saved())
    say(fmt::format("the last checkpoint, of step {}, goes on waiting for room: {}", step_,
                    how_to_end_without),
        true);
  if (stop_->saves) return;
  if (state_ == copying) return succeed();
  if (state_ == waiting) reopen();  // once more, without a pause
}

// -- what is asked of it --------------------------------------------------------------------------

void job_policy::answer(uint64_t request, result<reply> said) {
  out_.push_back(todo::answer{request, std::move(said)});
}

/// While paused a request takes effect at once.
void job_policy::answer_and_do(uint64_t request, result<reply> said) {
  const bool good = bool(said);
  answer(request, std::move(said));
  if (!good || state_ != paused || pauses_.contains(pause_cause::room)) return;
  take_effect();
  if (pauses_.empty()) return next_step();
  if (!pauses_.contains(pause_cause::nodes)) enter(paused, phase_of(pauses_));
}

/// Whether it will go on after what it is at.
bool job_policy::takes_requests() const {
  if (stop_ || no_step_follows()) return false;
  return state_ != explaining || recovery_.can_mend(*unexplained_);
}

bool job_policy::falls_back() const {
  return state_ == recovering || state_ == explaining ||
         (state_ == opening && (phase_asked_ == start_phase::find_copies ||
                                phase_asked_ == start_phase::choose_checkpoint));
}

/// In a recovery it is not known yet which step is the next.
result<reply> job_policy::when_recovered(result<reply> said) const {
  if (said && falls_back()) said = reply{"done once the run has recovered"};
  return said;
}

/// What a part of the program holds back counts also where no step follows now: one may, after a
/// recovery.
void job_policy::ask_pause(const job_event& event) {
  const auto& asked = std::get<heard::pause>(event);
  if (asked.cause != pause_cause::person) {
    pauses_.insert(asked.cause);
    return;
  }
  if (!takes_requests()) return refuse(event);
  answer_and_do(asked.request, when_recovered(requests_.pause(asked.reason)));
}

void job_policy::ask_resume(const job_event& event) {
  const auto& asked = std::get<heard::resume>(event);
  if (asked.cause == pause_cause::person) {
    if (!takes_requests()) return refuse(event);
    return answer_and_do(asked.request, when_recovered(requests_.resume()));
  }
  if (pauses_.erase(asked.cause) == 0 || state_ != paused) return;
  if (pauses_.empty()) return next_step();
  const bool saving = pauses_.contains(pause_cause::room) || pauses_.contains(pause_cause::nodes);
  if (!saving) enter(paused, phase_of(pauses_));
}

void job_policy::ask_setting(const job_event& event) {
  if (!takes_requests()) return refuse(event);
  const auto& asked = std::get<heard::set_value>(event);
  if (rewind_ && !rewind_->applied)  // REQ-6: it would not hold
    return answer(asked.request, error{errc::unavailable, "the run is about to go back",
                                       "say it again once it has"});
  answer_and_do(asked.request, requests_.set(asked.key, asked.value));
}

/// The step after which it is decided next whether to save.
uint64_t job_policy::save_point() const {
  return state_ == job_state::validating ? step_ : step_ + 1;
}

/// Between two steps (while paused) the save begins at once, and its end is the answer.
void job_policy::ask_save(const job_event& event) {
  if (!takes_requests()) return refuse(event);
  const auto request = std::get<heard::save_now>(event).request;
  if (state_ != paused || pauses_.contains(pause_cause::room)) {
    save_wanted_ = true;
    if (falls_back())
      return answer(request, reply{"saves after the first step that follows the recovery"});
    return answer(request, reply{fmt::format("saves after step {}", save_point())});
  }
  if (step_ > 0 && saved_step_ == step_)
    return answer(request, reply{fmt::format("saved already: {}", checkpoint_)});
  if (pace_.open().contains(step_))
    return answer(request, reply{fmt::format("step {} is being saved already", step_)});
  begin_save(committer_folder_, request);
}

}  // namespace troupe::train
