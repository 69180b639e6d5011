// Examinations on its thread; exchanges as a chain of requests.
#include "actors/health/medic.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"

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

msg<fbs::CheckupReport> examine(medic_pointer self, const msg<fbs::RunCheckup>& m) {
  auto& st = self->state;
  show(self, "examining");
  auto report = st.options.examine(m.unpack(), st.options.stop);
  report.node = st.options.node;
  ++st.examined;
  show(self, "idle", &report);
  return make_msg<fbs::CheckupReport>(context_of(*self, m.header()), report);
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

void finish(medic_pointer self, pair_under_way& p) {
  const auto now = now_ns(*self);
  if (!p.took_us.empty()) {
    std::sort(p.took_us.begin(), p.took_us.end());
    p.report.latency_us = p.took_us[p.took_us.size() / 2];
  }
  if (p.pieces_ns > 0) {
    const auto pieces = static_cast<double>(p.pieces);
    p.report.bytes_per_s =
        2e9 * pieces * static_cast<double>(pair_bytes) / static_cast<double>(p.pieces_ns);
  }
  p.report.took_ms = static_cast<double>(now - p.begun_ns) / ns_per_ms;
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
    p->took_us.push_back(static_cast<double>(took_ns) / 1e3);
  else
    p->pieces_ns += took_ns;
  exchange_next(self, p, turn + 1);
}

void exchange_next(medic_pointer self, const exchange& p, uint32_t turn) {
  if (turn == p->words + p->pieces) return finish(self, *p);
  p->bytes = bytes_of(turn < p->words ? small_bytes : pair_bytes, turn);
  auto m = make_msg<fbs::PairProbe>(context_of(*self, p->cause),
                                    [&](fbs::PairProbeT& b) { b.bytes = p->bytes; });
  p->sent_ns = now_ns(*self);
  ask_for<fbs::PairEcho>(
      self, p->peer, m, {fmt::format("node/{}", p->report.peer), "the bytes of a pair's test"},
      [self, p, turn](const msg<fbs::PairEcho>& e) { came_back(self, p, turn, e); },
      [p](const error& e) {
        p->promise.deliver(to_caf(e.within(fmt::format("exchange with {}", p->report.peer))));
      });
}

caf::result<msg<fbs::PairReport>> test_pair(medic_pointer self, const msg<fbs::TestPair>& m) {
  auto& st = self->state;
  const auto asked = m.unpack();
  if (asked.peer == st.options.node) return to_caf(same_node(asked.peer));
  auto p = std::make_shared<pair_under_way>();
  p->promise = self->make_response_promise<msg<fbs::PairReport>>();
  p->cause = m.header();
  p->report.peer = asked.peer;
  p->words = small_exchanges;
  p->pieces = std::clamp(asked.exchanges, uint32_t{1}, most_exchanges);  // MED-4
  p->begun_ns = now_ns(*self);
  auto question = make_msg<fbs::FindNode>(context_of(*self, m.header()),
                                          [&](fbs::FindNodeT& f) { f.node = asked.peer; });
  request(self, st.options.coordinator, question)
      .then(
          [self, p](const msg<fbs::Ack>&, const caf::strong_actor_ptr& node) {
            p->peer = caf::actor_cast<node_actor>(node);
            exchange_next(self, p, 0);
          },
          [p](const caf::error& e) { p->promise.deliver(to_caf(from_caf(e))); });
  return p->promise;
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
