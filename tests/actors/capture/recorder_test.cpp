// The flight recorder: whole records or none, in order, with what was lost counted; spans that
// never repeat; the registry and the tap.
#include "actors/capture/recorder.hpp"

#include <bit>
#include <set>
#include <thread>

#include <doctest/doctest.h>

#include "actors/base/actor_registry.hpp"
#include "actors/capture/identities.hpp"
#include "actors/capture/tap.hpp"
#include "messages/msg.hpp"
#include "messages/schemas/common_generated.h"
#include "messages/status_rows.hpp"

using namespace troupe;

namespace {

/// A record whose every field follows from one number: a torn one gives itself away.
trace_record numbered(uint64_t n) {
  trace_record r;
  r.begin_ns = static_cast<int64_t>(n);
  r.span = n * 3;
  r.parent = n * 5;
  r.trace = n * 7;
  r.sender = n * 11;
  r.actor = static_cast<uint32_t>(n);
  r.bytes = static_cast<uint32_t>(n);
  return r;
}

bool whole(const trace_record& r) {
  const auto n = static_cast<uint64_t>(r.begin_ns);
  return r.span == n * 3 && r.parent == n * 5 && r.trace == n * 7 && r.sender == n * 11 &&
         r.actor == static_cast<uint32_t>(n) && r.bytes == static_cast<uint32_t>(n);
}

}  // namespace

TEST_CASE("a ring gives what was written, once, in order") {
  record_ring ring;
  uint64_t from = 0, lost = 0;
  std::vector<trace_record> out;
  for (uint64_t n = 0; n < 10; ++n) ring.push(numbered(n));
  ring.read(from, out, 4, lost);
  CHECK(out.size() == 4);
  ring.read(from, out, 100, lost);
  REQUIRE(out.size() == 10);
  for (uint64_t n = 0; n < 10; ++n) CHECK(out[n].begin_ns == static_cast<int64_t>(n));
  ring.read(from, out, 100, lost);
  CHECK(out.size() == 10);
  CHECK(lost == 0);
}

TEST_CASE("REC-2: what was overwritten is counted, the rest is whole") {
  record_ring ring;
  const auto all = record_ring::capacity * 2 + 100;
  for (uint64_t n = 0; n < all; ++n) ring.push(numbered(n));
  uint64_t from = 0, lost = 0;
  std::vector<trace_record> out;
  ring.read(from, out, SIZE_MAX, lost);
  CHECK(out.size() + lost == all);
  CHECK(out.size() == record_ring::capacity - 1);
  CHECK(out.back().begin_ns == static_cast<int64_t>(all - 1));
}

TEST_CASE("REC-2: a reader beside a writer that laps it never sees a torn record") {
  record_ring ring;
  constexpr uint64_t all = record_ring::capacity * 40;
  std::thread writer([&] {
    for (uint64_t n = 0; n < all; ++n) ring.push(numbered(n));
  });
  uint64_t from = 0, lost = 0, seen = 0, torn = 0;
  int64_t last = -1;
  bool ordered = true;
  while (from < all) {
    std::vector<trace_record> out;
    ring.read(from, out, 5'000, lost);
    for (const auto& r : out) {
      torn += whole(r) ? 0 : 1;
      ordered = ordered && r.begin_ns > last;
      last = r.begin_ns;
    }
    seen += out.size();
  }
  writer.join();
  CHECK(torn == 0);
  CHECK(ordered);
  CHECK(seen + lost == all);
}

TEST_CASE("REC-3: records of a thread that has ended can still be read") {
  recorder records;
  record_reader reader(records, true);
  reader.read(1);
  work_note note;
  note.name = work_name("rec-3");
  note.actor = 4711;
  note.number = 9;
  std::thread([&] { records.note(note); }).join();
  uint64_t found = 0;
  for (const auto& r : reader.read(100'000))
    if (r.kind == record_kind::work && r.actor == 4711 && r.sender == 9) ++found;
  CHECK(found == 1);
}

TEST_CASE("spans of all threads differ and bear the process's number") {
  constexpr int threads = 4, each = 5'000;
  std::vector<std::vector<uint64_t>> spans(threads);
  std::vector<std::thread> all;
  for (auto& mine : spans)
    all.emplace_back([&mine] {
      for (int i = 0; i < each; ++i) mine.push_back(next_span());
    });
  for (auto& t : all) t.join();
  std::set<uint64_t> unique;
  for (const auto& mine : spans)
    for (const auto s : mine) {
      CHECK((s >> 32) == process_tag());
      unique.insert(s);
    }
  CHECK(unique.size() == threads * each);
}

TEST_CASE("names of work keep their numbers") {
  const auto a = work_name("test-a"), b = work_name("test-b");
  CHECK(a != b);
  CHECK(work_name("test-a") == a);
  CHECK(work_names().at(b - 1) == "test-b");
}

TEST_CASE("stats tell state, waits and errors, its waits end by their id") {
  actor_registry registry;
  auto stats = registry.add(0);
  stats->set_kind("thing");
  CHECK(stats->path().substr(0, 7) == "thing/#");
  stats->set_path("thing/1");
  stats->publish("busy", 50);
  stats->publish([](auto& values) { values_of<fbs::NodeStatusT>(values).stages = 1; });
  stats->publish("busy", 70);
  const auto one = stats->begin_wait("peer/2", "an answer", 60);
  const auto many = stats->begin_waits({"peer/3", "peer/4"}, "a sum", 61);
  stats->failed("it broke");
  auto v = stats->view();
  CHECK(v.path == "thing/1");
  CHECK(v.state == "busy");
  CHECK(v.since_ns == 50);  // the same state goes on
  REQUIRE(v.values.node);
  CHECK(v.values.node->stages == 1);
  CHECK(v.waits.size() == 3);
  CHECK(v.last_error == "it broke");
  stats->end_wait(many);
  v = stats->view();
  REQUIRE(v.waits.size() == 1);
  CHECK(v.waits[0].whom == "peer/2");
  stats->end_wait(one);
  CHECK(stats->view().waits.empty());
  CHECK(registry.find("thing/1") == stats);
  stats->ended("normal", 99);
  registry.remove(stats);
  CHECK(registry.find("thing/1") == nullptr);
  const auto dead = registry.view(true);
  CHECK(dead.back().path == "thing/1");
}

TEST_CASE("TAP-1, TAP-2: a tap keeps what fits up to its limit and counts the rest") {
  tap t;
  const auto m = make_msg<fbs::Ack>();
  t.offer(1, 0, 0, m);  // closed
  CHECK(t.drain().empty());
  const auto before = t.dropped();
  t.open([](uint32_t actor, uint16_t) { return actor == 1; });
  t.offer(2, 0, 0, m);
  for (size_t i = 0; i < tap::limit + 10; ++i) t.offer(1, static_cast<int64_t>(i), 0, m);
  const auto taken = t.drain();
  CHECK(taken.size() == tap::limit);
  CHECK(t.dropped() - before == 10);
  t.offer(1, 0, 0, m);
  t.open({});
  CHECK(t.drain().empty());
  CHECK_FALSE(t.is_open());
}

TEST_CASE("a counter is a record with a value, a name and a time") {
  recorder records;
  record_reader reader(records, true);
  reader.read(1);
  records.note(counter_note{work_name("gpu0 W"), 7, 12'345, 412.25});
  std::vector<trace_record> got;
  for (const auto& r : reader.read(100'000))
    if (r.kind == record_kind::counter) got.push_back(r);
  REQUIRE(got.size() == 1);
  CHECK(got[0].begin_ns == 12'345);
  CHECK(got[0].actor == 7);
  CHECK(work_names()[got[0].type - 1] == "gpu0 W");
  CHECK(std::bit_cast<double>(got[0].sender) == 412.25);
}
