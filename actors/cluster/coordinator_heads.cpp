// Several heads: the coordinator acts while a majority of voters says so (CRD-18).
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"
#include "actors/cluster/coordinating.hpp"
#include "actors/heads/elector.hpp"

namespace troupe::cluster::coordinating {

namespace {

/// It acts no more. The nodes hear nothing: they are another head's, or will be.
void fall(coordinator_pointer self, const error& why) {
  auto& st = self->state;
  if (std::exchange(st.ended, true)) return;
  st.ended_ns = now_ns(*self);
  self->send(st.record.reporter,
             make_msg<fbs::RunEnded>(context(self), [&](auto& e) { put_error(why, e); }));
  for (auto& [index, who] : st.members) who.gone = true;
  st.record.elector = elector_actor{};  // nobody is told that the job is over
  show(self);
  quit_when_alone(self);
}

void not_elected(coordinator_pointer self, const error& why) {
  auto& st = self->state;
  if (why.is(heads::outvoted)) return fall(self, why);
  // The elector was late, as where this process slept: it is asked again.
  if (!why.is(heads::no_majority)) return;
  if (!std::exchange(st.told_minority, true))
    say(self,
        fmt::format("{}: nothing is begun or committed until they do", why.message),
        fbs::NoticeLevel::warning);
  const auto patience_ns =
      st.record.plan.job.recovery.head_takeover_s * 1000 * ns_per_ms;
  const bool begins_the_job = st.elected == 0 && !goes_on(st);
  const auto since_ns = st.elected > 0 ? st.elected_ns : st.first_asked_ns.value_or(0);
  if (!begins_the_job && now_ns(*self) - since_ns > patience_ns) fall(self, why);
}

void elected(coordinator_pointer self, uint32_t epoch) {
  auto& st = self->state;
  st.elected = epoch;
  st.elected_ns = now_ns(*self);
  st.told_minority = false;
  if (is_elected(st) && std::exchange(st.to_suspend, false)) suspend(self);
  tick(self);
}

/// A vote is the elector's to give.
template <class R, class T, class... Beside>
caf::result<msg<R>> by_elector(coordinator_pointer self, const msg<T>& m, const char* what,
                               const Beside&... beside) {
  const auto& elector = self->state.record.elector;
  if (!elector) return to_caf({errc::unavailable, "this job has one head"});
  auto rp = self->make_response_promise<msg<R>>();
  ask_with<R>(
      self, elector, std::tuple(m, beside...), {"elector", what},
      [rp](const msg<R>& r) mutable { rp.deliver(r); },
      [rp](const error& e) mutable { rp.deliver(to_caf(e)); });
  return rp;
}

}  // namespace

bool goes_on(const coordinator_state& st) {
  return st.record.memory && st.record.memory->lost;
}

bool is_elected(const coordinator_state& st) {
  return !st.record.elector || st.elected == st.record.epoch;
}

void elect(coordinator_pointer self) {
  auto& st = self->state;
  if (!st.record.elector || st.electing || st.ended) return;
  const auto period_ns =
      st.record.plan.job.recovery.head_takeover_s * 1000 * ns_per_ms / 3;
  if (is_elected(st) && now_ns(*self) - st.elected_ns < period_ns) return;
  st.electing = true;
  if (!st.first_asked_ns) st.first_asked_ns = now_ns(*self);
  const auto epoch = st.record.epoch;
  ask_either<fbs::Elected>(
      self, st.record.elector,
      std::tuple(make_msg<fbs::Elect>(context(self), [&](auto& e) { e.epoch = epoch; })),
      {"elector", fmt::format("a majority for epoch {}", epoch)},
      [self, epoch](const result<msg<fbs::Elected>>& won) {
        self->state.electing = false;
        if (self->state.ended) return;
        if (won) return elected(self, epoch);
        not_elected(self, won.error());
      });
}

void suspend_once_elected(coordinator_pointer self) {
  if (is_elected(self->state)) return suspend(self);
  self->state.to_suspend = true;
  elect(self);
}

caf::result<msg<fbs::HeadFound>> find_head(coordinator_pointer self, const msg<fbs::FindHead>& m,
                                           const caf::strong_actor_ptr& asker) {
  return by_elector<fbs::HeadFound>(self, m, "how this head is", asker);
}

caf::result<msg<fbs::Promised>> promise(coordinator_pointer self,
                                        const msg<fbs::PromiseEpoch>& m) {
  return by_elector<fbs::Promised>(self, m, "its vote");
}

caf::result<msg<fbs::Promised>> hold(coordinator_pointer self, const msg<fbs::HoldRecord>& m) {
  return by_elector<fbs::Promised>(self, m, "its vote");
}

/// CRD-19. One that does not say so in time is not waited for: its link may be broken.
void tell_heads(coordinator_pointer self, const std::string& reason) {
  auto& st = self->state;
  if (!st.record.elector) return;
  st.heads_to_hear = true;
  ask_either<fbs::Ack>(
      self, st.record.elector,
      std::tuple(make_msg<fbs::HeadEnds>(context(self), [&](auto& e) { e.reason = reason; })),
      {"elector", "other heads that hear that the job is over"},
      [self](const result<msg<fbs::Ack>>&) {
        self->state.heads_to_hear = false;
        quit_when_alone(self);
      });
}

}  // namespace troupe::cluster::coordinating
