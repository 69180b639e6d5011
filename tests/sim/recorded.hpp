// Recordings of simulated clusters, altered and replayed, for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "actors/replay/message_parts.hpp"
#include "actors/replay/recording.hpp"
#include "actors/replay/replay.hpp"
#include "actors/sim/simulation.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"
#include "trace/trace_file.hpp"

namespace troupe::replay::test {

/// A job of two stages, some steps long.
inline sim::simulation_options small() {
  sim::simulation_options o;
  o.nodes = 2;
  o.pipeline = 2;
  o.steps = 3;
  o.validate_every = 2;
  o.checkpoint_every = 2;
  return o;
}

/// A recording of the actors of a simulated cluster.
struct recorded {
  scratch folder;
  std::filesystem::path file = folder / "r.trace";

  explicit recorded(const std::string& actors, const sim::simulation_options& o = small()) {
    const recording logs(o.in, {actors, file, "sim", "here"});
    const auto done = sim::simulate(o);
    REQUIRE(done);
    CHECK_MESSAGE(!done->violation, done->violation.value_or(""));
  }

  actor_logs read() const {
    auto all = read_actor_logs(file);
    REQUIRE_MESSAGE(all, (all ? "" : all.error().message));
    return std::move(*all);
  }

  std::vector<fbs::TraceBatchT> batches() const {
    auto from = trace::trace_reader::open(file);
    REQUIRE(from);
    std::vector<fbs::TraceBatchT> out;
    while (true) {
      auto b = from->next();
      REQUIRE(b);
      if (!*b) return out;
      out.push_back((*b)->unpack());
    }
  }

  void write(const std::vector<fbs::TraceBatchT>& batches) const {
    auto to = trace::trace_writer::create(file);
    REQUIRE(to);
    for (const auto& b : batches) REQUIRE(to->append(make_msg<fbs::TraceBatch>({}, b)));
    REQUIRE(to->finish());
  }

  std::string bytes() const {
    auto text = io::read_file(file, 64u << 20);
    REQUIRE(text);
    return *text;
  }
};

inline replay_result again(const logged_actor& log) {
  auto done = replay::replay(log);
  REQUIRE_MESSAGE(done, (done ? "" : render(done.error())));
  return std::move(*done);
}

inline std::string text_of(const replay_result& o) {
  std::string out = o.actor + ":";
  for (const auto& d : o.differences)
    out += "\n" + std::to_string(d.message) + " " + d.given + ": " + d.said + " " + d.field + " " +
           d.recorded + " / " + d.replayed;
  for (const auto& r : o.remarks) out += "\n" + r;
  return out;
}

/// Every field of the first event that `chosen` takes.
template <class Chosen, class Change>
uint64_t alter(std::vector<fbs::TraceBatchT>& batches, Chosen chosen, Change change) {
  uint64_t given = 0;
  for (auto& b : batches)
    for (auto& e : b.log) {
      if (e->kind == fbs::ActorLogKind::got) ++given;
      if (!chosen(*e)) continue;
      change(*e);
      return given;
    }
  FAIL("no such event");
  return 0;
}

/// A message of type T within an event, changed.
template <class T, class Change>
bool rewrite(fbs::ActorLogEventT& e, Change change) {
  for (auto& p : e.parts) {
    if (p->kind != fbs::ActorLogPartKind::message) continue;
    auto m = decode(p->message);
    if (!m || m->type() != msg<T>::type_id) continue;
    auto t = msg<T>(*m).unpack();
    change(t);
    message_context c;
    c.epoch = m->epoch();
    p->message = encode(make_msg<T>(c, t));
    return true;
  }
  return false;
}

}  // namespace troupe::replay::test
