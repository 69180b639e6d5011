// Decisions of the schedule to the worker, completions to the neighbours.
#include "actors/train/stage.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"
#include "actors/train/paced_patience.hpp"
#include "actors/train/received_job.hpp"
#include "messages/power_holds.hpp"

namespace troupe::train {

namespace {

using stage_pointer = traced_pointer<stage_actor, stage_state>;

void drive(stage_pointer self);
void begin_batch(stage_pointer self);
void tell_wait(stage_pointer self);
void let_begin(stage_pointer self);

void show(stage_pointer self, const char* state) {
  const auto& st = self->state;
  publish(self, state, [&](fbs::StageStatusT& s) {
    s.pipeline_rank = static_cast<uint32_t>(st.at.place().pipeline);
    s.data_rank = static_cast<uint32_t>(st.at.place().data);
    s.steps_done = st.steps_done;
    s.step = st.last_step;
  });
}

void end_gate_wait(stage_pointer self) {
  auto& wait = self->state.gate_wait;
  if (wait != 0) self->stats().end_wait(std::exchange(wait, 0));
}

/// For how long the pace holds back what is next, on the registry, until that has ended: no
/// operation of the rank ends before (stuck_policy.hpp). 0: it holds nothing back.
void tell_hold(stage_pointer self, int64_t hold_ns) {
  auto& st = self->state;
  if (hold_ns == 0 && st.held_ns == 0) return;
  st.held_ns = hold_ns;
  end_gate_wait(self);
  publish_values(self,
                 [&](fbs::StageStatusT& s) { s.held_us = static_cast<uint64_t>(hold_ns / 1000); });
  if (hold_ns == 0) return;
  const auto pace = fmt::format("the next operation (pace {:.0f} %)", 100 * st.gate.pace().share());
  st.gate_wait = self->stats().begin_wait(
      "pacer", st.gate.starts_late() ? "its start between the steps of other jobs" : pace,
      now_ns(*self));
}

/// STG-7. The gate is as it was meanwhile.
void end_hold(stage_pointer self, int64_t at_ns) {
  auto& st = self->state;
  const auto begun_ns = std::exchange(st.hold_begun_ns, std::nullopt);
  if (!begun_ns || !st.now || *begun_ns >= at_ns) return;
  static const auto by_pace = work_name(power::held_by_pace),
                    by_brake = work_name(power::held_by_brake),
                    by_offset = work_name(power::held_by_offset);
  work_note w;
  w.name = st.gate.brakes() ? by_brake : st.holds_start ? by_offset : by_pace;
  w.actor = self->stats().number();
  w.parent = st.now->cause.span;
  w.trace = st.now->cause.trace_low;
  w.number = static_cast<uint64_t>(std::llround(100 * st.gate.pace().share()));
  w.begin_ns = *begun_ns;
  w.end_ns = at_ns;
  self->runtime().records.note(w);
}

/// How long the device computed since it was asked last.
int64_t newly_computed_ns(stage_state& st, uint64_t computed_us) {
  const auto before_us = std::exchange(st.computed_us, computed_us);
  return static_cast<int64_t>(computed_us - std::min(before_us, computed_us)) * 1000;
}

/// STG-4.
void fail(stage_pointer self, const error& e) {
  auto& now = self->state.now;
  show(self, "failed");
  const auto at = self->state.at.place();
  const auto who = fmt::format("stage {} of replica {}", at.pipeline, at.data);
  auto out = to_caf(e.within(who));
  if (now->train)
    now->step_done.deliver(out);
  else
    now->validation_done.deliver(out);
  now.reset();
  tell_wait(self);
  tell_hold(self, 0);
  end_gate_wait(self);
}

/// For answers to what the pass asks: once it is over, by a failure, they are of no use.
template <class F>
auto within_pass(stage_pointer self, F then) {
  return [self, number = self->state.passes, then = std::move(then)](const auto& answer) {
    if (self->state.now && self->state.passes == number) then(answer);
  };
}

auto failing(stage_pointer self) {
  return within_pass(self, [self](const error& e) { fail(self, e); });
}

/// Tells a neighbour that it may fetch what was computed.
void announce(stage_pointer self, const stage_actor& to, fbs::OpKind kind, uint32_t micro_batch) {
  const auto& now = *self->state.now;
  self->send(to, make_msg<fbs::ActivationReady>(context_of(*self, now.cause), [&](auto& a) {
               a.step = now.batch;
               a.micro_batch = micro_batch;
               a.from_rank = static_cast<uint32_t>(self->state.at.rank);
               a.kind = kind;
             }));
}

void completed(stage_pointer self, const fbs::OpDone& done) {
  auto& st = self->state;
  const auto releases = facts_of(static_cast<pipeline_op>(done.kind())).releases;
  if (releases == op_partner::next && !st.at.last())
    announce(self, st.next, done.kind(), done.micro_batch());
  if (releases == op_partner::previous && !st.at.first())
    announce(self, st.previous, done.kind(), done.micro_batch());
  st.gate.ended(newly_computed_ns(st, done.computed_us()), now_ns(*self));
  tell_hold(self, 0);
  auto& now = *st.now;
  const bool all_done = --now.outstanding == 0 && st.gate.empty();
  if (all_done && std::exchange(now.batch_over, false)) {  // STG-3
    ++now.batch;
    begin_batch(self);
  }
  let_begin(self);
}

/// The answer to an operation of the pass of this number. Where that pass is over the operation has
/// left the device all the same: OPG-5.
template <class F>
auto ending_op(stage_pointer self, F then) {
  return [self, number = self->state.passes, then = std::move(then)](const auto& answer) {
    auto& st = self->state;
    if (st.now && st.passes == number) return then(answer);
    st.gate.ended(0, now_ns(*self));
    let_begin(self);
  };
}

/// Whatever the error says, the operation is waited for no longer.
auto failing_op(stage_pointer self) {
  return ending_op(self, [self](const error& e) {
    self->state.gate.ended(0, now_ns(*self));
    fail(self, e);
  });
}

std::string worker_path(stage_pointer self) {
  return fmt::format("worker/{}", self->state.at.rank);
}

void run_op(stage_pointer self, const action& a) {
  const auto kind = static_cast<fbs::OpKind>(a.what);
  auto& now = *self->state.now;
  auto m = make_msg<fbs::RunOp>(context_of(*self, now.cause), [&](fbs::RunOpT& op) {
    op.step = now.batch;
    op.kind = kind;
    op.micro_batch = static_cast<uint32_t>(a.micro_batch);
    op.micro_batches = static_cast<uint32_t>(a.count);
    op.slot = static_cast<uint32_t>(a.slot);
    if (a.what == pipeline_op::begin) {
      op.pace_of_1024 = static_cast<uint32_t>(self->state.gate.pace().of_1024);
      if (now.clocks) op.clocks = std::make_unique<fbs::StageClocksT>(*now.clocks);
    }
    op.batch_slot = now.batch_slot;
    op.last = a.what == pipeline_op::backward &&
              a.micro_batch + a.count == self->state.schedule.micro_batches;
    op.digest = op.last && now.digest;
  });
  ++now.outstanding;
  ask_for<fbs::OpDone>(
      self, self->state.worker, m,
      {worker_path(self),
       fmt::format("{} of micro-batch {}", fbs::EnumNameOpKind(kind), a.micro_batch),
       paced_patience<worker_actor, fbs::RunOp>(self, self->state.gate.pace(),
                                                self->state.may_brake)},
      ending_op(self, [self](const msg<fbs::OpDone>& done) { completed(self, *done); }),
      failing_op(self));
}

void end_of_pass(stage_pointer self, const msg<fbs::StepDone>& done) {
  auto& st = self->state;
  auto now = std::move(*st.now);
  st.now.reset();
  ++st.steps_done;
  st.gate.ended(newly_computed_ns(st, done->computed_us()), now_ns(*self));
  tell_hold(self, 0);
  const double held_ms = static_cast<double>(st.gate.waited_ns()) / 1e6;
  if (now.train) st.last_step = now.step;
  show(self, "idle");
  if (!now.train) {
    now.validation_done.deliver(
        make_msg<fbs::ValidationDone>(context_of(*self, now.cause), [&](auto& v) {
          v.step = now.step;
          v.rank = done->rank();
          v.loss_sum = done->loss_sum();
          v.target_count = done->target_count() * now.last_batch;
          v.power_wait_ms = held_ms;
        }));
    return;
  }
  const auto pace = static_cast<uint32_t>(st.gate.pace().of_1024);
  if (held_ms == 0 && pace == work_pace::whole) {
    now.step_done.deliver(msg<fbs::StepDone>(readdress(done, context_of(*self, now.cause))));
    return;
  }
  now.step_done.deliver(make_msg<fbs::StepDone>(context_of(*self, now.cause), [&](auto& d) {
    d = done.unpack();
    d.power_wait_ms = held_ms;
    d.pace_of_1024 = pace;
  }));
}

void finish(stage_pointer self) {
  auto& now = *self->state.now;
  auto m = make_msg<fbs::FinishStep>(context_of(*self, now.cause), [&](auto& f) {
    f.step = now.step;
    f.lr = now.lr;
    f.evaluation = !now.train;
    f.digest = now.digest;
    f.held = self->state.gate.waited_ns() > 0;
  });
  ask_for<fbs::StepDone>(self, self->state.worker, m,
                         {worker_path(self), fmt::format("the update of step {}", now.step),
                          paced_patience<worker_actor, fbs::FinishStep>(
                              self, self->state.gate.pace(), self->state.may_brake)},
                         ending_op(self,
                                   [self](const msg<fbs::StepDone>& done) {
                                     if (done->pauses()) self->state.gate.stretches(true);  // STG-5
                                     end_of_pass(self, done);
                                   }),
                         failing_op(self));
}

/// STG-2: believes what fits the pass, keeps what is early, counts the rest.
void hear(stage_pointer self, const msg<fbs::ActivationReady>& m) {
  auto& st = self->state;
  const bool evaluation = m->kind() == fbs::OpKind::evaluate;
  const bool fits =
      st.now && st.now->policy && m->step() == st.now->batch && st.now->train == !evaluation;
  if (!fits) {
    const bool past = st.now && st.now->train == !evaluation && m->step() < st.now->batch;
    if (!past && st.early.size() < stage_state::early_limit)
      st.early.push_back(m);
    else
      note_rejection(reject::unexpected, m.type(), "an announcement too late or too many");
    return;
  }
  auto& policy = *st.now->policy;
  const int micro_batch = static_cast<int>(m->micro_batch());
  const bool believed = m->kind() == fbs::OpKind::backward ? policy.gradient_ready(micro_batch)
                                                           : policy.activation_ready(micro_batch);
  if (!believed) note_rejection(reject::unexpected, m.type(), "an announcement that does not fit");
}

/// The loader has the batch (or none is needed): its schedule begins.
void start_schedule(stage_pointer self, int32_t batch_slot) {
  auto& st = self->state;
  auto& now = *st.now;
  now.batch_slot = batch_slot;
  now.policy.emplace(st.schedule, now.train);
  auto early = std::exchange(st.early, {});
  for (const auto& m : early) hear(self, m);
  drive(self);
}

void begin_batch(stage_pointer self) {
  auto& st = self->state;
  auto& now = *st.now;
  now.policy.reset();
  if (!st.at.reads_batches(st.documents)) return start_schedule(self, -1);
  auto m = make_msg<fbs::BatchRequest>(context_of(*self, now.cause), [&](auto& b) {
    b.step = now.batch;
    b.split = now.train ? fbs::Split::train : fbs::Split::validation;
    b.consumer = static_cast<uint32_t>(st.at.rank);
  });
  const auto ready = [self](const msg<fbs::BatchReady>& r) {
    start_schedule(self, static_cast<int32_t>(r->slot()));
  };
  ask_for<fbs::BatchReady>(
      self, st.loader, m,
      {"loader/*", fmt::format("batch {}", now.batch),
       paced_patience<loader_actor, fbs::BatchRequest>(self, st.gate.pace(), st.may_brake)},
      within_pass(self, ready), failing(self));
}

void enqueue(stage_pointer self, const action& a) {
  auto& st = self->state;
  const bool ends_batch = a.what == pipeline_op::update;
  if (ends_batch && st.now->batch < st.now->last_batch)
    st.now->batch_over = true;
  else
    st.gate.put(a);
}

/// STG-5.
void let_begin(stage_pointer self) {
  auto& st = self->state;
  if (!st.now) return;
  const auto now = now_ns(*self);
  while (const auto a = st.gate.next(now)) {
    end_gate_wait(self);
    end_hold(self, now);
    if (a->what == pipeline_op::update)
      finish(self);
    else
      run_op(self, *a);
  }
  if (st.gate.holds() && !st.hold_begun_ns) {
    st.hold_begun_ns = now;
    st.holds_start = st.gate.starts_late();
  }
  if (st.gate.brakes() && !st.gate.empty() && st.gate_wait == 0)
    st.gate_wait = self->stats().begin_wait(
        "pacer", "the next operation (the brake of its power budget)", now);
  const auto opens_ns = st.gate.opens_ns();
  if (!opens_ns || st.gate_wait != 0) return;
  tell_hold(self, *opens_ns - now);
  self->delayed_send(self, std::chrono::nanoseconds(*opens_ns - now), caf::tick_atom_v);
}

/// Whom the schedule waits for, on the registry: nobody, or one of the neighbours.
void tell_wait(stage_pointer self) {
  auto& st = self->state;
  if (st.neighbour_wait != 0) self->stats().end_wait(std::exchange(st.neighbour_wait, 0));
  if (!st.now || !st.now->policy) return;
  const auto next = st.now->policy->awaited();
  if (!next) return;
  const bool forward = next->kind != pipeline_op::backward;
  st.neighbour_wait =
      self->stats().begin_wait(fmt::format("stage/{}", forward ? st.previous_rank : st.next_rank),
                               fmt::format("the {} of micro-batch {}",
                                           forward ? "activation" : "gradient", next->micro_batch),
                               now_ns(*self));
}

void drive(stage_pointer self) {
  auto& now = self->state.now;
  if (now && now->policy)
    for (const auto& a : now->policy->next()) enqueue(self, a);
  let_begin(self);
  tell_wait(self);
}

/// `late_ns`: OPG-7; 0: it starts at once.
/// STG-1: fills `now` and starts, or says why not. A promise has taken the sender: `by`.
template <class Fill>
caf::error begin_pass(stage_pointer self, const message_header& cause, run_actor by,
                      uint32_t pace_of_1024, int64_t late_ns, Fill&& fill) {
  auto& st = self->state;
  if (st.now) return to_caf({errc::bug, "the stage is busy with another pass"});
  if (st.at.reads_batches(st.documents) && !st.loader)
    return to_caf({errc::bug, "the stage has no loader yet", "send AttachLoader first"});
  st.now.emplace();
  ++st.passes;
  st.now->cause = cause;
  st.run = std::move(by);
  fill(*st.now);
  show(self, st.now->train ? "training" : "validating");
  st.gate.begin_pass({static_cast<int>(pace_of_1024)}, late_ns > 0 ? now_ns(*self) + late_ns : 0);
  st.hold_begun_ns.reset();
  st.gate.put({pipeline_op::begin, 0, 0});
  if (st.now->recheck) st.gate.put({pipeline_op::recheck, 0, 0});
  let_begin(self);
  begin_batch(self);
  return {};
}

caf::result<msg<fbs::StepDone>> run_step(stage_pointer self, const msg<fbs::RunStep>& m) {
  auto by = caf::actor_cast<run_actor>(self->current_sender());
  auto rp = self->make_response_promise<msg<fbs::StepDone>>();
  constexpr uint64_t latest_us = op_gate::latest_start_ns / 1000;
  const auto late_ns = static_cast<int64_t>(std::min(m->start_offset_us(), latest_us)) * 1000;
  auto e = begin_pass(self, m.header(), std::move(by), m->pace_of_1024(), late_ns, [&](auto& p) {
    p.step = p.batch = p.last_batch = m->step();
    p.lr = m->lr();
    p.digest = m->digest();
    p.recheck = m->recheck();
    if (m->clocks() != nullptr) p.clocks.reset(m->clocks()->UnPack());
    p.step_done = rp;
  });
  if (e) rp.deliver(std::move(e));
  return rp;
}

caf::result<msg<fbs::ValidationDone>> validate(stage_pointer self, const msg<fbs::Validate>& m) {
  auto by = caf::actor_cast<run_actor>(self->current_sender());
  auto rp = self->make_response_promise<msg<fbs::ValidationDone>>();
  auto e = begin_pass(self, m.header(), std::move(by), m->pace_of_1024(), 0, [&](stage_pass& p) {
    p.train = false;
    p.step = m->step();
    p.batch = 1;
    p.last_batch = std::max(1u, m->batches());
    p.validation_done = rp;
  });
  if (e) rp.deliver(std::move(e));
  return rp;
}

/// STG-6.
msg<fbs::Ack> brake(stage_pointer self, const msg<fbs::Brake>& m) {
  const bool on = m->on();
  if (on != self->state.gate.brakes()) {
    end_hold(self, now_ns(*self));
    self->state.gate.brake(on);
    publish_values(self, [&](fbs::StageStatusT& s) { s.braked = on; });
    end_gate_wait(self);
    let_begin(self);
  }
  return make_msg<fbs::Ack>(context_of(*self, m.header()));
}

/// Messages the worker answers itself.
template <class T, class R>
auto pass_on(stage_pointer self) {
  return [self](const msg<T>& m) -> caf::result<msg<R>> {
    auto rp = self->make_response_promise<msg<R>>();
    ask_for<R>(
        self, self->state.worker, m, {worker_path(self), std::string(message_traits<R>::name)},
        [rp](const msg<R>& r) mutable { rp.deliver(r); },
        [rp](const error& e) mutable { rp.deliver(to_caf(e)); });
    return rp;
  };
}

caf::result<msg<fbs::StageReady>> build(stage_pointer self, const msg<fbs::BuildStage>& m) {
  auto& st = self->state;
  const auto job = received_job(m->config_toml());
  if (!job) return to_caf(job.error());
  const auto at = place_in(**job, *m);
  if (!at) return to_caf(at.error());
  self->set_timeouts(call_timeouts(**job));
  st.schedule = schedule_of_stage(**job, *at);
  st.computed_us = 0;  // another engine's
  st.at = *at;
  st.documents = (*job)->data.reset_attention;
  st.may_brake = (*job)->power.has_parent();
  st.gate.may_brake(st.may_brake);
  st.gate.stretches(!(*job)->power.is_by_actuator());
  auto rp = self->make_response_promise<msg<fbs::StageReady>>();
  ask_for<fbs::StageReady>(
      self, st.worker, m, {worker_path(self), "StageReady"},
      [self, rp](const msg<fbs::StageReady>& r) mutable {
        if (r->pauses()) self->state.gate.stretches(true);  // STG-5
        rp.deliver(r);
      },
      [rp](const error& e) mutable { rp.deliver(to_caf(e)); });
  return rp;
}

}  // namespace

stage_actor::behavior_type stage(stage_pointer self, const spawn_record& record) {
  guard_mailbox(self);
  introduce(self, fmt::format("stage/{}", record.rank), record.epoch);
  note_spawn_record(record);
  const auto rank = static_cast<int>(record.rank);
  self->state.at = {{rank + 1, 1, 1}, rank};  // until built
  self->state.worker = record.worker;
  self->link_to(self->state.worker);
  return {
      status_handler(self),
      [self](const msg<fbs::BuildStage>& m) { return build(self, m); },
      [self](const msg<fbs::AttachLoader>& m,
             const caf::strong_actor_ptr& loader) -> caf::result<msg<fbs::Ack>> {
        self->state.loader = caf::actor_cast<loader_actor>(loader);
        return pass_on<fbs::AttachLoader, fbs::Ack>(self)(m);
      },
      [self](const msg<fbs::Neighbours>& m, const caf::strong_actor_ptr& previous,
             const caf::strong_actor_ptr& next) -> caf::result<msg<fbs::Ack>> {
        self->state.previous = caf::actor_cast<stage_actor>(previous);
        self->state.next = caf::actor_cast<stage_actor>(next);
        self->state.previous_rank = m->previous_rank();
        self->state.next_rank = m->next_rank();
        return make_msg<fbs::Ack>(context_of(*self, m.header()));
      },
      pass_on<fbs::OpenDataPlane, fbs::DataPlaneOffer>(self),
      pass_on<fbs::DataPlaneTable, fbs::DataPlaneReady>(self),
      [self](const msg<fbs::RunStep>& m) -> caf::result<msg<fbs::StepDone>> {
        return run_step(self, m);
      },
      [self](const msg<fbs::Validate>& m) -> caf::result<msg<fbs::ValidationDone>> {
        return validate(self, m);
      },
      [self](const msg<fbs::ActivationReady>& m) {
        hear(self, m);
        drive(self);
      },
      pass_on<fbs::SaveCheckpoint, fbs::Saved>(self),
      [self](const msg<fbs::CopyState>& m) { self->send(self->state.worker, m); },
      pass_on<fbs::FindCopies, fbs::CopiesFound>(self),
      pass_on<fbs::LoadCheckpoint, fbs::Loaded>(self),
      [self](const msg<fbs::Notice>& m) {
        if (const auto& run = self->state.run) self->send(run, m);
      },
      [self](const msg<fbs::Brake>& m) { return brake(self, m); },
      [self](caf::tick_atom) {
        end_gate_wait(self);
        let_begin(self);
      },
  };
}

}  // namespace troupe::train
