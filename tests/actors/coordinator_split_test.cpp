// The coordinator where nodes measure what a layer takes: when it asks them, what becomes of their
// answers, and that it asks once.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/actors/scripted_cluster.hpp"

using namespace troupe;
using namespace troupe::cluster;
using namespace troupe::cluster::test;
using namespace std::chrono_literals;

namespace {

scripted_cluster_options with_measuring() {
  scripted_cluster_options o;
  o.measured = o.journal = true;
  return o;
}

/// All have joined and have their ranks.
void take_all_ranks(scripted_cluster& f) {
  f.join_all();
  for (const size_t node : {1, 0}) f.take_ranks(node);
}

void tell_pace(scripted_cluster& f, size_t node, double flops_s) {
  f.nodes[node].take<fbs::MeasureLayers>().answer<fbs::LayersMeasured>(
      [&](auto& l) { l.flops_s = flops_s; });
}

/// What the run was told of the layers.
std::string layers_of_run(scripted_cluster& f) {
  return f.run.take<fbs::ClusterReady>().m.unpack().layers;
}

/// What the journal was told last.
fbs::ClusterMemoryT remembered(scripted_cluster& f) {
  const auto all = f.journal.take_all<fbs::ClusterMemory>();
  REQUIRE_FALSE(all.empty());
  return all.back().m.unpack();
}

}  // namespace

TEST_CASE("CRD-22: nodes with ranks measure a layer at once, and the slow one gets fewer") {
  scripted_cluster f(with_measuring());
  f.join_all();
  f.take_ranks(1);
  CHECK(f.nodes[1].idle());  // the other may still be checked
  f.take_ranks(0);
  CHECK(f.run.idle());
  CHECK(f.said("each node measures a layer of the model"));
  const auto asked = f.nodes[0].take<fbs::MeasureLayers>();
  CHECK(asked.m.epoch() == cluster_epoch);
  CHECK(asked->workers() == 1);
  CHECK(asked->threads() == 8);
  CHECK(asked->device()->str() == "host");
  asked.answer<fbs::LayersMeasured>([](auto& l) { l.flops_s = 4e9; });
  CHECK(f.run.idle());
  tell_pace(f, 1, 1e9);
  CHECK(layers_of_run(f) == "4,1");
  CHECK(f.said("the stages have 4,1 layers as measured"));
  CHECK(remembered(f).layers == "4,1");
}

TEST_CASE("CRD-22: nodes that are alike have the planned layers") {
  scripted_cluster f(with_measuring());
  take_all_ranks(f);
  for (const size_t node : {0, 1}) tell_pace(f, node, 1e9);
  CHECK(layers_of_run(f) == "3,2");
}

TEST_CASE("CRD-22: where a node cannot measure, the stages are as planned, with its words") {
  scripted_cluster f(with_measuring());
  take_all_ranks(f);
  tell_pace(f, 0, 4e9);
  f.nodes[1].take<fbs::MeasureLayers>().refuse({errc::unavailable, "it has a headache"});
  CHECK(layers_of_run(f) == "3,2");
  CHECK(f.said("the stages have 3,2 layers as planned: node b has not measured"));
}

TEST_CASE("CRD-22: of a node that is lost while it measures nothing is settled") {
  auto o = with_measuring();
  o.launch = config::launch_mode::external;
  scripted_cluster f(o);
  take_all_ranks(f);
  const auto asked = f.nodes[1].take<fbs::MeasureLayers>();
  tell_pace(f, 0, 4e9);
  f.leave("b", "was killed");
  asked.refuse({errc::unavailable, "it is gone"});
  CHECK(f.run.take_all<fbs::ClusterReady>().empty());
  CHECK(f.lost().node == "b");
}

TEST_CASE("CRD-22: a next head has the split that was measured, and asks nobody") {
  auto o = with_measuring();
  o.goes_on = true;
  auto& memory = o.memory.emplace();
  memory.nodes = {"a", "b"};
  for (uint32_t node = 0; node < 2; ++node) {
    auto& place = *memory.places.emplace_back(std::make_unique<fbs::PlaceMemoryT>());
    place.node = node;
    place.workers = place.threads = place.cores = 1;
  }
  memory.replicas = 1;
  memory.layers = "1,4";
  scripted_cluster f(o);
  take_all_ranks(f);
  CHECK(layers_of_run(f) == "1,4");
  for (const auto& node : f.nodes) CHECK(node.idle());
}

TEST_CASE("CRD-22: without parallel.placement nobody measures, and the run is told of no layers") {
  scripted_cluster f;
  take_all_ranks(f);
  CHECK(layers_of_run(f).empty());
}
