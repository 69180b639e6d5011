// Machines of unequal speed whose nodes measure a layer (parallel.placement): the slow one has
// fewer.
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "actors/predict/past_paces_policy.hpp"
#include "actors/sim/fuzz.hpp"
#include "messages/message_list.hpp"
#include "tests/actors/predict/kept_paces.hpp"
#include "tests/sim/quiet.hpp"

using namespace troupe;
using namespace troupe::sim;

namespace {

/// What runs on simulated machines have kept, as quick as that.
std::vector<io::perf::past_pace> paces_before(const train::job_plan& plan,
                                              const std::vector<double>& quick) {
  const auto machine = io::perf::print_of({"simulated", 8, 1 << 30});
  std::vector<predict::test::kept_rank> ranks;
  for (uint64_t run = 1; run <= 4; ++run)
    for (size_t n = 0; n < quick.size(); ++n)
      ranks.push_back({plan.job.cluster.node[n].name, machine, quick[n], 4, n == 1,
                       plan.job.cluster.threads, run});
  return predict::past_paces(predict::test::kept_of(ranks, plan.job, plan.model), plan.job,
                             plan.model);
}

/// The layers that the stages of two machines are built with.
/// `quick`: how quick each was in earlier runs; empty: there were none.
std::vector<int64_t> layers_with(std::vector<double> slowness, bool may_change_places = false,
                                 const std::vector<double>& quick = {}) {
  simulation_options o;
  o.nodes = o.pipeline = 2;
  o.steps = 5;
  o.checkpoint_every = 2;
  o.times.slowness = std::move(slowness);
  o.times.may_change_places = may_change_places;
  o.beside = [&quick](world&, train::spawn_record& head) {
    head.paces = paces_before(head.plan, quick);
  };
  std::map<int64_t, int64_t> built;  // by first layer
  o.sees = [&](const any_msg& m, int64_t) {
    if (m.type() != message_traits<fbs::BuildStage>::id) return;
    const auto& b = *flatbuffers::GetRoot<fbs::BuildStage>(m.payload().data());
    built[b.first_layer()] = static_cast<int64_t>(b.last_layer()) - b.first_layer();
  };
  const auto done = simulate(o);
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  CHECK_MESSAGE(!done->violation, done->violation.value_or(""));
  CHECK(done->ends == std::vector<std::string>{"success"});
  std::vector<int64_t> out;
  for (const auto& [first, layers] : built) out.push_back(layers);
  REQUIRE(out.size() == 2);
  CHECK(out[0] + out[1] == 8);
  return out;
}

}  // namespace

TEST_CASE("measured layers: the stage of the slow machine has fewer than where both are alike") {
  const auto alike = layers_with({1, 1});
  CHECK(layers_with({1, 3})[1] < alike[1]);
  CHECK(layers_with({3, 1})[0] < alike[0]);
}

TEST_CASE("measured layers: a slow machine changes places with the one whose stage has the head") {
  const auto alike = layers_with({1, 1}, true);
  CHECK(alike == layers_with({1, 1}));
  // The head takes as long as a layer: in its own place the slow machine has two of them at least,
  // in the other's one, and the quick one has seven and the head.
  const auto slow_last = layers_with({1, 6}, true);
  CHECK(slow_last[0] < alike[0]);
  CHECK(slow_last == layers_with({6, 1}));
}

TEST_CASE("measured layers: a slow machine stays behind where that is as quick (MSL-4)") {
  CHECK(layers_with({1, 3}, true) == layers_with({1, 3}));  // seven layers without the head, or six
}

TEST_CASE(
    "measured layers: who was half as quick in earlier runs has fewer, whatever it measures") {
  const auto alike = layers_with({1, 1});
  CHECK(layers_with({1, 1}, false, {2e9, 1e9})[1] < alike[1]);
  CHECK(layers_with({1, 1}, false, {1e9, 2e9})[0] < alike[0]);
  CHECK(layers_with({1, 3}, false, {1e9, 1e9}) == alike);
  CHECK(layers_with({1, 3}, false, {3e9, 1e9}) == layers_with({1, 3}));
}
