// Timelines: one clock, names, the ways between messages, and what is counted as odd.
#include "trace/timeline.hpp"

#include "tests/trace/sample.hpp"

using namespace troupe;
using namespace troupe::trace;

TEST_CASE("timeline: one order on the coordinator's clock, with names") {
  auto t = two_stage_step().build();
  REQUIRE(t.processes().size() == 3);
  CHECK(t.actors().size() == 5);
  CHECK(std::is_sorted(t.events().begin(), t.events().end(),
                       [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; }));
  REQUIRE(t.steps().size() == 1);
  const auto& step = t.steps().front();
  CHECK(step.number == 7);
  const auto& root = t.event(step.event);
  CHECK(root.begin_ns == 5'000'000'000);
  CHECK(root.took_ns() == doctest::Approx(100e6).epsilon(1e-6));
  CHECK(t.bound_ns() == ms(0.05));
  for (const auto& e : t.events()) {
    CHECK(e.begin_ns - root.begin_ns >= -ms(1));
    CHECK(e.end_ns - root.begin_ns <= ms(101));
  }
  // A message between two processes whose clocks differ by more than four seconds.
  for (const auto& e : t.events()) {
    if (t.name(e) != "ActivationReady" || t.path(e.actor) != "stage/1") continue;
    CHECK(t.path(e.sender) == "stage/0");
    CHECK(e.waited_ns() == doctest::Approx(ms(0.4)).epsilon(1e-2));
    const auto from = t.sent_in(e);
    REQUIRE(from != nothing);
    CHECK(t.name(t.event(from)) == "OpDone");
  }
  const auto& c = t.counts();
  CHECK(c.unnamed_actors == 0);
  CHECK(c.unknown_parents == 0);
  CHECK(c.before_sent == 0);
  CHECK(c.overlaps == 0);
  CHECK(t.unix_offset_ns() == 1'700'000'000'000'000'000);
  CHECK(remarks(t).size() == 1);
}

TEST_CASE("timeline: waiting is split, and exact between hosts of very different ages") {
  constexpr double day = 24 * 3600e3;
  trace_maker m;
  m.way_share = 0.25;
  const auto a = m.process("a", 40 * day, 0.02), b = m.process("b", -400 * day, 0.03);
  const auto x = m.add(a, "run"), y = m.add(b, "stage/0"), z = m.add(b, "worker/0");
  m.handle("RunStep", x, y, 1, 5, 6, 1, 1);
  m.handle("RunOp", y, z, 5.5, 7.5, 8, 1, 1);
  const auto t = m.build();
  REQUIRE(t.events().size() == 2);
  const auto& travelled = t.event(0);
  CHECK(travelled.waited_ns() == ms(4));
  CHECK(std::abs(travelled.on_the_way_ns() - ms(1)) <= 2);
  CHECK(std::abs(travelled.in_mailbox_ns() - ms(3)) <= 2);
  const auto& local = t.event(1);
  CHECK(local.waited_ns() == ms(2));
  CHECK(local.on_the_way_ns() == 0);
  CHECK(local.in_mailbox_ns() == ms(2));
  CHECK(t.sent_in(local) == 0);
}

TEST_CASE("timeline: the tree of a step hangs together") {
  auto t = two_stage_step().build();
  const auto root = t.steps().front().span;
  CHECK(t.caused_by(root).size() == 2);
  size_t seen = 0;
  std::vector<uint64_t> open{root};
  while (!open.empty()) {
    const auto span = open.back();
    open.pop_back();
    for (const auto i : t.caused_by(span)) {
      ++seen;
      open.push_back(t.event(i).record.span);
    }
  }
  CHECK(seen + 1 == t.of_trace(root).size());
}

TEST_CASE("timeline TL-2: what is unknown is there and counted") {
  trace_maker m;
  const auto p = m.process("head", 0, 0);
  const auto known = m.add(p, "run");
  const trace_maker::actor nameless{p, 77}, foreign{4711, 3};
  m.process("gone", 0, -1e-6);  // a bound of -1 ns: unknown
  m.handle("RunStep", nameless, known, 0, 1, 2, 5, 999);
  m.handle("RunStep", {}, nameless, 3, 3, 4, 5, 0);
  m.head(foreign.process) = m.head(p);
  m.head(foreign.process).process = foreign.process;
  m.handle("RunStep", foreign, known, 3, 3, 4, 5, 0);
  m.handle("RunStep", nameless, known, 9, 8, 8.5, 5, 0);    // before it was sent
  m.handle("RunStep", nameless, known, 8, 8.2, 8.7, 5, 0);  // while the last is handled
  auto t = m.build();
  CHECK(t.counts().unnamed_actors == 2);
  CHECK(t.counts().unknown_parents == 1);
  CHECK(t.counts().overlaps == 1);
  CHECK_FALSE(t.bound_ns());
  CHECK(t.counts().before_sent == 0);  // nothing can be said without a bound
  bool found = false;
  for (const auto& a : t.actors()) found = found || a.path == "head/#77";
  CHECK(found);
}

TEST_CASE("timeline: a message that is handled before it was sent counts where clocks are known") {
  trace_maker m;
  const auto p = m.process("head", 0, 0), q = m.process("a", 10, 0.1);
  const auto x = m.add(p, "x"), y = m.add(q, "y");
  m.handle("RunStep", x, y, 5, 4.95, 5.2, 1, 0);  // within the bound
  m.handle("RunStep", x, y, 7, 6, 6.5, 1, 0);
  const auto t = m.build();
  CHECK(t.counts().before_sent == 1);
  for (const auto& e : t.events()) CHECK(e.waited_ns() == 0);
}

TEST_CASE("timeline: a message that was passed on has a record at each of its receivers") {
  trace_maker m;
  const auto p = m.process("head", 0, 0);
  const auto x = m.add(p, "x"), y = m.add(p, "y");
  const auto span = m.handle("SaveCheckpoint", {}, x, 0, 1, 2, 1, 0).span;
  m.handle("SaveCheckpoint", x, y, 1.5, 3, 4, 1, 0);
  m.content(p).records.back().span = span;
  const auto t = m.build();
  CHECK(t.with_span(span).size() == 2);
  CHECK(t.counts().duplicates == 0);
}

TEST_CASE("clock line TL-1: lines between offsets, constant outside, and time never turns back") {
  clock_line c;
  c.add(1000, 10, 5);
  c.add(3000, 20, 7);
  c.add(2000, -5000, 3);  // would turn time back
  c.add(2500, 77, -1);    // nothing known of it
  c.finish();
  CHECK(c.map(0) == 10);
  CHECK(c.map(1000) == 1010);
  CHECK(c.map(2000) == 2015);
  CHECK(c.map(3000) == 3020);
  CHECK(c.map(9000) == 9020);
  CHECK(c.bound_ns() == 7);
  int64_t before = c.map(-1);
  for (int64_t at = 0; at < 5000; ++at) {
    const auto now = c.map(at);
    CHECK(now >= before);
    before = now;
  }
  clock_line unknown;
  unknown.add(10, 3, -1);
  unknown.finish();
  CHECK(unknown.map(7) == 10);
  CHECK(unknown.bound_ns() == -1);
}

TEST_CASE("timeline: many batches of one process keep its order") {
  trace_maker m;
  const auto p = m.process("head", 0, 0);
  const auto x = m.add(p, "x");
  for (int i = 0; i < 20'000; ++i)
    m.handle("Heartbeat", {}, x, i * 0.01, i * 0.01, i * 0.01 + 0.009, 1, 0);
  const auto t = m.build();
  CHECK(t.events().size() == 20'000);
  CHECK(t.counts().overlaps == 0);
  CHECK(t.counts().duplicates == 0);
}
