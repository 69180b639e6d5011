// The coordinator where nodes measure what a layer takes: when it asks them, what becomes of their
// answers, and that it asks once.
#include <memory>
#include <utility>
#include <vector>

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

/// What is remembered of places whose layers were settled before, and of whose memory nothing.
fbs::ClusterMemoryT with_settled(const std::string& layers) {
  fbs::ClusterMemoryT out;
  out.nodes = {"a", "b"};
  for (uint32_t node = 0; node < 2; ++node) {
    auto& place = *out.places.emplace_back(std::make_unique<fbs::PlaceMemoryT>());
    place.node = node;
    place.workers = place.threads = place.cores = 1;
  }
  out.replicas = 1;
  out.layers = layers;
  return out;
}

enum class split_is { measured, settled_before };

/// b is lost after the split was settled, and c is a spare with so much memory.
struct split_with_spare : scripted_cluster {
  static scripted_cluster_options options(split_is how) {
    auto o = with_measuring();
    o.spare = o.recovers = o.launcher = true;
    if (how == split_is::settled_before) o.memory = with_settled("4,1");
    return o;
  }
  explicit split_with_spare(uint64_t spare_bytes, split_is how = split_is::measured)
      : scripted_cluster(options(how)) {
    memory[2] = spare_bytes;
    take_all_ranks(*this);
    if (how == split_is::measured) {
      tell_pace(*this, 0, 4e9);
      tell_pace(*this, 1, 1e9);
    }
    REQUIRE(layers_of_run(*this) == "4,1");
    REQUIRE(join(2));
    pass(0ns);
    reporter.take_all<fbs::Notice>();
    leave("b", "was killed");
    nodes[1].die();
    REQUIRE(run.take_all<fbs::NodeLost>().size() == 1);
    run.tell(target, make_msg<fbs::Recover>(context_of(cluster_epoch + 1)));
  }
  /// Whether the spare gets ranks once nothing of the epoch before runs.
  bool has_ranks_for_spare() {
    for (const size_t node : {0, 2})
      for (const auto& asked : nodes[node].take_all<fbs::Suspend>()) asked.answer<fbs::Suspended>();
    return !nodes[2].take_all<fbs::Assign>().empty();
  }
};

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

namespace {

/// How quick a node was in earlier runs: on a machine of so many cores, with as many threads.
io::perf::past_pace pace_before(const std::string& node, uint32_t cores, double flops_s) {
  return {node, io::perf::print_of({"Xeon", cores, 0}), cores, false, flops_s, 0.03, 1240, 9};
}

/// Both nodes are Xeons that were so quick, and have their ranks.
struct with_past : scripted_cluster {
  explicit with_past(std::vector<io::perf::past_pace> paces) : scripted_cluster(knowing(paces)) {
    for (const size_t node : {0, 1}) {
      auto h = hello(node);
      h.hardware->cpu_model = "Xeon";
      REQUIRE(join(node, h));
    }
    pass(0ns);
    for (const size_t node : {1, 0}) take_ranks(node);
  }
  static scripted_cluster_options knowing(const std::vector<io::perf::past_pace>& paces) {
    auto o = with_measuring();
    o.paces = paces;
    return o;
  }
};

}  // namespace

TEST_CASE("CRD-25: nodes that runs before know are as quick as in these, and nobody measures") {
  with_past f({pace_before("a", 8, 4e9), pace_before("b", 9, 1e9)});
  CHECK(layers_of_run(f) == "4,1");
  for (const auto& node : f.nodes) CHECK(node.idle());
  std::string said;
  for (const auto& n : f.reporter.take_all<fbs::Notice>()) said += n->text()->str() + "\n";
  CHECK(said.find("the stages have 4,1 layers as measured") != std::string::npos);
  CHECK(said.find("; from 1,240 steps of 9 runs on these nodes") != std::string::npos);
  CHECK(said.find("measures a layer") == std::string::npos);
  CHECK(remembered(f).layers == "4,1");
}

TEST_CASE("CRD-25: who is known by earlier runs is as quick as in these, whatever it measures") {
  with_past f({pace_before("b", 9, 1e9)});
  tell_pace(f, 0, 2e9);
  tell_pace(f, 1, 2e9);
  CHECK(layers_of_run(f) == "3,2");  // by one ratio both are as quick as each other
  CHECK(f.said("on the other nodes, and by the layer that a measured just now"));
}

TEST_CASE("CRD-25: a past of another machine, of other threads or of another node is not theirs") {
  const auto a = pace_before("a", 8, 4e9);
  for (const auto& other : {pace_before("b", 10, 1e9), pace_before("c", 9, 1e9)}) {
    with_past f({a, other});
    tell_pace(f, 0, 1e9);
    tell_pace(f, 1, 4e9);
    CHECK(layers_of_run(f) == "1,4");
  }
  auto threads = pace_before("b", 9, 1e9);
  threads.threads = 1;
  with_past f({a, threads});
  tell_pace(f, 0, 1e9);
  tell_pace(f, 1, 4e9);
  CHECK(layers_of_run(f) == "1,4");
}

TEST_CASE("CRD-25: what a node cannot measure its past says") {
  with_past f({pace_before("a", 8, 4e9), pace_before("c", 9, 1e9)});
  tell_pace(f, 1, 1e9);
  f.nodes[0].take<fbs::MeasureLayers>().refuse({errc::unavailable, "it has a headache"});
  CHECK(layers_of_run(f) == "3,2");  // nobody is known by both
  CHECK(f.said("the stages have 3,2 layers as planned: node a has not measured"));
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
  o.memory = with_settled("1,4");
  scripted_cluster f(o);
  take_all_ranks(f);
  CHECK(layers_of_run(f) == "1,4");
  for (const auto& node : f.nodes) CHECK(node.idle());
}

namespace {

/// The node of the second stage is slow, and may change places with the other.
struct changing_places : scripted_cluster {
  explicit changing_places(const scripted_cluster_options& o = with_measuring())
      : scripted_cluster(with(o)) {
    take_all_ranks(*this);
    tell_pace(*this, 0, 4e9);
    tell_pace(*this, 1, 1e9);
  }
  static scripted_cluster_options with(scripted_cluster_options o) {
    o.may_change_places = true;
    return o;
  }
  fbs::AssignT assigned(size_t node, uint32_t rank) {
    const auto asked = nodes[node].take<fbs::Assign>();
    asked.answer<fbs::Assigned>([&](auto& a) { a.ranks = {rank}; },
                                std::vector{loaders[node].self(), stages[node].self()});
    return asked.m.unpack();
  }
};

}  // namespace

TEST_CASE("CRD-24: nodes that change places end their ranks before they get those of the new") {
  changing_places f;
  const auto first = f.nodes[0].take<fbs::Suspend>(), second = f.nodes[1].take<fbs::Suspend>();
  CHECK(first.m.epoch() == cluster_epoch);
  CHECK(f.said("the nodes are in the order b,a from now on"));
  first.answer<fbs::Suspended>();
  f.pass(0ns);
  CHECK(f.nodes[0].take_all<fbs::Assign>().empty());  // the other still has the rank
  second.answer<fbs::Suspended>();
  CHECK(f.assigned(1, 0).ranks.at(0)->rank == 0);
  CHECK(f.run.take_all<fbs::ClusterReady>().empty());
  CHECK(f.assigned(0, 1).ranks.at(0)->rank == 1);
  const auto ready = f.run.take<fbs::ClusterReady>().m.unpack();
  CHECK(ready.layers == "1,4");
  CHECK(ready.order == "b,a");
  REQUIRE(ready.nodes.size() == 2);
  CHECK(ready.nodes[0]->node == "b");
  CHECK(ready.nodes[0]->threads == f.cores[1]);  // its own, wherever it is
  for (const size_t node : {0, 1}) CHECK(f.nodes[node].take_all<fbs::MeasureLayers>().empty());
  const auto kept = remembered(f);
  CHECK(kept.order == "b,a");
  REQUIRE(kept.places.size() == 2);
  CHECK(kept.places[0]->node == 1);
  CHECK(kept.places[0]->threads == f.cores[1]);
  CHECK(kept.places[0]->memory_bytes > 0);
}

TEST_CASE("CRD-24: of a node that is lost while places change the run is told, and no more") {
  auto o = with_measuring();
  o.launch = config::launch_mode::external;
  changing_places f(o);
  f.nodes[0].take<fbs::Suspend>().answer<fbs::Suspended>();
  const auto asked = f.nodes[1].take<fbs::Suspend>();
  f.leave("b", "was killed");
  asked.refuse({errc::unavailable, "it is gone"});
  CHECK(f.lost().node == "b");
  CHECK(f.nodes[0].take_all<fbs::Assign>().empty());
  CHECK(f.run.take_all<fbs::ClusterReady>().empty());
}

TEST_CASE("CRD-24: a next head has the order, whoever has the places by then") {
  auto o = with_measuring();
  o.goes_on = o.may_change_places = true;
  o.memory = with_settled("1,4");
  o.memory->order = "b,a";
  std::swap(o.memory->places[0]->node, o.memory->places[1]->node);
  scripted_cluster f(o);
  f.join_all();
  for (const size_t node : {0, 1})
    f.nodes[node].take<fbs::Assign>().answer<fbs::Assigned>(
        [&](auto& a) { a.ranks = {static_cast<uint32_t>(1 - node)}; },
        std::vector{f.loaders[node].self(), f.stages[node].self()});
  const auto ready = f.run.take<fbs::ClusterReady>().m.unpack();
  CHECK(ready.layers == "1,4");
  CHECK(ready.order == "b,a");
  CHECK(ready.nodes.at(0)->node == "b");
  for (const auto& node : f.nodes) CHECK(node.idle());
}

TEST_CASE("CRD-24: a next head that lists the nodes in their order finds them in their places") {
  scripted_cluster_options o;
  o.goes_on = o.journal = true;
  o.memory = with_settled("1,4");
  o.memory->nodes = {"b", "a"};  // as the job of the head before listed them
  scripted_cluster f(o);
  f.join_all();
  for (const size_t node : {0, 1})
    f.nodes[node].take<fbs::Assign>().answer<fbs::Assigned>(
        [&](auto& a) { a.ranks = {static_cast<uint32_t>(1 - node)}; },
        std::vector{f.loaders[node].self(), f.stages[node].self()});
  CHECK(f.run.take<fbs::ClusterReady>().m.unpack().nodes.at(0)->node == "b");
  const auto kept = remembered(f);
  CHECK(kept.nodes == std::vector<std::string>{"a", "b"});
  REQUIRE(kept.places.size() == 2);
  CHECK(kept.places[0]->node == 1);
}

TEST_CASE("CRD-22: without parallel.placement nobody measures, and the run is told of no layers") {
  scripted_cluster f;
  take_all_ranks(f);
  CHECK(layers_of_run(f).empty());
}

TEST_CASE("PLA-6: a measured stage comes to no spare that has not the memory for it") {
  split_with_spare small(1000);
  CHECK(small.said("spare c cannot come into the place of b"));
  CHECK_FALSE(small.has_ranks_for_spare());
  split_with_spare roomy(uint64_t{1} << 40);
  CHECK_FALSE(roomy.said("cannot come into"));
  CHECK(roomy.has_ranks_for_spare());
  split_with_spare silent(0);  // it does not say what it has
  CHECK(silent.has_ranks_for_spare());
}

TEST_CASE("PLA-6: nor does a stage whose layers were settled before this head began") {
  split_with_spare small(1000, split_is::settled_before);
  CHECK(small.said("spare c cannot come into the place of b"));
  CHECK_FALSE(small.has_ranks_for_spare());
  split_with_spare roomy(uint64_t{1} << 40, split_is::settled_before);
  CHECK(roomy.has_ranks_for_spare());
}

TEST_CASE("PLA-6: a next head knows what memory the ranks of each place take") {
  scripted_cluster f(with_measuring());
  take_all_ranks(f);
  CHECK(remembered(f).places.at(0)->memory_bytes == 0);
  tell_pace(f, 0, 4e9);
  tell_pace(f, 1, 1e9);
  const auto kept = remembered(f);
  REQUIRE(kept.places.size() == 2);
  for (const auto& place : kept.places) CHECK(place->memory_bytes > 0);
  auto o = with_measuring();
  o.goes_on = true;
  o.memory = kept;
  scripted_cluster next(o);
  take_all_ranks(next);
  CHECK(layers_of_run(next) == "4,1");
  const auto again = remembered(next);
  REQUIRE(again.places.size() == 2);
  for (size_t i = 0; i < 2; ++i)
    CHECK(again.places[i]->memory_bytes == kept.places[i]->memory_bytes);
}

// -- what machines were probed to do --------------------------------------------------------------

namespace {

/// Both nodes join, and say what their machines are.
void join_xeons(scripted_cluster& f) {
  for (const size_t node : {0, 1}) {
    auto h = f.hello(node);
    h.hardware->cpu_model = "Xeon";
    REQUIRE(f.join(node, h));
  }
  f.pass(std::chrono::seconds(0));
}

/// A node has its rank, and says what its machine does.
void take_probed_rank(scripted_cluster& f, size_t node, double gflop_s) {
  f.nodes[node].take<fbs::Assign>().answer<fbs::Assigned>(
      [&](auto& a) {
        a.ranks = {static_cast<uint32_t>(node)};
        a.profile = std::make_unique<fbs::HwProfileT>();
        for (const auto& [name, number] :
             {std::pair{"gemm_gflop_s", gflop_s}, std::pair{"gemm_bf16_gflop_s", gflop_s},
              std::pair{"probe_threads", 8.0}, std::pair{"no_such_field", 3.0}}) {
          auto& field = *a.profile->fields.emplace_back(std::make_unique<fbs::HwFieldT>());
          field.name = name;
          field.number = number;
        }
      },
      std::vector{f.loaders[node].self(), f.stages[node].self()});
}

}  // namespace

TEST_CASE("CRD-23: the predictor is told what nodes' machines do before the run begins") {
  auto o = with_measuring();
  o.predictor = true;
  scripted_cluster f(o);
  join_xeons(f);
  take_probed_rank(f, 1, 10);
  CHECK(f.predictor.idle());
  take_probed_rank(f, 0, 40);
  CHECK(f.predictor.idle());  // who has which layers is not settled
  tell_pace(f, 0, 4e9);
  tell_pace(f, 1, 1e9);
  CHECK(layers_of_run(f) == "4,1");
  const auto told = f.predictor.take_all<fbs::HwProfile>();
  REQUIRE(told.size() == 2);
  const auto first = told[0].m.unpack(), second = told[1].m.unpack();
  CHECK(first.node == "a");
  CHECK(first.place == 0);
  CHECK(first.places == 2);
  CHECK(first.host == "machine/boot0");
  CHECK(second.host == "machine/boot1");
  CHECK(first.fields.size() == 3);  // what is no field of ours goes no farther
  REQUIRE(first.ranks.size() == 1);
  CHECK(first.ranks[0]->rank == 0);
  CHECK(first.ranks[0]->layers == 4);
  CHECK(first.ranks[0]->threads == 8);
  REQUIRE(first.ranks[0]->parts.size() == 2);
  CHECK(first.ranks[0]->parts[0]->kind == "forward");
  CHECK(first.ranks[0]->parts[0]->busy_ms > 0);
  CHECK(second.ranks[0]->layers == 1);
  CHECK(first.kind == "Xeon, 8 cores");
  CHECK(second.kind == "Xeon, 9 cores");
}

TEST_CASE("CRD-23: of machines that were not probed it is told what they are, and nothing else") {
  scripted_cluster_options o;
  o.predictor = true;
  scripted_cluster f(o);
  join_xeons(f);
  for (const size_t node : {1, 0}) f.take_ranks(node);
  const auto told = f.predictor.take_all<fbs::HwProfile>();
  REQUIRE(told.size() == 2);
  for (const auto& t : told) {
    const auto m = t.m.unpack();
    CHECK(m.kind == (m.node == "a" ? "Xeon, 8 cores" : "Xeon, 9 cores"));
    CHECK(m.fields.empty());
    CHECK(m.ranks.empty());
  }
  CHECK(f.predictor.idle());
}

TEST_CASE("CRD-23: where nobody learns, nobody is told of machines") {
  scripted_cluster without;
  without.join_all();
  for (const size_t node : {1, 0}) take_probed_rank(without, node, 10);
  CHECK(without.run.take_all<fbs::ClusterReady>().size() == 1);
  CHECK(without.predictor.idle());
}
