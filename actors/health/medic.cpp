// Examinations on its thread; exchanges as a chain of requests.
#include "actors/health/medic.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "actors/base/gather.hpp"
#include "messages/text.hpp"

namespace troupe::health {

namespace {

constexpr uint32_t small_exchanges = 20;
constexpr size_t small_bytes = 64;
constexpr std::string_view in_a_group = "in a group";

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

/// How long who asks it waits.
template <class T>
std::chrono::milliseconds patience_of(medic_pointer self) {
  return self->timeouts().of(contract_of<medic_actor, T>());
}

/// MED-4.
status has_time(const medic_state& st) {
  if (st.pair) return exchange_under_way(st.pair->report.peer);
  if (st.led) return exchange_under_way(st.led->names[1]);
  return {};
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
  if (const auto free = has_time(st); !free) return to_caf(free.error());  // MED-4
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

// -- groups ---------------------------------------------------------------------------------------

const known_sum& numbers_of(medic_pointer self) {
  auto& numbers = self->state.numbers;
  if (!numbers) numbers = std::make_unique<known_sum>();
  return *numbers;
}

/// MED-6: the newest end counts.
result<fbs::TestGroupEndT> open_end(medic_pointer self, const std::string& group, int rank,
                                    int size) {
  auto& st = self->state;
  st.end.reset();
  gpu::group_options o;
  o.name = group;
  o.rank = rank;
  o.size = size;
  o.host = st.options.host;
  o.ending = st.options.stop;
  TROUPE_TRY(end, test_group::open(o, st.options.open_group));
  fbs::TestGroupEndT out;
  const auto address = end->address();
  out.address.assign(address.begin(), address.end());
  st.end = std::move(end);
  st.opened_ns = now_ns(*self);
  self->delayed_send(self, defaults::group_patience, caf::tick_atom_v);
  return out;
}

void close_forgotten_end(medic_pointer self) {
  auto& st = self->state;
  if (now_ns(*self) - st.opened_ns >= std::chrono::nanoseconds(defaults::group_patience).count())
    st.end.reset();  // MED-6
}

result<fbs::TestGroupSeenT> join_end(medic_pointer self, const std::string& group,
                                     const std::vector<std::string>& ends, uint32_t rounds) {
  auto& st = self->state;
  if (!st.end || st.end->name() != group) return no_such_end(group);
  show(self, in_a_group);
  const auto end = std::move(st.end);
  auto seen = end->join(ends, rounds, numbers_of(self));
  show(self, "idle");
  return seen;
}

caf::result<msg<fbs::TestGroupEnd>> open_test(medic_pointer self,
                                              const msg<fbs::OpenTestGroup>& m) {
  if (const auto waited = still_waited_for(self, m, patience_of<fbs::OpenTestGroup>(self)); !waited)
    return to_caf(waited.error());
  if (m->size() < 2 || m->size() > known_sum::most_members || m->rank() >= m->size())  // MED-6
    return to_caf(invalid_group(fmt::format("rank {} of {}", m->rank(), m->size()),
                                known_sum::most_members));
  if (const auto free = has_time(self->state); !free) return to_caf(free.error());
  auto end = open_end(self, text_of(m->group()), static_cast<int>(m->rank()),
                      static_cast<int>(m->size()));
  if (!end) return to_caf(end.error());
  return make_msg<fbs::TestGroupEnd>(context_of(*self, m.header()), *end);
}

std::vector<std::string> addresses_in(const std::vector<fbs::TestGroupEndT>& ends) {
  std::vector<std::string> out;
  for (const auto& e : ends) out.emplace_back(e.address.begin(), e.address.end());
  return out;
}

caf::result<msg<fbs::TestGroupSeen>> join_test(medic_pointer self,
                                               const msg<fbs::JoinTestGroup>& m) {
  if (const auto waited = still_waited_for(self, m, patience_of<fbs::JoinTestGroup>(self)); !waited)
    return to_caf(waited.error());
  const auto asked = m.unpack();
  std::vector<fbs::TestGroupEndT> ends;
  for (const auto& e : asked.ends) ends.push_back(*e);
  auto seen = join_end(self, asked.group, addresses_in(ends), asked.rounds);
  if (!seen) return to_caf(seen.error());
  return make_msg<fbs::TestGroupSeen>(context_of(*self, m.header()), *seen);
}

using led_group = std::shared_ptr<group_under_way>;

void refuse(medic_pointer self, const led_group& g, const error& why) {
  if (self->state.led != g) return;
  self->state.led.reset();
  self->state.end.reset();
  g->promise.deliver(to_caf(why));
}

void absent(group_under_way& g, const std::string& who, const error& why) {
  if (!g.refused) g.refused = member_absent(who, why.message);
}

void report(medic_pointer self, const led_group& g) {
  if (self->state.led != g) return;
  if (g->refused) return refuse(self, g, *g->refused);  // MED-7
  self->state.led.reset();
  g->promise.deliver(
      make_msg<fbs::GroupReport>(context_of(*self, g->cause), [&](fbs::GroupReportT& r) {
        for (auto& m : g->members)
          r.members.push_back(std::make_unique<fbs::GroupMemberT>(std::move(m)));
        r.took_ms = static_cast<double>(now_ns(*self) - g->begun_ns) / ns_per_ms;
      }));
}

/// What a member came to.
void note_member(group_under_way& g, size_t rank, const result<fbs::TestGroupSeenT>& seen) {
  auto& member = g.members[rank];
  if (seen) {
    member.seen = std::make_unique<fbs::TestGroupSeenT>(*seen);
    return;
  }
  member.failure = seen.error().message;
  if (seen.error().is(no_such_end) || seen.error().is(nobody_waits))
    absent(g, member.node, seen.error());
}

/// The others first, then itself, which takes its thread until the group is over.
void join_all(medic_pointer self, const led_group& g) {
  auto m = make_msg<fbs::JoinTestGroup>(context_of(*self, g->cause), [&](auto& j) {
    j.group = g->group;
    for (const auto& e : g->ends) j.ends.push_back(std::make_unique<fbs::TestGroupEndT>(e));
    j.rounds = g->rounds;
  });
  gather_each<fbs::TestGroupSeen>(
      self, g->nodes,
      [&](size_t i) {
        return awaited{fmt::format("node/{}", g->names[i + 1]), "the sums of a group's test"};
      },
      [&](size_t) { return std::tuple(m); },
      [g](size_t i, const result<msg<fbs::TestGroupSeen>>& r) {
        note_member(*g, i + 1,
                    r ? result<fbs::TestGroupSeenT>(r->unpack()) : r.error());
      },
      [self, g] { report(self, g); });
  note_member(*g, 0, join_end(self, g->group, addresses_in(g->ends), g->rounds));
}

void open_all(medic_pointer self, const led_group& g) {
  if (self->state.led != g) return;
  if (g->refused) return refuse(self, g, *g->refused);
  auto own = open_end(self, g->group, 0, static_cast<int>(g->names.size()));
  if (!own) return refuse(self, g, member_absent(g->names[0], own.error().message));
  g->ends[0] = *own;
  gather_each<fbs::TestGroupEnd>(
      self, g->nodes,
      [&](size_t i) {
        return awaited{fmt::format("node/{}", g->names[i + 1]), "its end of a group's test"};
      },
      [&](size_t i) {
        return std::tuple(make_msg<fbs::OpenTestGroup>(context_of(*self, g->cause), [&](auto& o) {
          o.group = g->group;
          o.rank = static_cast<uint32_t>(i + 1);
          o.size = static_cast<uint32_t>(g->names.size());
        }));
      },
      [g](size_t i, const result<msg<fbs::TestGroupEnd>>& r) {
        if (!r) return absent(*g, g->names[i + 1], r.error());
        g->ends[i + 1] = r->unpack();
      },
      [self, g] {
        if (g->refused) return refuse(self, g, *g->refused);
        if (self->state.led == g) join_all(self, g);
      });
}

/// Names out of a message, each once, or nothing.
std::vector<std::string> members_in(const std::string& nodes, const std::string& own) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= nodes.size();) {
    const auto end = std::min(nodes.find(',', at), nodes.size());
    out.push_back(nodes.substr(at, end - at));
    at = end + 1;
  }
  const bool each_once = std::set<std::string>(out.begin(), out.end()).size() == out.size();
  const bool fits = out.size() >= 2 && out.size() <= known_sum::most_members;
  return each_once && fits && out.front() == own ? out : std::vector<std::string>();
}

caf::result<msg<fbs::GroupReport>> test_group_of(medic_pointer self, const msg<fbs::TestGroup>& m) {
  auto& st = self->state;
  if (const auto waited = still_waited_for(self, m, defaults::group_patience); !waited)
    return to_caf(waited.error());
  if (const auto free = has_time(st); !free) return to_caf(free.error());
  const auto nodes = text_of(m->nodes());
  auto names = members_in(nodes, st.options.node);
  if (names.empty()) return to_caf(invalid_group(nodes, known_sum::most_members));
  auto g = st.led = std::make_shared<group_under_way>();
  g->promise = self->make_response_promise<msg<fbs::GroupReport>>();
  g->cause = m.header();
  g->begun_ns = now_ns(*self);
  g->group = fmt::format("doctor/{}/{}", st.options.node, g->begun_ns);
  g->rounds = std::clamp(m->rounds(), uint32_t{1}, most_rounds);
  g->names = std::move(names);
  g->nodes.resize(g->names.size() - 1);
  g->ends.resize(g->names.size());
  g->members.resize(g->names.size());
  for (size_t i = 0; i < g->names.size(); ++i) g->members[i].node = g->names[i];
  gather_each<fbs::Ack, caf::strong_actor_ptr>(
      self, std::vector<coordinator_actor>(g->nodes.size(), st.options.coordinator),
      [&](size_t i) {
        return awaited{"coordinator", fmt::format("where node {} is", g->names[i + 1])};
      },
      [&](size_t i) {
        return std::tuple(make_msg<fbs::FindNode>(context_of(*self, g->cause),
                                                  [&](auto& f) { f.node = g->names[i + 1]; }));
      },
      [g](size_t i, const result<msg<fbs::Ack>>& r, const caf::strong_actor_ptr& node) {
        if (!r) return absent(*g, g->names[i + 1], r.error());
        g->nodes[i] = caf::actor_cast<node_actor>(node);
      },
      [self, g] { open_all(self, g); });
  return g->promise;
}

// -- examinations ---------------------------------------------------------------------------------

caf::result<msg<fbs::CheckupReport>> examine(medic_pointer self, const msg<fbs::RunCheckup>& m) {
  auto& st = self->state;
  const auto patience = m->deep() ? defaults::deep_checkup_patience : defaults::checkup_patience;
  if (const auto waited = still_waited_for(self, m, patience); !waited)
    return to_caf(waited.error());
  if (const auto p = st.pair) give_up(self, *p, exchange_interrupted(st.options.node));
  if (const auto g = st.led) refuse(self, g, exchange_interrupted(st.options.node));
  st.end.reset();  // MED-7: its group hears that it takes no part
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
      [self](const msg<fbs::TestGroup>& m) { return test_group_of(self, m); },
      [self](const msg<fbs::OpenTestGroup>& m) { return open_test(self, m); },
      [self](const msg<fbs::JoinTestGroup>& m) { return join_test(self, m); },
      [self](caf::tick_atom) { close_forgotten_end(self); },
  };
}

}  // namespace troupe::health
