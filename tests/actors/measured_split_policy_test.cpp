// Layers by what nodes have measured: who is slow gets fewer, as far as memory goes, and the plan
// stays where no other split is worth it; what a job then is, and what it records.
#include "actors/train/measured_split_policy.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/job/replicas_policy.hpp"
#include "actors/train/memory_estimate.hpp"
#include "io/config/load.hpp"
#include "tests/actors/job_harness.hpp"
#include "tests/errors.hpp"
#include "tests/io/job_text.hpp"

using namespace troupe;
using namespace troupe::train;
using layer_counts = std::vector<int64_t>;

namespace {

/// Of eight layers over two stages.
job_plan measured_job(std::vector<std::string> sets = {}) {
  sets.insert(sets.begin(), "parallel.placement=measured");
  auto plan = make_plan(
      job_of_text("[cluster]\nnodes = 2\nthreads = 1\n[model]\nlayers = 8\nheads = 4\nhidden = 64\n"
                  "vocab = 256\n[data]\npath = \"x.txt\"\n[parallel]\npipeline = 2\n"
                  "[train]\nsteps = 4\nbatch = 8\nmicro_batch = 2\nseq_len = 32\n",
                  sets));
  REQUIRE_MESSAGE(plan, (plan ? "" : render(plan.error())));
  return *plan;
}

stage_split split_of(const job_plan& plan, const std::vector<node_pace>& places) {
  auto split = measured_split(plan, places);
  REQUIRE_MESSAGE(split, (split ? "" : split.error().message));
  CHECK(std::accumulate(split->layers.begin(), split->layers.end(), int64_t{0}) ==
        plan.model.layers);
  return *split;
}

layer_counts planned_layers(const job_plan& plan) {
  layer_counts out;
  for (const auto& s : plan_stages(plan)) out.push_back(s.layers.last - s.layers.first);
  return out;
}

}  // namespace

TEST_CASE("measured split: the slow node's stage has fewer layers, whichever it is") {
  const auto plan = measured_job();
  const auto late = split_of(plan, {{3e9, 0}, {1e9, 0}});
  CHECK(late.layers[1] < planned_layers(plan)[1]);
  CHECK(late.slowest_s < late.now_s);
  const auto early = split_of(plan, {{1e9, 0}, {3e9, 0}});
  CHECK(early.layers[0] < planned_layers(plan)[0]);
  CHECK(early.slowest_s < early.now_s);
  CHECK(late.nodes == std::vector<size_t>{0, 1});  // none has another stage
}

TEST_CASE("MSL-2: what is hardly quicker than the plan does not replace it") {
  const auto plan = measured_job();
  for (const double other : {1.0, 1.01, 0.99}) {
    CAPTURE(other);
    const auto split = split_of(plan, {{1e9, 0}, {other * 1e9, 0}});
    CHECK(split.layers == planned_layers(plan));
  }
}

TEST_CASE("MSL-2: a split that is less than 5 % quicker than the plan does not replace it") {
  const auto plan = measured_job({"model.layers=60", "model.vocab=2"});
  const auto planned = planned_layers(plan);
  const auto better = split_of(plan, {{1e9, 0}, {1.15e9, 0}});
  CHECK(better.layers != planned);
  CHECK(better.slowest_s <= 0.95 * better.now_s);
  const auto hardly = split_of(plan, {{1e9, 0}, {1.08e9, 0}});  // 3 to 4 %
  CHECK(hardly.layers == planned);
}

TEST_CASE("MSL-2: paces that may be off by more than a split is worth do not change the plan") {
  const auto plan = measured_job();
  const auto with_half = [&](double half) {
    return split_of(plan,
                    {{3e9, 0, {}, pace_source::past, half}, {1e9, 0, {}, pace_source::past, half}});
  };
  const auto sure = with_half(0.03);
  CHECK(sure.layers != planned_layers(plan));
  const double worth = -std::log(sure.slowest_s / sure.now_s);
  CHECK(with_half(0.99 * worth / std::sqrt(2)).layers == sure.layers);
  CHECK(with_half(1.01 * worth / std::sqrt(2)).layers == planned_layers(plan));
  const auto one_is_sure = split_of(
      plan, {{3e9, 0, {}, pace_source::probe, 0}, {1e9, 0, {}, pace_source::past, 0.99 * worth}});
  CHECK(one_is_sure.layers == sure.layers);
}

TEST_CASE("measured split: of the replicas of a stage the slowest counts") {
  const auto plan = measured_job({"cluster.nodes=4", "parallel.data=2"});
  REQUIRE(plan.ranks.size() == 4);
  std::vector<node_pace> places(4, {3e9, 0});
  const auto last = static_cast<size_t>(plan.ranks.back().node);
  places[last].flops_s = 1e9;
  const auto one_slow = split_of(plan, places);
  CHECK(one_slow.layers[1] < planned_layers(plan)[1]);
  for (const auto& r : plan.ranks)
    if (r.at.last()) places[static_cast<size_t>(r.node)].flops_s = 1e9;
  CHECK(split_of(plan, places).layers == one_slow.layers);
}

TEST_CASE("MSL-1: no stage has what the memory of its node does not hold") {
  const auto plan = measured_job();
  const auto roomy = split_of(plan, {{6e9, 0}, {1e9, 0}});
  auto fewer = plan;
  REQUIRE(settle_layers(fewer, "4,4"));
  const auto bytes_of_first = [](const job_plan& p) {
    const auto stages = plan_stages(p);
    return stages[0].bytes.total() + stages[0].ring_bytes;
  };
  REQUIRE(roomy.layers[0] > 4);
  const auto tight = split_of(plan, {{6e9, bytes_of_first(fewer)}, {1e9, 0}});
  CHECK(tight.layers[0] <= 4);
  CHECK(tight.layers[0] >= 3);
  const auto none = measured_split(plan, {{6e9, 1000}, {1e9, 1000}});
  REQUIRE_FALSE(none);
  CHECK(is_error(none.error(), no_split_fits, size_t{8}, size_t{2}));
}

TEST_CASE("MSL-1: stages on one host share its memory by what is planned for them") {
  const auto plan = measured_job({"cluster.nodes=4", "parallel.pipeline=4", "model.vocab=20000"});
  uint64_t all = 0, most = 0;
  for (const auto& s : plan_stages(plan)) {
    all += s.bytes.total() + s.ring_bytes;
    most = std::max(most, s.bytes.total() + s.ring_bytes);
  }
  const uint64_t host = all + all / 8;
  REQUIRE(most > host / 4);  // whose stage has more than an equal share
  const auto split = split_of(plan, std::vector<node_pace>(4, {1e9, host, "h"}));
  CHECK(split.now_s > 0);
  auto settled = plan;
  REQUIRE(settle_layers(settled, fmt::format("{}", fmt::join(split.layers, ","))));
  uint64_t then = 0;
  for (const auto& s : plan_stages(settled)) then += s.bytes.total() + s.ring_bytes;
  CHECK(then <= host);
  const auto none = measured_split(plan, std::vector<node_pace>(4, {1e9, all - all / 8, "h"}));
  REQUIRE_FALSE(none);
  CHECK(is_error(none.error(), no_split_fits, size_t{8}, size_t{4}));
}

TEST_CASE("MSL-3: a place takes what is planned for its stage, unless its host has not so much") {
  const auto plan = measured_job();
  std::vector<uint64_t> planned;
  for (const auto& s : plan_stages(plan)) planned.push_back(s.bytes.total() + s.ring_bytes);
  using bytes = std::vector<uint64_t>;
  CHECK(bytes_of_places(plan, {{1e9, 0}, {1e9, 0}}) == planned);
  CHECK(bytes_of_places(plan, {{1e9, planned[0]}, {1e9, planned[1] - 1}}) == bytes{planned[0], 0});
  const auto both = planned[0] + planned[1];
  CHECK(bytes_of_places(plan, {{1e9, both, "h"}, {1e9, both, "h"}}) == planned);
  CHECK(bytes_of_places(plan, {{1e9, both - 1, "h"}, {1e9, both - 1, "h"}}) == bytes{0, 0});
  auto settled = plan;
  REQUIRE(settle_layers(settled, "6,2"));
  const auto more = bytes_of_places(settled, {{1e9, 0}, {1e9, 0}});
  CHECK(more[0] > planned[0]);
  CHECK(more[1] < planned[1]);
}

TEST_CASE("measured split: sixteen nodes whose memory differs by pages are split") {
  const auto plan = measured_job({"cluster.nodes=16", "parallel.pipeline=16", "model.layers=32"});
  std::vector<node_pace> places;
  for (uint64_t i = 0; i < 16; ++i)
    places.push_back({i % 2 == 0 ? 9e9 : 1e9, (uint64_t{64} << 30) + 4096 * i});
  const auto split = split_of(plan, places);
  CHECK(split.slowest_s < split.now_s);
  for (size_t stage = 1; stage < 15; stage += 2) CHECK(split.layers[stage] == 1);
}

namespace {

/// Seven equal layers and a head that takes as long as two or three of them; nodes of one worker.
job_plan with_large_head(int64_t nodes, int64_t replicas = 1, std::vector<std::string> sets = {}) {
  sets.insert(sets.end(),
              {fmt::format("cluster.nodes={}", nodes), fmt::format("parallel.data={}", replicas),
               fmt::format("parallel.pipeline={}", nodes / replicas), "model.layers=7",
               "model.vocab=2000"});
  return measured_job(sets);
}

/// Of nodes that may change places: each has one.
stage_split moved_split_of(const job_plan& plan, const std::vector<node_pace>& places) {
  auto split = measured_split(plan, places, node_order::may_change);
  REQUIRE_MESSAGE(split, (split ? "" : split.error().message));
  auto each_once = split->nodes;
  std::ranges::sort(each_once);
  for (size_t place = 0; place < places.size(); ++place) REQUIRE(each_once[place] == place);
  return *split;
}

std::vector<node_pace> in_order(const std::vector<node_pace>& of, const std::vector<size_t>& from) {
  std::vector<node_pace> out;
  for (const auto node : from) out.push_back(of[node]);
  return out;
}

/// The slowest stage of the best split over all orders of the nodes; none: none fits.
std::optional<double> slowest_of_all_orders(const job_plan& plan,
                                            const std::vector<node_pace>& nodes) {
  std::optional<double> out;
  std::vector<size_t> from(nodes.size());
  std::iota(from.begin(), from.end(), size_t{0});
  do {
    const auto split = measured_split(plan, in_order(nodes, from));
    if (split && (!out || split->slowest_s < *out)) out = split->slowest_s;
  } while (std::next_permutation(from.begin(), from.end()));
  return out;
}

/// What a rank of the largest stage takes.
uint64_t most_bytes_of_a_stage(const job_plan& plan) {
  uint64_t out = 0;
  for (const auto& s : plan_stages(plan)) out = std::max(out, s.bytes.total() + s.ring_bytes);
  return out;
}

}  // namespace

TEST_CASE("MSL-4: a slow node leaves the stage with the head to a quick one, and else stays") {
  const auto plan = with_large_head(2);
  const std::vector<node_pace> late_is_slow{{3e9, 0}, {1e9, 0}};
  const auto stays = split_of(plan, late_is_slow);
  CHECK(stays.nodes == std::vector<size_t>{0, 1});
  const auto moved = moved_split_of(plan, late_is_slow);
  CHECK(moved.nodes == std::vector<size_t>{1, 0});
  CHECK(moved.slowest_s < 0.95 * stays.slowest_s);
  CHECK(moved.layers[0] < moved.layers[1]);
  // By hand in that order it is the same split.
  CHECK(split_of(plan, {{1e9, 0}, {3e9, 0}}).layers == moved.layers);
  for (const double other : {1e9, 1.01e9, 0.99e9})  // as measurements of equal nodes vary
    CHECK(moved_split_of(plan, {{1e9, 0}, {other, 0}}).nodes == std::vector<size_t>{0, 1});
  CHECK(moved_split_of(plan, {{1e9, 0}, {3e9, 0}}).nodes == std::vector<size_t>{0, 1});
}

TEST_CASE("MSL-4: no order of the nodes is better by more than 5 % than what it comes to") {
  const auto plan = with_large_head(3);
  std::mt19937 chance(19);
  size_t moves = 0;
  for (int i = 0; i < 120; ++i) {
    CAPTURE(i);
    std::vector<node_pace> nodes;
    for (int n = 0; n < 3; ++n)
      nodes.push_back({1e9 * std::uniform_int_distribution<int>(1, 6)(chance), 0});
    const auto found = moved_split_of(plan, nodes);
    const auto stays = split_of(plan, nodes);
    const auto best = slowest_of_all_orders(plan, nodes);
    REQUIRE(best);
    if (std::ranges::is_sorted(found.nodes)) {
      CHECK(found.layers == stays.layers);
      CHECK(*best >= 0.95 * stays.slowest_s * (1 - 1e-9));
      continue;
    }
    ++moves;
    CHECK(found.slowest_s <= *best * (1 + 1e-9));
    CHECK(found.slowest_s <= 0.95 * stays.slowest_s);
  }
  CHECK(moves > 20);
  CHECK(moves < 100);
}

TEST_CASE("MSL-1: no node comes to a stage that its memory does not hold") {
  const auto plan = with_large_head(3);
  const auto largest = most_bytes_of_a_stage(plan);
  std::mt19937 chance(20);
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(chance);
  };
  for (int i = 0; i < 120; ++i) {
    CAPTURE(i);
    std::vector<node_pace> nodes;
    for (int n = 0; n < 3; ++n)
      nodes.push_back(
          {1e9 * static_cast<double>(1 + below(6)), largest / 2 + largest * below(100) / 100});
    const auto found = measured_split(plan, nodes, node_order::may_change);
    const auto stays = measured_split(plan, nodes);
    if (stays) REQUIRE(found);
    if (!found) continue;
    auto settled = plan;
    REQUIRE(settle_layers(settled, fmt::format("{}", fmt::join(found->layers, ","))));
    const auto stages = plan_stages(settled);
    for (size_t place = 0; place < 3; ++place)
      CHECK(stages[place].bytes.total() + stages[place].ring_bytes <=
            nodes[found->nodes[place]].memory_bytes);
  }
}

TEST_CASE("MSL-4: slow replicas come together, and who keeps its stage keeps its place") {
  const auto plan = with_large_head(4, 2);
  const std::vector<node_pace> places{{4e9, 0}, {1e9, 0}, {1e9, 0}, {4e9, 0}};
  const auto split = moved_split_of(plan, places);
  const auto flops = [&](size_t place) { return places[split.nodes[place]].flops_s; };
  CHECK(flops(0) == flops(1));
  CHECK(flops(2) == flops(3));
  size_t kept = 0;
  for (size_t place = 0; place < 4; ++place) {
    if (split.nodes[place] / 2 == place / 2) CHECK(split.nodes[place] == place);
    kept += split.nodes[place] == place ? 1 : 0;
  }
  CHECK(kept == 2);
}

TEST_CASE("MSL-4: places whose ranks are of several stages keep their nodes") {
  const auto plan = measured_job(
      {"cluster.nodes=2", "cluster.workers_per_node=2", "parallel.pipeline=4", "model.vocab=2000"});
  CHECK(moved_split_of(plan, {{9e9, 0}, {1e9, 0}}).nodes == std::vector<size_t>{0, 1});
}

TEST_CASE("MSL-4: machines whose memory differs by pages are not too many kinds to be ordered") {
  const auto plan = measured_job(
      {"cluster.nodes=16", "parallel.pipeline=16", "model.layers=32", "model.vocab=2000"});
  std::vector<node_pace> places, unbounded;
  for (uint64_t i = 0; i < 16; ++i) {
    places.push_back({i % 2 == 0 ? 9e9 : 1e9, (uint64_t{64} << 30) + 4096 * i});
    unbounded.push_back({places.back().flops_s, 0});
  }
  const auto split = moved_split_of(plan, places);
  CHECK(split.nodes == moved_split_of(plan, unbounded).nodes);
  CHECK(split.nodes[15] % 2 == 0);  // with the head
}

TEST_CASE("measured split: a plan is open until its layers are settled, and then as by hand") {
  auto plan = measured_job();
  CHECK(is_split_open(plan.job));
  CHECK_FALSE(is_split_open(measured_job({"cluster.nodes=1", "parallel.pipeline=1"}).job));
  CHECK_FALSE(is_split_open(measured_job({"parallel.placement=even"}).job));
  const auto refused = settle_layers(plan, "8");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().is(stage_layers_unfit));
  CHECK(is_split_open(plan.job));
  REQUIRE(settle_layers(plan, "6,2"));
  CHECK_FALSE(is_split_open(plan.job));
  const auto by_hand = measured_job({"parallel.placement=even", "parallel.layers=6,2"});
  CHECK(plan.job == by_hand.job);
  CHECK(stage_layers_text(plan) == "6,2");
}

TEST_CASE("JOB-19: layers that were measured are the job's from then on, and what it records") {
  train::test::job_harness job(measured_job());
  auto there = job.admitted();
  there.layers = "6,2";
  job.hear(there);
  CHECK(job.policy.plan().job.parallel.layers == "6,2");
  CHECK(stage_layers_text(job.policy.plan()) == "6,2");
  CHECK(job.policy.config_toml().find("layers = \"6,2\"") != std::string::npos);
  CHECK(job.policy.config_toml().find("measured") == std::string::npos);
}

TEST_CASE("JOB-19: an order of the nodes that was measured is the job's, and what it records") {
  train::test::job_harness job(measured_job());
  auto there = job.admitted();
  there.layers = "6,2";
  there.order = "node1,node0";
  job.hear(there);
  CHECK(job.policy.plan().job.cluster.node.at(0).name == "node1");
  CHECK(job.policy.plan().ranks[0].node == 0);  // of the first place
  const auto recorded = config::parse(job.policy.config_toml(), "recorded");
  REQUIRE(recorded);
  CHECK(recorded->parallel.nodes == "node1,node0");
  CHECK(recorded->parallel.layers == "6,2");
  CHECK(recorded->cluster.node.at(0).name == "node1");
}

TEST_CASE("JOB-19: fewer replicas record the order of the nodes that there are") {
  auto plan = measured_job({"cluster.nodes=4", "parallel.data=2", "train.micro_batch=1"});
  REQUIRE(settle_layers(plan, "6,2", "node2,node0,node3,node1"));
  const auto fewer = with_replicas(plan, 1);
  REQUIRE(fewer);
  CHECK(fewer->job.parallel.nodes == "node2,node0");
  REQUIRE(config::settle(fewer->job));
  const auto refused = settle_layers(plan, "6,2", "node2,node9");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().is(node_order_unfit));
}

TEST_CASE("JOB-14: a next head that is told the measured layers asks for its copies in memory") {
  train::test::job_harness next(
      measured_job({"cluster.nodes=4", "parallel.data=2", "checkpoint.memory.every=1"}));
  job_memory memory;
  memory.lost = lost_head{"was killed", 6, 7, 8 * train::test::job_second_ns};
  memory.copies = {7, {}};
  next.now_ns = memory.lost->at_ns;
  next.policy.remember(memory);
  next.policy.begin(next.now_ns);
  auto there = next.admitted();
  there.layers = "6,2";
  there.order = "node1,node0";
  next.hear(there);
  REQUIRE(next.find<todo::ask>());
  CHECK(next.find<todo::ask>()->phase == start_phase::find_copies);
  CHECK(next.policy.plan().job.parallel.layers == "6,2");
}
