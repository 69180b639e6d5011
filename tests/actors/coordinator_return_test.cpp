// A coordinator that goes on for a lost one: CRD-15, CRD-16.
#include <doctest/doctest.h>

#include "tests/actors/scripted_cluster.hpp"

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::test;
using namespace std::chrono_literals;

namespace {

/// Nodes a and b, spare c; what the one before has left says that c has the place of b.
scripted_cluster_options next_one() {
  scripted_cluster_options o;
  o.spare = o.recovers = o.launcher = o.journal = o.goes_on = true;
  fbs::ClusterMemoryT memory;
  memory.nodes = {"a", "b", "c"};
  for (const uint32_t node : {0u, 2u}) {
    auto& p = *memory.places.emplace_back(std::make_unique<fbs::PlaceMemoryT>());
    p.node = node;
    p.workers = p.threads = p.cores = 1;
  }
  o.memory = memory;
  return o;
}

fbs::HelloT returning(const scripted_cluster& f, size_t node) {
  auto h = f.hello(node);
  h.epoch = cluster_epoch - 1;
  return h;
}

std::vector<std::string> ordered(scripted_cluster& f) {
  std::vector<std::string> out;
  for (const auto& m : f.launcher.take_all<fbs::Launch>()) out.push_back(m->node()->str());
  return out;
}

}  // namespace

TEST_CASE("CRD-15: nodes come back into the places they had, whoever is first") {
  scripted_cluster f(next_one());
  for (const size_t node : {1, 2, 0}) REQUIRE(f.join(node, returning(f, node)));
  f.pass(0ns);
  f.take_ranks(0);
  f.nodes[2].take<fbs::Assign>().answer<fbs::Assigned>(
      [](auto& a) { a.ranks = {1}; }, std::vector{f.loaders[1].self(), f.stages[1].self()});
  const auto ready = f.run.take_all<fbs::ClusterReady>();
  REQUIRE(ready.size() == 1);
  CHECK(ready[0]->nodes()->Get(1)->node()->str() == "c");
  CHECK(ordered(f).empty());
}

TEST_CASE("CRD-15: one whose process has ended is replaced at once, by a spare too") {
  scripted_cluster f(next_one());
  REQUIRE(f.join(1, returning(f, 1)));
  REQUIRE(f.join(0, returning(f, 0)));
  f.leave("c", "was killed", cluster_epoch, 77);
  f.pass(0ns);
  CHECK(ordered(f) == std::vector<std::string>{"c"});
  f.take_ranks(0);
  f.take_ranks(1);
  REQUIRE(f.run.take_all<fbs::ClusterReady>().size() == 1);
}

TEST_CASE("CRD-15: one that stays away is started anew after a while, and a spare has its place") {
  scripted_cluster f(next_one());
  REQUIRE(f.join(1, returning(f, 1)));
  REQUIRE(f.join(0, returning(f, 0)));
  f.pass_with(9s, {0, 1});
  CHECK(f.nodes[0].idle());
  CHECK(ordered(f).empty());
  f.pass_with(2s, {0, 1});
  CHECK(ordered(f) == std::vector<std::string>{"c"});
  f.take_ranks(0);
  f.take_ranks(1);
  REQUIRE(f.run.take_all<fbs::ClusterReady>().size() == 1);
}

TEST_CASE("CRD-15: places are told to the journal before ranks are given out by them") {
  scripted_cluster_options o;
  o.journal = true;
  scripted_cluster f(o);
  f.join_all();
  const auto told = f.journal.take_all<fbs::ClusterMemory>();
  REQUIRE_FALSE(told.empty());
  const auto m = told.back().m.unpack();
  REQUIRE(m.places.size() == 2);
  CHECK(m.places[1]->node == 1);
  CHECK(m.places[1]->threads >= 1);
  CHECK(m.nodes == std::vector<std::string>{"a", "b"});
  told.back().answer<fbs::Ack>([](auto&) {});
  f.pass(1s);
  CHECK(f.journal.take_all<fbs::ClusterMemory>().empty());  // once
}

TEST_CASE("SUC-2: coordinator: the next head is told the launch of the first one") {
  for (const uint64_t first : {0, 7}) {
    scripted_cluster_options o;
    o.journal = true;
    o.first_launch = first;
    scripted_cluster f(o);
    f.join_all();
    const auto told = f.journal.take_all<fbs::ClusterMemory>();
    REQUIRE_FALSE(told.empty());
    CHECK(told.back()->launch() == (first == 0 ? own_launch : first));
  }
}

TEST_CASE("CRD-15: who was evicted stays so, and what does not fit is not believed") {
  auto o = next_one();
  auto& e = *o.memory->evicted.emplace_back(std::make_unique<fbs::EvictedNodeT>());
  e.node = "b";
  e.why = "was drained";
  scripted_cluster f(o);
  const auto refused = f.join(1, returning(f, 1));
  REQUIRE_FALSE(refused);
  CHECK(refused.error() == node_evicted("b", "was drained"));
  auto other = next_one();
  other.memory->places[1]->node = 9;
  scripted_cluster g(other);
  for (const size_t node : {0, 1}) REQUIRE(g.join(node, returning(g, node)));
  g.pass(0ns);
  g.take_ranks(0);
  g.take_ranks(1);  // as the configuration says
}

TEST_CASE("CRD-16: a process that lived in an epoch of this coordinator is not admitted again") {
  scripted_cluster f(next_one());
  auto h = f.hello(0);
  h.epoch = cluster_epoch;
  const auto refused = f.join(0, h);
  REQUIRE_FALSE(refused);
  CHECK(refused.error() == left_the_cluster("a"));
}

TEST_CASE("CRD-16: one that lived in an epoch is not admitted where no coordinator was lost") {
  scripted_cluster f;
  const auto refused = f.join(0, returning(f, 0));
  REQUIRE_FALSE(refused);
  CHECK(refused.error() == left_the_cluster("a"));
  CHECK(f.join(0));
}

TEST_CASE("RET-1: a node is awaited until it has ended, the patience is over, or an epoch begins") {
  CHECK_FALSE(returns_policy().awaits("a"));
  returns_policy p(100, 50);
  CHECK(p.awaits("a"));
  p.ended("b");
  CHECK_FALSE(p.awaits("b"));
  CHECK_FALSE(p.stay_away(149));
  CHECK(p.awaits("a"));
  CHECK(p.stay_away(150));
  CHECK_FALSE(p.stay_away(151));  // once
  CHECK_FALSE(p.awaits("a"));
  returns_policy other(100, 50);
  other.give_up();
  CHECK_FALSE(other.awaits("a"));
  CHECK_FALSE(other.stay_away(1000));
}
