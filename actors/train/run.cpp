// Steps, validations, saves and the end of a run.
#include "actors/train/run.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/train/gather.hpp"
#include "actors/train/resume_policy.hpp"
#include "actors/train/run_save.hpp"
#include "actors/train/run_start.hpp"
#include "io/config/load.hpp"

namespace troupe::train {

namespace {

constexpr auto step_timeout = std::chrono::minutes(10);

void next_step(run_pointer self);

/// RUN-3.
void end(run_pointer self, const error& why) {
  auto& st = self->state;
  if (std::exchange(st.ended, true)) return;
  enter(self, "ended");
  self->send(st.options.coordinator, make_msg<fbs::RunEnded>(context(self), [&](fbs::RunEndedT& e) {
               e.code = static_cast<uint8_t>(why.code);
               e.message = why.message;
               e.hint = why.hint;
               e.step = st.step;
               e.checkpoint = st.checkpoint;
               e.model = st.model;
               e.checkpoints = st.checkpoints;
               e.checkpoint_bytes = st.checkpoint_bytes;
               e.skipped_checkpoints = st.pace.skipped();
               e.checkpoint_wait_ms = st.checkpoint_wait_ms;
             }));
}

/// Of as many as will be wanted once what persons asked for has taken effect.
bool all_steps_done(const run_state& st) {
  return st.step >= static_cast<uint64_t>(st.requests.wanted().train.steps);
}

void succeed(run_pointer self) {
  auto& st = self->state;
  error none{errc::none, ""};
  if (st.stop_reason && !all_steps_done(st)) none = {errc::cancelled, *st.stop_reason};
  end(self, none);
}

// -- the end -------------------------------------------------------------------------------------

/// The last save must succeed for the run to have succeeded (RSV-4).
void finish(run_pointer self) {
  auto& st = self->state;
  st.finishing = true;
  // Whoever stops a run without saving, but after its last step, has come too late.
  const bool wanted = !st.stop_reason || st.stop_saves || all_steps_done(st);
  if (!wanted) return succeed(self);
  save_last(self, [self](const status& saved) {
    if (!saved) return end(self, saved.error());
    export_model(self, [self] { settle_copies(self, [self] { succeed(self); }); });
  });
}

// -- steps --------------------------------------------------------------------------------------

bool due(uint64_t step, int64_t every) {
  return every > 0 && step % static_cast<uint64_t>(every) == 0;
}

void report(run_pointer self, const fbs::StepReportT& r) {
  auto& st = self->state;
  st.validation_loss = r.validation_loss;
  self->send(st.options.reporter, make_msg<fbs::StepReport>(context(self), r));
  const double before = st.checkpoint_wait_ms;
  save_if_due(self, [self, before] {
    auto& now = self->state;
    now.step_wait_ms = now.checkpoint_wait_ms - before;
    next_step(self);
  });
}

void validate(run_pointer self, fbs::StepReportT r) {
  auto& st = self->state;
  enter(self, "validating");
  gather<fbs::ValidationDone>(
      self, st.options.stages, step_timeout, each_stage("ValidationDone"),
      [self](size_t) {
        return std::tuple(make_msg<fbs::Validate>(context(self), [&](auto& v) {
          v.step = self->state.step;
          v.batches = static_cast<uint32_t>(self->state.options.plan.job.train.validate_batches);
        }));
      },
      [self, r](const std::vector<msg<fbs::ValidationDone>>& parts) mutable {
        double sum = 0;
        uint64_t targets = 0;
        for (const auto& p : parts) {
          sum += p->loss_sum();
          targets += p->target_count();
        }
        if (targets > 0) r.validation_loss = sum / static_cast<double>(targets);
        report(self, r);
      },
      [self](size_t, const error& e) { end(self, e.within("validation")); });
}

/// The root of the step's causal tree: all else that happened in it lies under this span.
void record_step(run_pointer self) {
  static const auto name = work_name("step");
  const auto& st = self->state;
  work_note w;
  w.name = name;
  w.actor = self->card().number();
  w.span = w.trace = st.step_span;
  w.number = st.step;
  w.begin_ns = st.step_started_ns;
  w.end_ns = now_ns(*self);
  record_work(w);
}

/// What a picture of the run shows beside its messages.
void record_measures(run_pointer self, const fbs::StepReportT& r) {
  static const auto loss = work_name("loss"), norm = work_name("gradient norm"),
                    speed = work_name("tokens/s");
  const auto actor = self->card().number();
  const auto at_ns = now_ns(*self);
  record_counter({loss, actor, at_ns, r.loss});
  record_counter({norm, actor, at_ns, r.grad_norm});
  if (std::isfinite(r.tokens_per_s)) record_counter({speed, actor, at_ns, r.tokens_per_s});
}

/// "the loss of step 7 is not a number".
std::string not_finite(uint64_t step, double loss, double norm) {
  const double culprit = std::isfinite(loss) ? norm : loss;
  return fmt::format("the {} of step {} is {}", std::isfinite(loss) ? "gradient norm" : "loss",
                     step, std::isnan(culprit) ? "not a number" : "infinite");
}

void step_done(run_pointer self, const std::vector<msg<fbs::StepDone>>& parts) {
  auto& st = self->state;
  const auto& job = st.options.plan.job;
  ++st.step;
  st.requests.step_ended();
  record_step(self);
  st.tokens += static_cast<uint64_t>(job.tokens_per_step());
  double loss_sum = 0;
  uint64_t targets = 0;
  for (const auto& p : parts) {
    loss_sum += p->loss_sum();
    targets += p->target_count();
  }
  st.loss = loss_sum / static_cast<double>(targets);
  fbs::StepReportT r;
  r.step = st.step;
  r.steps = static_cast<uint64_t>(job.train.steps);
  r.loss = st.loss;
  r.grad_norm = parts.front()->grad_norm();
  r.lr = st.lr.at(static_cast<int64_t>(st.step));
  r.step_ms = static_cast<double>(now_ns(*self) - st.step_started_ns) / 1e6;
  r.tokens_per_s = static_cast<double>(job.tokens_per_step()) / (r.step_ms / 1e3);
  r.flops_per_s = r.tokens_per_s * st.options.plan.model.flops_per_token(job.train.seq_len);
  r.validation_loss = -1;
  r.tokens = st.tokens;
  double waited = 0;  // of the rank that waited longest: the others waited for it
  for (const auto& p : parts) waited = std::max(waited, p->checkpoint_wait_ms());
  st.checkpoint_wait_ms += waited;
  r.checkpoint_wait_ms = waited + std::exchange(st.step_wait_ms, 0);
  r.saved_step = st.saved_step;
  if (!std::isfinite(st.loss) || !std::isfinite(r.grad_norm))  // RUN-4
    return end(self, {errc::training, not_finite(st.step, st.loss, r.grad_norm),
                      "lower train.lr, raise train.warmup_steps, or look at the data"});
  record_measures(self, r);
  if (st.has_validation && due(st.step, job.train.validate_every)) return validate(self, r);
  report(self, r);
}

/// RUN-5: what persons asked for, in order.
void take_effect(run_pointer self) {
  auto& st = self->state;
  for (auto& sentence : st.requests.take_effect()) say(self, std::move(sentence));
  if (st.options.plan.job == st.requests.job()) return;
  st.options.plan.job = st.requests.job();
  st.config_toml = config::to_toml(st.options.plan.job);
  st.lr = lr_of(st.options.plan.job.train);
}

void next_step(run_pointer self) {
  auto& st = self->state;
  if (st.stop_reason || all_steps_done(st)) return finish(self);  // RUN-2
  take_effect(self);
  st.waiting = st.requests.paused();
  if (st.waiting) return enter(self, "paused");
  enter(self, "training");
  st.requests.step_begins();
  st.step_started_ns = now_ns(*self);
  st.step_span = next_span();
  gather<fbs::StepDone>(
      self, st.options.stages, step_timeout,
      each_stage(fmt::format("StepDone of step {}", st.step + 1)),
      [self](size_t) {
        const auto root = context_within(*self, self->state.options.epoch, self->state.step_span);
        return std::tuple(make_msg<fbs::RunStep>(root, [&](auto& m) {
          m.step = self->state.step + 1;
          m.lr = self->state.lr.at(static_cast<int64_t>(self->state.step) + 1);
        }));
      },
      [self](const std::vector<msg<fbs::StepDone>>& parts) { step_done(self, parts); },
      [self](size_t rank, const error& e) {
        end(self, e.within(fmt::format("step {} on rank {}", self->state.step + 1, rank)));
      });
}

// -- what a person may say ------------------------------------------------------------------------

msg<fbs::Ack> agreed(run_pointer self, const message_header& cause, std::string text) {
  return make_msg<fbs::Ack>(context_of(*self, cause), [&](auto& a) { a.text = std::move(text); });
}

caf::error not_now(const run_state& st) {
  if (st.ended) return to_caf({errc::unavailable, "the run has ended"});
  if (st.stop_reason) return to_caf({errc::unavailable, "the run is stopping"});
  if (st.finishing)
    return to_caf({errc::unavailable, "the last step is made: the run saves and ends"});
  return {};
}

/// The answer to a request; while paused it takes effect at once.
caf::result<msg<fbs::Ack>> answered(run_pointer self, const message_header& cause,
                                    result<std::string> text) {
  if (!text) return to_caf(text.error());
  auto answer = agreed(self, cause, std::move(*text));
  if (!self->state.waiting) return answer;
  take_effect(self);
  if (!self->state.requests.paused()) next_step(self);
  return answer;
}

caf::result<msg<fbs::Ack>> pause(run_pointer self, const msg<fbs::Pause>& m) {
  auto& st = self->state;
  if (auto e = not_now(st)) return e;
  return answered(self, m.header(), st.requests.pause(m->reason() ? m->reason()->str() : ""));
}

caf::result<msg<fbs::Ack>> resume(run_pointer self, const msg<fbs::Resume>& m) {
  auto& st = self->state;
  if (auto e = not_now(st)) return e;
  return answered(self, m.header(), st.requests.resume());
}

/// Between two steps (while paused) the save begins at once, and its end is the answer.
caf::result<msg<fbs::Ack>> checkpoint_now(run_pointer self, const msg<fbs::CheckpointNow>& m) {
  auto& st = self->state;
  if (auto e = not_now(st)) return e;
  if (!st.waiting) {
    st.save_wanted = true;
    return agreed(self, m.header(), fmt::format("saves after step {}", st.save_point));
  }
  if (st.step > 0 && st.saved_step == st.step)
    return agreed(self, m.header(), fmt::format("saved already: {}", st.checkpoint));
  if (st.pace.open().contains(st.step))
    return agreed(self, m.header(), fmt::format("step {} is being saved already", st.step));
  auto rp = self->make_response_promise<msg<fbs::Ack>>();
  begin_save(self, [self, rp, header = m.header()](const status& s) mutable {
    if (s)
      rp.deliver(agreed(self, header, fmt::format("saved {}", self->state.checkpoint)));
    else
      rp.deliver(to_caf(s.error()));
  });
  return rp;
}

caf::result<msg<fbs::Ack>> set_value(run_pointer self, const msg<fbs::SetValue>& m) {
  auto& st = self->state;
  if (auto e = not_now(st)) return e;
  return answered(
      self, m.header(),
      st.requests.set(m->key() ? m->key()->str() : "", m->value() ? m->value()->str() : ""));
}

/// What a fresh run is made of.
void describe(const run_state& st, fbs::LifeBirthT& b) {
  const auto& o = st.options;
  b.epoch = o.epoch;
  b.config_toml = st.config_toml;
  b.hosts = o.hosts;
  b.threads.assign(o.threads.begin(), o.threads.end());
  b.devices = o.devices.names;
  b.shared_devices = o.devices.shared;
  if (o.resume) {
    b.resume = o.resume->path.string();
    b.resume_step = o.resume->step;
    b.resume_state = checkpoint::format_state(o.resume->state);
  }
  for (const auto& s : o.stages) add_peer(b, "stage", s);
  for (const auto& l : o.loaders) add_peer(b, "loader", l.loader, l.ranks);
  add_peer(b, "archive", o.archive);
  if (o.carrier) add_peer(b, "carrier", o.carrier);
  add_peer(b, "reporter", o.reporter);
  add_peer(b, "coordinator", o.coordinator);
}

}  // namespace

message_context context(run_pointer self) {
  return context_of(*self, self->state.options.epoch);
}

run_actor::behavior_type run(run_pointer self, run_options options) {
  guard_mailbox(self);
  introduce(self, "run");
  auto& st = self->state;
  st.options = std::move(options);
  st.config_toml = config::to_toml(st.options.plan.job);
  note_birth([&](fbs::LifeBirthT& b) { describe(st, b); });
  st.lr = lr_of(st.options.plan.job.train);
  if (st.options.resume) {
    st.step = st.options.resume->step;
    if (lies_in_place(st.options.resume->path, st.options.plan.job.checkpoint))  // RSV-5
      st.saved_step = st.step;
    st.checkpoint = st.options.resume->path.string();
    st.loss = st.options.resume->state.loss;
    st.tokens = st.options.resume->state.tokens;
    if (st.tokens == 0)  // a checkpoint that does not say
      st.tokens = st.step * static_cast<uint64_t>(st.options.plan.job.tokens_per_step());
  }
  st.save_point = st.step + 1;
  st.requests = requests_policy(
      st.options.plan.job, st.step,
      st.options.resume ? st.options.resume->state.set : decltype(checkpoint::train_state::set)());
  enter(self, "starting");
  start_up(
      self,
      [self] {
        self->state.begun = true;
        if (!self->state.ended) next_step(self);
      },
      [self](const error& e) { end(self, e); });
  return {
      status_handler(self),
      [self](const msg<fbs::Notice>& m) {
        if (!self->state.ended) self->send(self->state.options.reporter, m);  // RUN-3
      },
      [self](const msg<fbs::StopTraining>& m) {
        auto& now = self->state;
        if (m.epoch() != 0 && !epoch_gate(now.options.epoch).accepts(m)) return;  // 0: a person's
        now.stop_reason = m->reason() ? m->reason()->str() : "stopped";
        now.stop_saves = m->save();
        if (!now.begun) return end(self, {errc::cancelled, *now.stop_reason});  // RUN-6
        if (std::exchange(now.waiting, false)) next_step(self);
        if (now.stop_saves) return;
        leave_copies(self);
        retry_last(self);  // once more, without a pause
      },
      [self](const msg<fbs::Pause>& m) { return pause(self, m); },
      [self](const msg<fbs::Resume>& m) { return resume(self, m); },
      [self](const msg<fbs::CheckpointNow>& m) { return checkpoint_now(self, m); },
      [self](const msg<fbs::SetValue>& m) { return set_value(self, m); },
      [self](caf::tick_atom) { retry_last(self); },
  };
}

}  // namespace troupe::train
