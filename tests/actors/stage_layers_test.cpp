// parallel.layers: how many layers each stage has, what of it is refused and where, and that the
// plan is as it says.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "actors/job/plan.hpp"
#include "gpu/model/stage_shape.hpp"
#include "io/base/text.hpp"
#include "io/config/load.hpp"
#include "tests/errors.hpp"
#include "tests/io/job_text.hpp"

using namespace troupe;
using namespace troupe::train;

namespace {

/// A job of two stages and four layers.
config::job job_in_two_stages(const std::vector<std::string>& sets = {}) {
  return job_of_text(
      "[cluster]\nnodes = 2\n[model]\nlayers = 4\nheads = 4\nhidden = 64\nvocab = 256\n"
      "[data]\npath = \"x.txt\"\n[parallel]\npipeline = 2\n",
      sets);
}

/// Why a split of it is refused.
error why_not(const std::string& layers) {
  auto job = job_in_two_stages();
  job.parallel.layers = layers;
  const auto settled = config::settle(job);
  REQUIRE_FALSE(settled);
  CHECK(settled.error().code == errc::bad_config);
  CHECK(mentions(settled.error(), "parallel.layers"));
  return settled.error();
}

}  // namespace

TEST_CASE("parallel.layers: a split by hand is the plan's, and the text of it the same") {
  for (const char* layers : {"1,3", "2,2", "3,1", " 3 , 1 "}) {
    CAPTURE(layers);
    const auto plan = make_plan(job_in_two_stages({std::string("parallel.layers=") + layers}));
    REQUIRE(plan);
    const auto asked = *plan->job.parallel.stage_layers();
    REQUIRE(plan->ranks.size() == 2);
    CHECK(plan->ranks[0].layers == layer_range{0, asked[0]});
    CHECK(plan->ranks[1].layers == layer_range{asked[0], 4});
    CHECK(stage_layers_text(*plan) == fmt::format("{},{}", asked[0], asked[1]));
  }
  const auto replicas =
      make_plan(job_in_two_stages({"cluster.nodes=4", "parallel.data=2", "parallel.layers=1,3"}));
  REQUIRE(replicas);
  CHECK(stage_layers_text(*replicas) == "1,3");
  for (const auto& r : replicas->ranks)
    CHECK(r.layers == (r.at.first() ? layer_range{0, 1} : layer_range{1, 4}));
}

TEST_CASE("parallel.layers: what is no split of the model is refused with what was expected") {
  for (const char* no_numbers :
       {"3,x", "4,0", "5,-1", ",4", "4,", "2 2", "2;2", "1.5,2.5", "a", "9999999999999999999,1"}) {
    CAPTURE(no_numbers);
    CHECK(mentions(why_not(no_numbers), quoted("8,4")));  // what one looks like
    CHECK(mentions(why_not(no_numbers), quoted(no_numbers)));
  }
  const auto tells = [](const char* layers, int expected, int found) {
    CAPTURE(layers);
    const auto why = why_not(layers);
    CHECK(mentions(why, expected));
    CHECK(mentions(why, found));
  };
  tells("4", 2, 1);
  tells("1,1,2", 2, 3);
  tells("3,2", 4, 5);
}

TEST_CASE("parallel.layers: a model of other layers than the configuration knew is told apart") {
  auto job = job_in_two_stages({"parallel.layers=3,1"});
  job.model.layers = 5;  // as a folder would have it
  const auto plan = make_plan(job);
  REQUIRE_FALSE(plan);
  CHECK(plan.error().is(stage_layers_unfit));
}

TEST_CASE("parallel.layers: a plan that is placed anew has the split of its job") {
  auto plan = make_plan(job_in_two_stages());
  REQUIRE(plan);
  const auto by_itself = plan->ranks;
  CHECK(stage_layers_text(*plan) == "2,2");
  plan->job.parallel.layers = "1,3";
  REQUIRE(place_stages(*plan));
  CHECK(plan->ranks[1].layers == layer_range{1, 4});
  plan->job.parallel.layers.clear();
  REQUIRE(place_stages(*plan));
  CHECK(plan->ranks[1].layers == by_itself[1].layers);
}

TEST_CASE("cut_stages: embedding and head are the first and the last stage's") {
  const auto stages = gpu::cut_stages({2, 1, 5});
  REQUIRE(stages.size() == 3);
  CHECK(stages[0].has_embedding);
  CHECK_FALSE(stages[0].has_head);
  CHECK_FALSE(stages[1].has_embedding);
  CHECK(stages[1].first_layer == 2);
  CHECK(stages[1].last_layer == 3);
  CHECK(stages[2].has_head);
  CHECK(stages[2].last_layer == 8);
}

TEST_CASE("parallel.placement: layers are measured or given by hand, and not of a job that swaps") {
  const auto refused = [](config::job job, const char* words) {
    job.parallel.placement = config::stage_placement::measured;
    const auto settled = config::settle(std::move(job));
    REQUIRE_FALSE(settled);
    CHECK(settled.error().code == errc::bad_config);
    CHECK(mentions(settled.error(), "parallel.placement"));
    CHECK(mentions(settled.error(), words));
  };
  refused(job_in_two_stages({"parallel.layers=3,1"}), "by hand");
  auto swapping = job_in_two_stages();
  swapping.swap.dir = {"/swap"};
  swapping.swap.host_bytes = int64_t{1} << 30;
  refused(swapping, "swaps");
  CHECK(make_plan(job_in_two_stages({"parallel.placement=measured"})));
}

TEST_CASE("parallel.nodes: nodes have ranks in that order, which the text of a job keeps") {
  const auto job = job_in_two_stages({"cluster.spares=1", "parallel.nodes=node1, node0"});
  REQUIRE(job.cluster.node.size() == 3);
  CHECK(job.cluster.node[0].name == "node1");
  CHECK(job.cluster.node[1].name == "node0");
  CHECK(job.cluster.node[2].spare);
  const auto again = config::settle(job);
  REQUIRE(again);
  CHECK(*again == job);
  const auto one = job_in_two_stages({"parallel.nodes=node1"});  // the other behind it
  CHECK(one.cluster.node[0].name == "node1");
  CHECK(one.cluster.node[1].name == "node0");
}

TEST_CASE("parallel.nodes: other names than those of nodes with ranks are refused") {
  for (const char* nodes : {"node0,node0", "node0,node7", "node2,node0", "node0,,node1", ","}) {
    CAPTURE(nodes);
    auto job = job_in_two_stages({"cluster.spares=1"});
    job.parallel.nodes = nodes;
    const auto settled = config::settle(job);
    REQUIRE_FALSE(settled);
    CHECK(settled.error().code == errc::bad_config);
    CHECK(mentions(settled.error(), "parallel.nodes"));
  }
}
