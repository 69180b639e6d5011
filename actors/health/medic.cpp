// Examinations on its thread; exchanges as a chain of requests.
#include "actors/health/medic.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"

namespace troupe::health {

namespace {

constexpr uint32_t small_exchanges = 20;
constexpr size_t small_bytes = 64;

using exchange = std::shared_ptr<pair_under_way>;

void show(medic_pointer self, std::string_view doing, const fbs::CheckupReportT* last = nullptr) {
  publish(self, std::string(doing), [&](fbs::MedicStatusT& s) {
    s.examined = self->state.examined;
    if (last == nullptr) return;
    s.bad = static_cast<uint32_t>(
        std::count_if(last->checks.begin(), last->checks.end(),
                      [](const auto& c) { return c->verdict == fbs::CheckVerdict::bad; }));
  });
}

/// MED-5: an error where it waited longer than its asker does. What was asked from afar was made
/// anew by this process's observer.
status still_waited_for(medic_pointer self, const any_msg& m, std::chrono::nanoseconds patience) {
  auto waited = m.received_ago_ns(now_ns(*self));
  if (waited < 0 && m.header().sent_ns != 0) waited = now_ns(*self) - m.header().sent_ns;
  return waited > patience.count() ? status(nobody_waits(waited / ns_per_ms)) : status();
}

// -- pairs ----------------------------------------------------------------------------------------

/// Numbers that no other exchange has.
std::vector<uint8_t> bytes_of(size_t count, uint32_t turn) {
  std::vector<uint8_t> out(count);
  uint32_t at = turn * 2654435761u + 1;
  for (auto& b : out) {
    at = at * 1664525u + 1013904223u;
    b = static_cast<uint8_t>(at >> 24);
  }
  return out;
}

std::chrono::nanoseconds left_of(medic_pointer self, const pair_under_way& p) {
  return defaults::pair_budget - std::chrono::nanoseconds(now_ns(*self) - p.begun_ns);
}

void give_up(medic_pointer self, pair_under_way& p, const error& why) {
  if (self->state.pair.get() != &p) return;
  self->state.pair.reset();
  p.promise.deliver(to_caf(why.within(fmt::format("exchange with {}", p.report.peer))));
}

/// With what came back so far.
void finish(medic_pointer self, pair_under_way& p) {
  if (self->state.pair.get() != &p) return;
  if (!p.took.any())
    return give_up(self, p, nothing_came_back(p.report.peer, defaults::pair_budget.count()));
  p.report.latency_us = p.took.latency_us();
  p.report.bytes_per_s = p.took.bytes_per_s();
  p.report.took_ms = static_cast<double>(now_ns(*self) - p.begun_ns) / ns_per_ms;
  self->state.pair.reset();
  p.promise.deliver(make_msg<fbs::PairReport>(context_of(*self, p.cause), p.report));
}

void exchange_next(medic_pointer self, const exchange& p, uint32_t turn);

void came_back(medic_pointer self, const exchange& p, uint32_t turn, const msg<fbs::PairEcho>& m) {
  const auto took_ns = now_ns(*self) - p->sent_ns;
  const auto* bytes = m->bytes();
  const bool same = bytes != nullptr &&
                    std::equal(bytes->begin(), bytes->end(), p->bytes.begin(), p->bytes.end());
  p->report.wrong += same ? 0 : 1;
  if (turn < p->words)
    p->took.small_came_back(took_ns);
  else
    p->took.large_came_back(took_ns, p->bytes.size());
  exchange_next(self, p, turn + 1);
}

void did_not(medic_pointer self, const exchange& p, uint32_t turn, const error& why) {
  if (why.code != errc::timeout) return give_up(self, *p, why);
  if (turn >= p->words) p->took.large_did_not(now_ns(*self) - p->sent_ns);
  finish(self, *p);
}

void exchange_next(medic_pointer self, const exchange& p, uint32_t turn) {
  using std::chrono::milliseconds;
  if (self->state.pair != p) return;
  const auto left = std::chrono::duration_cast<milliseconds>(left_of(self, *p));
  const bool over = turn == p->words + p->pieces || left < milliseconds(1);  // MED-4
  if (over) return finish(self, *p);
  p->bytes = bytes_of(turn < p->words ? small_bytes : pair_bytes, turn);
  auto m = make_msg<fbs::PairProbe>(context_of(*self, p->cause),
                                    [&](fbs::PairProbeT& b) { b.bytes = p->bytes; });
  p->sent_ns = now_ns(*self);
  ask_for<fbs::PairEcho>(
      self, p->peer, m,
      {fmt::format("node/{}", p->report.peer), "the bytes of a pair's test", left},
      [self, p, turn](const msg<fbs::PairEcho>& e) { came_back(self, p, turn, e); },
      [self, p, turn](const error& e) { did_not(self, p, turn, e); });
}

caf::result<msg<fbs::PairReport>> test_pair(medic_pointer self, const msg<fbs::TestPair>& m) {
  auto& st = self->state;
  const auto asked = m.unpack();
  if (asked.peer == st.options.node) return to_caf(same_node(asked.peer));
  if (const auto waited = still_waited_for(self, m, defaults::pair_patience); !waited)
    return to_caf(waited.error());
  if (st.pair) return to_caf(exchange_under_way(st.pair->report.peer));  // MED-4
  auto p = st.pair = std::make_shared<pair_under_way>();
  p->promise = self->make_response_promise<msg<fbs::PairReport>>();
  p->cause = m.header();
  p->report.peer = asked.peer;
  p->words = small_exchanges;
  p->pieces = std::clamp(asked.exchanges, uint32_t{1}, most_exchanges);  // MED-4
  p->begun_ns = now_ns(*self);
  auto question = make_msg<fbs::FindNode>(context_of(*self, m.header()),
                                          [&](fbs::FindNodeT& f) { f.node = asked.peer; });
  request_within(self, st.options.coordinator, defaults::pair_budget, question)
      .then(
          [self, p](const msg<fbs::Ack>&, const caf::strong_actor_ptr& node) {
            p->peer = caf::actor_cast<node_actor>(node);
            exchange_next(self, p, 0);
          },
          [self, p](const caf::error& e) { give_up(self, *p, from_caf(e)); });
  return p->promise;
}

// -- examinations ---------------------------------------------------------------------------------

caf::result<msg<fbs::CheckupReport>> examine(medic_pointer self, const msg<fbs::RunCheckup>& m) {
  auto& st = self->state;
  const auto patience = m->deep() ? defaults::deep_checkup_patience : defaults::checkup_patience;
  if (const auto waited = still_waited_for(self, m, patience); !waited)
    return to_caf(waited.error());
  if (const auto p = st.pair) give_up(self, *p, exchange_interrupted(st.options.node));
  show(self, examining);
  auto report = st.options.examine(m.unpack(), st.options.stop);
  report.node = st.options.node;
  ++st.examined;
  show(self, "idle", &report);
  return make_msg<fbs::CheckupReport>(context_of(*self, m.header()), report);
}

}  // namespace

medic_actor::behavior_type medic(medic_pointer self, medic_options options) {
  guard_mailbox(self);
  introduce(self, fmt::format("medic/{}", options.node), options.epoch);
  self->state.options = std::move(options);
  show(self, "idle");
  return {
      status_handler(self),
      [self](const msg<fbs::RunCheckup>& m) { return examine(self, m); },
      [self](const msg<fbs::TestPair>& m) { return test_pair(self, m); },
  };
}

}  // namespace troupe::health
