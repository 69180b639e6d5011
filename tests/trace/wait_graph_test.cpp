// Wait-for graphs of many shapes: who is named, and with what.
#include "trace/wait_graph.hpp"

#include <memory>
#include <random>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "messages/msg.hpp"
#include "messages/schemas/control_generated.h"

using namespace troupe;
using namespace troupe::trace;

namespace {

constexpr int64_t s = 1'000'000'000;

waiting_actor who(std::string path, std::vector<waiting_for> waits = {},
                  std::optional<grid_place> place = {}) {
  waiting_actor a;
  a.path = std::move(path);
  a.state = "training";
  a.place = place;
  a.waits = std::move(waits);
  return a;
}

waiting_actor stage(int rank, int data, int pipeline, std::vector<waiting_for> waits = {}) {
  return who(fmt::format("stage/{}", rank), std::move(waits), grid_place{data, 0, pipeline});
}

waiting_process node(std::string name, std::vector<waiting_actor> actors, int64_t silent_ns = 0) {
  waiting_process p;
  p.node = std::move(name);
  p.host = "h";
  p.pid = 42;
  p.silent_ns = silent_ns;
  p.actors = std::move(actors);
  return p;
}

/// Kinds and actors of the culprits: "silent stage/1,worker/1".
std::vector<std::string> names(const std::vector<culprit>& all) {
  constexpr const char* kinds[] = {"silent", "busy", "missing", "idle"};
  std::vector<std::string> out;
  for (const auto& c : all) {
    std::string line = kinds[static_cast<size_t>(c.kind)];
    for (size_t i = 0; i < c.actors.size(); ++i) line += (i == 0 ? " " : ",") + c.actors[i];
    out.push_back(line);
  }
  return out;
}

using cluster = std::vector<waiting_process>;

struct shape {
  const char* what;
  cluster in;
  std::vector<std::string> culprits, suspects;
  size_t cycles;
};

/// The run waits for both stages of a pipeline in two nodes, each of which has one rank.
cluster pipeline(std::vector<waiting_for> stage0, std::vector<waiting_for> stage1,
                 int64_t silent0 = 0, int64_t silent1 = 0) {
  return {
      node("head", {who("run", {{"stage/0", "StepDone", 9 * s}, {"stage/1", "StepDone", 9 * s}})}),
      node("a", {stage(0, 0, 0, std::move(stage0)), who("worker/0")}, silent0),
      node("b", {stage(1, 0, 1, std::move(stage1)), who("worker/1")}, silent1)};
}

waiting_actor handling(waiting_actor a, int64_t for_ns) {
  a.handling = "RunOp";
  a.handling_for_ns = for_ns;
  return a;
}

std::vector<shape> chains() {
  return {
      {"nothing", {}, {}, {}, 0},
      {"all idle", {node("head", {who("run"), who("stage/0")})}, {}, {}, 0},
      {"who asks for the graph waits for observers meanwhile",
       {node("head", {who("gateway", {{"observer/a", "the answer to ListActors", s / 2}})}),
        node("a", {who("observer/a")})},
       {},
       {},
       0},
      {"so does the monitor, for the gateway",
       {node("head", {who("monitor", {{"gateway", "who waits for whom", s / 2}}), who("gateway")}),
        node("a", {who("observer/a")})},
       {},
       {},
       0},
      {"an observer that keeps the gateway waiting",
       {node("head", {who("gateway", {{"observer/a", "the answer to ListActors", s}})}),
        node("a", {who("observer/a")})},
       {"idle observer/a"},
       {},
       0},
      {"a chain ends at a worker",
       pipeline({{"worker/0", "forward", 5 * s}}, {{"stage/0", "activation", 5 * s}}),
       {"idle worker/0"},
       {},
       0},
  };
}

std::vector<shape> stopped_processes() {
  return {
      {"a stopped process, whatever it said last",
       pipeline({{"worker/0", "forward", s}, {"stage/1", "gradient", s}},
                {{"stage/0", "activation", 5 * s}}, 6 * s),
       {"silent stage/0,worker/0"},
       {},
       0},
      {"a stopped process before those who seem idle",
       pipeline({{"worker/0", "forward", 5 * s}}, {{"worker/1", "forward", s}}, 0, 6 * s),
       {"silent stage/1,worker/1"},
       {"idle worker/0"},
       0},
      {"two stopped processes",
       pipeline({}, {}, 3 * s, 6 * s),
       {"silent stage/1,worker/1", "silent stage/0,worker/0"},
       {},
       0},
      {"a stopped process nobody waits for is named too",
       {node("head", {who("run")}), node("a", {who("stage/0")}, 4 * s)},
       {"silent stage/0"},
       {},
       0},
      {"a stopped process that never said anything",
       {node("head", {who("run")}), node("a", {}, 4 * s)},
       {"silent"},
       {},
       0},
  };
}

std::vector<shape> culprits() {
  return {
      {"one that handles a message for long, though it waits as well",
       {node("head", {who("run", {{"stage/0", "StepDone", 9 * s}})}),
        node("a",
             {handling(who("stage/0", {{"worker/0", "forward", 8 * s}}), 7 * s), who("worker/0")})},
       {"busy stage/0"},
       {"idle worker/0"},
       0},
      {"one that handles a message for a moment is not stuck",
       {node("head", {who("run", {{"stage/0", "StepDone", 9 * s}})}),
        node("a", {handling(who("stage/0", {{"worker/0", "forward", 8 * s}}), s / 10),
                   who("worker/0")})},
       {"idle worker/0"},
       {},
       0},
      {"somebody who does not exist",
       {node("head", {who("run", {{"committer", "a folder", 9 * s}})})},
       {"missing committer"},
       {},
       0},
      {"somebody who does not exist, at the end of a chain",
       {node("head",
             {who("run", {{"committer", "a folder", 9 * s}}), who("x", {{"run", "it", s}})})},
       {"missing committer"},
       {},
       0},
  };
}

std::vector<shape> cycles() {
  return {
      {"two that wait for each other",
       {node("head", {who("x", {{"y", "b", 3 * s}}), who("y", {{"x", "a", 3 * s}}),
                      who("run", {{"x", "c", 3 * s}})})},
       {},
       {},
       1},
      {"two ends of a transfer wait for each other for a moment",
       {node("a", {who("worker/0", {{"worker/1", "send_activation 3", s / 100}}),
                   who("worker/1", {{"worker/0", "receive_activation 3", s / 100}})})},
       {},
       {},
       0},
      {"a cycle with a way out is none",
       pipeline({{"worker/0", "forward", 2 * s}, {"stage/1", "gradient", 5 * s}},
                {{"stage/0", "activation", 5 * s}}),
       {"idle worker/0"},
       {},
       0},
      {"two deadlocks, and one beside them that waits",
       {node("head",
             {who("a", {{"b", "1", s}}), who("b", {{"c", "2", s}}), who("c", {{"a", "3", s}}),
              who("x", {{"y", "4", s}}), who("y", {{"x", "5", s}}),
              who("z", {{"worker/0", "6", s}}), who("worker/0")})},
       {"idle worker/0"},
       {},
       2},
  };
}

std::vector<shape> patterns_and_sums() {
  return {
      {"a pattern: the loader of the own process",
       {node("a", {who("stage/0", {{"loader/*", "batch", 3 * s}}), who("loader/a")}),
        node("b", {who("stage/1"), who("loader/b")})},
       {"idle loader/a"},
       {},
       0},
      {"a pattern: any in other processes",
       {node("a", {who("run", {{"stage/?", "StepDone", 3 * s}})}),
        node("b", {who("stage/1"), who("stage/2")})},
       {"idle stage/1", "idle stage/2"},
       {},
       0},
      {"nobody waits for itself",
       {node("a", {who("x", {{"*", "anything", s}}), who("y")})},
       {"idle y"},
       {},
       0},
      {"a sum over replicas: the one that has not come",
       {node("head",
             {who("run", {{"stage/0", "StepDone", 9 * s}, {"stage/1", "StepDone", 9 * s}})}),
        node("a", {stage(0, 0, 0, {{"worker/0", "the update of step 4", 8 * s}}), who("worker/0"),
                   stage(1, 1, 0, {{"worker/1", "backward of micro-batch 2", 9 * s}}),
                   who("worker/1")})},
       {"idle worker/1"},
       {},
       0},
      {"a sum over replicas: all have come",
       {node("a",
             {stage(0, 0, 0, {{"worker/0", "the update of step 4", 8 * s}}), who("worker/0"),
              stage(1, 1, 0, {{"worker/1", "the update of step 4", 8 * s}}), who("worker/1")})},
       {"idle worker/0", "idle worker/1"},
       {},
       0},
  };
}

}  // namespace

TEST_CASE("wait graph: shapes") {
  std::vector<shape> all;
  for (const auto& some :
       {chains(), stopped_processes(), culprits(), cycles(), patterns_and_sums()})
    all.insert(all.end(), some.begin(), some.end());
  for (const auto& x : all) {
    CAPTURE(x.what);
    const auto r = find_culprits(x.in, {});
    CHECK(names(r.culprits) == x.culprits);
    CHECK(names(r.suspects) == x.suspects);
    CHECK(r.cycles.size() == x.cycles);
    CHECK_FALSE(wait_text(x.in, r).empty());
    CHECK(nlohmann::json::parse(wait_json(x.in, r))["culprits"].size() == x.culprits.size());
  }
}

TEST_CASE("wait graph: the culprit comes with place, chain and waiters") {
  const auto in = pipeline({{"worker/0", "forward", 5 * s}},
                           {{"stage/0", "the activation of micro-batch 3", 5 * s}}, 0, 0);
  const auto r = find_culprits(in, {});
  REQUIRE(r.culprits.size() == 1);
  const auto& c = r.culprits.front();
  CHECK(c.place == "data 0, pipeline 0");
  CHECK(c.waiters == 3);
  CHECK(c.for_ns == 5 * s);
  REQUIRE(c.chain.size() == 2);
  CHECK(in[c.chain[0].from.process].actors[c.chain[0].from.actor].path == "run");
  const auto text = wait_text(in, r);
  CHECK(text.find("culprit:\n  worker/0 [data 0, pipeline 0] on node a (process 42 on h) waits for "
                  "nobody; its state is training; 3 actors wait for it\n") == 0);
  CHECK(text.find("    stage/0 waits 5.00 s for worker/0: forward\n") != text.npos);
}

TEST_CASE("wait graph: a silent process is named with all its places") {
  const auto in = pipeline({{"stage/1", "the gradient of micro-batch 0", 5 * s}}, {}, 0, 6 * s);
  const auto text = wait_text(in, find_culprits(in, {}));
  CHECK(text.find("culprit:\n  node b (process 42 on h) [data 0, pipeline 1] has not answered for "
                  "6.00 s; its actors: stage/1, worker/1; 2 actors wait for it\n") == 0);
  auto unknown = in;
  unknown[2].actors.clear();
  unknown[2].ranks = "1, 3";
  CHECK(find_culprits(unknown, {}).culprits.front().place == "ranks 1, 3");
}

TEST_CASE("wait graph: a deadlock is told as its cycle") {
  const cluster in{
      node("a", {who("x", {{"y", "an answer", 3 * s}}), who("y", {{"x", "a token", 2 * s}})})};
  const auto r = find_culprits(in, {});
  REQUIRE(r.cycles.size() == 1);
  CHECK(r.cycles.front().size() == 2);
  CHECK(wait_text(in, r).find(
            "deadlock: these wait for each other\n  x waits 3.00 s for y: an answer\n"
            "  y waits 2.00 s for x: a token\n") == 0);
}

TEST_CASE("wait graph: as a graph for Graphviz, in which no name ends a name or a line") {
  const cluster in{node("a", {who("x", {{"y", "an \"answer\"\n", 3 * s}}), who("y")}),
                   node("b\" ]", {who("z\\", {{"gone", "a token", 2 * s}})})};
  CHECK(wait_dot(in, find_culprits(in, {})) ==
        "digraph waits {\n  rankdir=LR;\n  node [shape=box];\n"
        "  \"gone\" [color=red, penwidth=2];\n"
        "  \"b\\\" ]\" -> \"gone\";\n"
        "  \"x (a)\" -> \"y (a)\" [label=\"an \\\"answer\\\"\\\\n, 3.00 s\"];\n}\n");
}

TEST_CASE("wait graph: a report can be shortened, whatever it says") {
  cluster in{node("a", {who("y")})};
  for (int i = 0; i < 100; ++i)
    in.push_back(node("n" + std::to_string(i),
                      {who("x" + std::to_string(i), {{"y", "an answer", (i + 1) * s}})}));
  const auto all = find_culprits(in, {});
  REQUIRE(all.edges.size() == 100);
  const auto few = shortened(all, 10, 3);
  REQUIRE(few.edges.size() == 10);
  CHECK(few.edges[0].for_ns == 100 * s);  // the longest first
  CHECK(few.culprits.size() == 1);
  CHECK(few.culprits[0].waiters == 100);  // of all
}

TEST_CASE("wait graph: short waits can be left out, stages without a place do no harm") {
  auto in = pipeline({{"worker/0", "forward", s / 100}}, {});
  for (const size_t i : {1, 2}) in[i].actors[0].place.reset();
  wait_options o;
  o.least_ns = s;
  const auto r = find_culprits(in, o);
  CHECK(names(r.culprits) == std::vector<std::string>{"idle stage/0", "idle stage/1"});
  CHECK(r.culprits.front().place == "rank 0");
}

TEST_CASE("wait graph WG-2, WG-3: whoever waits, waits for an end or in a cycle") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    cluster in;
    const auto count = 1 + random() % 12;
    for (size_t i = 0; i < count; ++i) {
      if (i % 3 == 0) in.push_back(node(fmt::format("n{}", i), {}, random() % 8 == 0 ? s : 0));
      auto a = who(fmt::format("x{}", i));
      for (size_t w = random() % 3; w > 0; --w)
        a.waits.push_back({fmt::format("x{}", random() % (count + 1)), "it", s});
      in.back().actors.push_back(a);
    }
    const auto r = find_culprits(in, {});
    size_t waiting = 0;
    for (const auto& e : r.edges) waiting += e.for_ns > 0;
    if (waiting > 0) CHECK(r.culprits.size() + r.cycles.size() > 0);
    for (const auto& cycle : r.cycles)
      for (size_t i = 0; i < cycle.size(); ++i)
        CHECK(cycle[i].to == cycle[(i + 1) % cycle.size()].from);
    for (const auto& c : r.culprits)
      for (size_t i = 1; i < c.chain.size(); ++i) CHECK(c.chain[i - 1].to == c.chain[i].from);
  }
}

TEST_CASE("wait graph: from the gateway's answer") {
  fbs::ClusterViewT view;
  view.nodes.push_back(std::make_unique<fbs::ActorListT>());
  auto& n = *view.nodes.back();
  n.node = "b";
  n.pid = 9;
  n.silent_ns = 5;
  n.ranks = "3";
  n.actors.push_back(std::make_unique<fbs::ActorInfoT>());
  n.actors.back()->path = "stage/3";
  n.actors.back()->handling = "RunStep";
  n.actors.back()->handling_for_ns = 7;
  n.actors.back()->waits.push_back(std::make_unique<fbs::ActorWaitT>());
  n.actors.back()->waits.back()->whom = "worker/3";
  n.actors.back()->values = std::make_unique<fbs::StatusValuesT>();
  n.actors.back()->values->stage = std::make_unique<fbs::StageStatusT>();
  n.actors.back()->values->stage->data_rank = 1;
  n.actors.back()->values->stage->pipeline_rank = 2;
  n.actors.push_back(std::make_unique<fbs::ActorInfoT>());
  n.actors.back()->ended = "killed";
  const auto m = make_msg<fbs::ClusterView>(message_context{}, view);
  const auto in = waits_of(*m);
  REQUIRE(in.size() == 1);
  CHECK(in[0].silent_ns == 5);
  REQUIRE(in[0].actors.size() == 1);
  CHECK(in[0].actors[0].waits.at(0).whom == "worker/3");
  CHECK(in[0].actors[0].handling_for_ns == 7);
  CHECK(in[0].actors[0].place == grid_place{1, 0, 2});
  CHECK(waits_of(*make_msg<fbs::ClusterView>(message_context{}, fbs::ClusterViewT{})).empty());
}

TEST_CASE("a pacer that is waited for says which budget it keeps, and by which pace") {
  fbs::ClusterViewT view;
  auto& node = *view.nodes.emplace_back(std::make_unique<fbs::ActorListT>());
  node.node = "head";
  auto& actor = *node.actors.emplace_back(std::make_unique<fbs::ActorInfoT>());
  actor.path = "pacer";
  actor.state = "keeping a budget";
  actor.values = std::make_unique<fbs::StatusValuesT>();
  actor.values->pacer = std::make_unique<fbs::PacerStatusT>();
  auto& pacer = *actor.values->pacer;
  const auto state = [&] {
    const auto m = make_msg<fbs::ClusterView>(message_context{}, view);
    return waits_of(*m)[0].actors[0].state;
  };
  pacer.budget_w = -1;
  CHECK(state() == "keeping a budget");
  pacer.budget_w = 44;
  pacer.pace_percent = 81;
  CHECK(state() == "keeping 44 W by a pace of 81 %");
  pacer.parent = "row0";
  pacer.pace_percent = 0;
  pacer.reason = "row0 holds all work";
  CHECK(state() == "keeping 44 W of row0 by a pace of 0 % (row0 holds all work)");
}
