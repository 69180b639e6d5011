// Exports: JSON that parses, slices that nest, arrows whose ends lie in slices, ids that fit; and
// whole small files against what they must be.
#include "trace/export.hpp"

#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "messages/schemas/train_generated.h"
#include "tests/errors.hpp"
#include "tests/trace/sample.hpp"

using namespace troupe;
using namespace troupe::trace;
using nlohmann::json;

namespace {

text_sink into(std::string& text) {
  return [&text](std::string_view piece) -> status {
    text += piece;
    return {};
  };
}

json perfetto_of(const timeline& t) {
  std::string text;
  REQUIRE(export_perfetto(t, into(text)));
  return json::parse(text);
}

/// Nanoseconds of a stamp in microseconds.
int64_t ns(const json& x) {
  return std::llround(x.get<double>() * 1e3);
}

struct slice {
  int64_t begin, end;
};
using tracks = std::map<std::pair<int, int>, std::vector<slice>>;

/// EXP-1 and EXP-2 over a whole file; the number of arrows.
size_t check_structure(const json& file) {
  tracks slices;
  std::set<std::pair<int, int>> named;
  std::map<int64_t, std::pair<json, json>> arrows;
  for (const auto& e : file["traceEvents"]) {
    const auto phase = e["ph"].get<std::string>();
    if (phase == "M" && e["name"] == "thread_name") {
      const bool fresh = named.emplace(e["pid"].get<int>(), e["tid"].get<int>()).second;
      CHECK(fresh);
      CHECK(e["tid"] != e["pid"]);  // a viewer would call it the main thread
    } else if (phase == "X") {
      CHECK(ns(e["ts"]) >= 0);
      CHECK(ns(e["dur"]) > 0);
      slices[{e["pid"], e["tid"]}].push_back({ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])});
    } else if (phase == "s") {
      arrows[e["id"]].first = e;
    } else if (phase == "f") {
      CHECK(e["bp"] == "e");
      arrows[e["id"]].second = e;
    }
  }
  for (const auto& [at, own] : slices) {
    CHECK(named.contains(at));
    for (size_t i = 1; i < own.size(); ++i) CHECK(own[i].begin >= own[i - 1].end);
  }
  const auto covered = [&](const json& e) {
    const auto& own = slices[{e["pid"], e["tid"]}];
    const auto at = ns(e["ts"]);
    return std::any_of(own.begin(), own.end(),
                       [&](const slice& x) { return x.begin <= at && at < x.end; });
  };
  for (const auto& [id, pair] : arrows) {
    REQUIRE_FALSE(pair.first.is_null());
    REQUIRE_FALSE(pair.second.is_null());
    CHECK(covered(pair.first));
    CHECK(covered(pair.second));
    CHECK(ns(pair.first["ts"]) <= ns(pair.second["ts"]));
  }
  return arrows.size();
}

}  // namespace

TEST_CASE("perfetto: tracks, nesting, arrows of a step") {
  const auto t = two_stage_step().build();
  const auto file = perfetto_of(t);
  CHECK(check_structure(file) == 24);  // 15 messages with a span, 9 pieces of work
  size_t slices = 0;
  std::set<std::string> threads, processes;
  for (const auto& e : file["traceEvents"]) {
    if (e["ph"] == "X") ++slices;
    if (e["name"] == "thread_name") threads.insert(e["args"]["name"]);
    if (e["name"] == "process_name") processes.insert(e["args"]["name"]);
  }
  CHECK(slices == t.events().size());
  CHECK(processes == std::set<std::string>{"head (host-head pid 100)", "a (host-a pid 101)",
                                           "b (host-b pid 102)"});
  CHECK(threads == std::set<std::string>{"run", "run steps", "stage/0", "worker/0",
                                         "worker/0 device", "worker/0 link", "stage/1", "worker/1",
                                         "worker/1 device", "worker/1 link"});
  CHECK(file["otherData"]["clock_bound_ns"] == 50'000);
}

TEST_CASE("perfetto EXP-1: what overlaps gets a track of its own, counters follow the mailbox") {
  trace_maker m;
  const auto p = m.process("head \"x\"\n", 0, 0);
  const auto x = m.add(p, "x\\y"), w = m.add(p, "worker/0");
  m.handle("RunStep", {}, x, 0, 0, 10, 1, 0);
  m.handle("RunStep", {}, x, 1, 5, 15, 1, 0);   // an actor that does two things at once
  m.handle("RunStep", {}, x, 1, 15, 15, 1, 0);  // and one that takes no time
  m.handle("RunStep", x, w, 15, 15, 16, 1, 0);
  for (const auto& [begin, end] : {std::pair(0, 10), {2, 4}, {3, 12}, {10, 11}})
    m.work("all_reduce", w, begin, end, 1, 0, 0);
  for (auto& r : m.content(p).records) r.depth = static_cast<uint16_t>(r.begin_ns % 7);
  const auto file = perfetto_of(m.build());
  check_structure(file);
  size_t counters = 0;
  for (const auto& e : file["traceEvents"]) counters += e["ph"] == "C";
  CHECK(counters > 0);
}

TEST_CASE("perfetto: what meters read is a track a device and node") {
  trace_maker m;
  const auto a = m.process("node0", 100, 0), b = m.process("node1", -3000, 0);
  const auto x = m.add(a, "meter/node0"), y = m.add(b, "meter/node1");
  for (const auto& [at, watts] : {std::pair(0.0, 75.5), {1000.0, 412.25}}) {
    m.counter("gpu0 W", x, at, watts);
    m.counter("W", x, at, 2 * watts);
    m.counter("gpu0 W", y, at + 1, watts + 1);
  }
  const auto twice = m.content(a).records.front();
  m.content(a).records.push_back(twice);  // as two views of a trace have it
  m.handle("RunStep", {}, x, 10, 10, 11, 1, 0);
  const auto t = m.build();
  CHECK(t.events().size() == 1);
  CHECK(t.counters().size() == 6);
  CHECK(t.end_ns() - t.begin_ns() == ms(1001));
  const auto file = perfetto_of(t);
  check_structure(file);
  std::map<std::string, std::vector<std::pair<double, double>>> tracks;
  for (const auto& e : file["traceEvents"])
    if (e["ph"] == "C")
      tracks[fmt::format("{}: {}", e["pid"].get<int>(), e["name"].get<std::string>())].emplace_back(
          e["ts"], e["args"]["value"]);
  using points = std::vector<std::pair<double, double>>;
  REQUIRE(tracks.size() == 3);
  CHECK(tracks["1: node0 gpu0 W"] == points{{0, 75.5}, {1e6, 412.25}});
  CHECK(tracks["1: node0 W"] == points{{0, 151}, {1e6, 824.5}});
  CHECK(tracks["2: node1 gpu0 W"] == points{{1000, 76.5}, {1.001e6, 413.25}});
}

TEST_CASE("perfetto: what the run measures is called as it is, a bad payload is counted") {
  auto m = two_stage_step();
  m.counter("loss", m.add(m.process("other", 0, 0), "run"), 50, 2.5);
  auto bad = std::make_unique<fbs::TracedMessageT>();
  bad->message = {1, 2, 3};
  m.content(100).messages.push_back(std::move(bad));
  const auto t = m.build();
  CHECK(t.counts().bad_messages == 1);
  bool found = false;
  const auto file = perfetto_of(t);
  for (const auto& e : file["traceEvents"])
    found = found || (e["ph"] == "C" && e["name"] == "loss" && e["args"]["value"] == 2.5 &&
                      ns(e["ts"]) == ms(50.5));
  CHECK(found);
}

TEST_CASE("otlp EXP-3: ids, kinds, parents, links") {
  auto m = two_stage_step();
  auto passed_on = m.content(101).records.front();
  passed_on.begin_ns += 1000;
  passed_on.actor = 2;
  m.content(101).records.push_back(passed_on);
  const auto t = m.build();
  std::string text;
  auto left_out = export_otlp(t, {"mine"}, into(text));
  REQUIRE(left_out);
  CHECK(*left_out == 4);  // wakeups
  const auto file = json::parse(text);
  REQUIRE(file["resourceSpans"].size() == 3);
  std::set<std::string> ids;
  size_t roots = 0, links = 0;
  std::vector<std::string> parents;
  for (const auto& resource : file["resourceSpans"]) {
    CHECK(resource["resource"]["attributes"][0]["value"]["stringValue"] == "mine");
    for (const auto& s : resource["scopeSpans"][0]["spans"]) {
      const auto trace = s["traceId"].get<std::string>(), id = s["spanId"].get<std::string>();
      CHECK(trace.size() == 32);
      CHECK(id.size() == 16);
      for (const auto& x : {trace, id}) {
        CHECK(x.find_first_not_of("0123456789abcdef") == x.npos);
        CHECK(x.find_first_not_of('0') != x.npos);
      }
      const bool fresh = ids.insert(id).second;
      CHECK(fresh);
      if (s.contains("parentSpanId"))
        parents.push_back(s["parentSpanId"]);
      else
        ++roots;
      links += s.contains("links");
      CHECK(s["kind"].get<int>() >= 1);
      const auto begin = std::stoull(s["startTimeUnixNano"].get<std::string>());
      CHECK(begin > 1'700'000'000'000'000'000u);
      CHECK(std::stoull(s["endTimeUnixNano"].get<std::string>()) >= begin);
    }
  }
  CHECK(roots == 1);
  CHECK(links > 0);
  for (const auto& p : parents) CHECK(ids.contains(p));
}

TEST_CASE("mermaid: a small diagram, letter by letter, a limit that says so") {
  trace_maker m;
  const auto p = m.process("head", 0, 0);
  const auto x = m.add(p, "run"), y = m.add(p, "stage/0; #1");
  m.handle("RunStep", x, y, 0, 1, 3, 5, 0, record_flag::request);
  m.work("forward", y, 1.5, 2.5, 5, 0, 3);
  m.handle("StepDone", y, x, 3, 3.5, 4, 5, 0, record_flag::response | record_flag::failed);
  m.handle("Heartbeat", {}, x, 0, 0, 1, 6, 0);
  const auto t = m.build();
  std::string text;
  REQUIRE(export_mermaid(t, {5, 200}, into(text)));
  CHECK(text ==
        "sequenceDiagram\n  autonumber\n"
        "  participant a0 as run\n"
        "  participant a1 as stage/0#59; #35;1\n"
        "  a0->>a1: RunStep after 0 ns, way 0 ns, mailbox 1.0 ms, took 2.0 ms\n"
        "  Note over a1: forward 3, 1.0 ms after 1.5 ms\n"
        "  a1-->>a0: StepDone after 3.0 ms, way 0 ns, mailbox 500 us, took 500 us, failed\n");
  std::string cut;
  REQUIRE(export_mermaid(t, {5, 2}, into(cut)));
  CHECK(cut.find("Note over a0: ... and 1 more\n") != cut.npos);
  CHECK(export_mermaid(t, {99, 2}, into(cut)).error().code == errc::not_found);
}

TEST_CASE("csv: one line a record, quoted where needed") {
  trace_maker m;
  const auto p = m.process("a,\"b\"", 0, 0);
  const auto x = m.add(p, "run");
  m.handle("RunStep", {}, x, 0, 1, 3, 5, 0, record_flag::request);
  m.work("step", x, 0, 4, 5, 0, 7, 5);
  std::string text;
  REQUIRE(export_csv(m.build(), into(text)));
  CHECK(text ==
        "begin_ns,handling_ns,waiting_ns,kind,name,actor,sender,node,bytes,mailbox,sent,request,"
        "response,failed,system,number,span,parent,trace,on_the_way_ns,in_mailbox_ns\n"
        "5000000000,4000000,0,work,step,run,,\"a,\"\"b\"\"\",0,0,0,0,0,0,0,7,0000000000000005,"
        "0000000000000000,0000000000000005,0,0\n"
        "5001000000,2000000,1000000,handled,RunStep,run,outside,\"a,\"\"b\"\"\",96,0,0,1,0,0,0,,"
        "00000000000003e9,0000000000000000,0000000000000005,0,1000000\n");
}

TEST_CASE("exports end with the sink's first error") {
  const auto t = two_stage_step().build();
  const error why(errc::io, "disk full");
  const text_sink full = [&](std::string_view) -> status { return why; };
  CHECK(export_perfetto(t, full).error() == why);
  CHECK(export_otlp(t, {}, full).error() == why);
  CHECK(export_csv(t, full).error() == why);
  CHECK(export_mermaid(t, {t.steps().front().span, 9}, full).error() == why);
}

TEST_CASE("exports of nothing are whole files") {
  const auto t = timeline::build({});
  CHECK(perfetto_of(t)["traceEvents"].empty());
  std::string text;
  REQUIRE(export_otlp(t, {}, into(text)));
  CHECK(json::parse(text)["resourceSpans"].empty());
}
