// What steps take on machines that are not here: by their probes, and by what was seen here.
#include "apps/other_machines.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "apps/up/probed_nodes.hpp"
#include "gpu/predict/speed_prior.hpp"
#include "tests/apps/plan_of_text.hpp"
#include "tests/errors.hpp"
#include "tests/gpu/predict/fitted_prior.hpp"

using namespace troupe;
using io::perf::hw_machine;

namespace {

/// Four layers over two stages on a node each, four micro-batches.
train::job_plan plan_for_others(const std::vector<std::string>& sets = {}) {
  return plan_of_text(
      "[cluster]\nnodes = 2\nthreads = 1\n[model]\nlayers = 4\nheads = 16\n"
      "hidden = 64\nvocab = 256\ndtype = \"f32\"\n[data]\npath = \"x.txt\"\n"
      "[parallel]\npipeline = 2\n[train]\nsteps = 100\nbatch = 8\nmicro_batch = 2\n"
      "seq_len = 32\n",
      sets);
}

/// Four threads that reach so much together, and a tenth as many updates.
hw_machine probed_machine(const std::string& id, double gflop_s) {
  hw_machine out{id, {}};
  out.profile.probe_threads = 4;
  out.profile.gemm_gflop_s = gflop_s;
  out.profile.gemm_bf16_gflop_s = 2 * gflop_s;
  out.profile.adamw_mparam_s = 100 * gflop_s;
  out.profile.mem_gib = 64;
  return out;
}

apps::other_machines others_for(const train::job_plan& plan,
                                const std::vector<hw_machine>& machines) {
  auto others = apps::others_of("fleet.csv", machines, plan);
  REQUIRE_MESSAGE(others, (others ? "" : render(others.error())));
  return *others;
}

apps::expected_there expect_on(const train::job_plan& plan, const std::vector<hw_machine>& machines,
                               const std::optional<apps::known_here>& here = {}) {
  return apps::expect_there(plan, train::plan_stages(plan), others_for(plan, machines), here);
}

apps::known_here seen_here(double gflop_s) {
  apps::known_here out{probed_machine("", gflop_s).profile, {}};
  out.step.step_s = 0.5;
  out.step.least_s = 0.4;
  out.step.most_s = 0.6;
  out.step.runs = 3;
  out.step.steps = 100;
  return out;
}

std::vector<int64_t> measured_layers(const apps::expected_there& e) {
  REQUIRE(e.split);
  REQUIRE(*e.split);
  return (*e.split)->layers;
}

}  // namespace

TEST_CASE("OTH-1: what a profile lacks is named, of what the job computes with") {
  const auto plan = plan_for_others();
  auto bare = probed_machine("node1", 100);
  bare.profile.gemm_gflop_s.reset();
  bare.profile.adamw_mparam_s.reset();
  CHECK(is_error(apps::others_of("f.csv", {bare}, plan), apps::probes_missing, "node1", "f.csv",
                 "gemm_gflop_s", "adamw_mparam_s"));
  const auto half = plan_for_others({"model.dtype=bf16"});
  bare.profile.adamw_mparam_s = 1;
  CHECK(apps::others_of("f.csv", {bare}, half));
  bare.profile.gemm_bf16_gflop_s.reset();
  CHECK(
      is_error(apps::others_of("f.csv", {bare}, half), apps::probes_missing, "gemm_bf16_gflop_s"));
  // A machine with GPUs computes on them, unless it is told not to.
  auto gpus = probed_machine("node1", 100);
  gpus.profile.gpus = 2;
  CHECK(is_error(apps::others_of("f.csv", {gpus}, half), apps::probes_missing, "gpu_gemm_tflop_s",
                 "gpu_adamw_mparam_s"));
  CHECK(apps::others_of("f.csv", {gpus}, plan).error().code == errc::unavailable);
  CHECK(apps::others_of("f.csv", {gpus}, plan_for_others({"cluster.device=host"})));
  gpus.profile.gpu_gemm_tflop_s = 300;
  gpus.profile.gpu_adamw_mparam_s = 1000;
  const auto on_gpu = others_for(half, {gpus});
  CHECK(on_gpu.can.machines.front().paces.flops_s == doctest::Approx(3e14));
  CHECK(on_gpu.can.machines.front().at_once() == 2);
}

TEST_CASE("other machines: one for all nodes, or a row for each") {
  const auto plan = plan_for_others();
  const auto one = probed_machine("node1", 100);
  CHECK(others_for(plan, {one}).nodes.size() == 2);
  CHECK(others_for(plan, {one, one}).nodes.size() == 2);
  CHECK(is_error(apps::others_of("f.csv", {one, one, one}, plan), apps::other_machine_count, 3, 2));
}

TEST_CASE("other machines: a step is the roofline of their probes, and hardly less") {
  const auto plan = plan_for_others({"model.hidden=1024", "train.seq_len=512"});
  const auto stages = train::plan_stages(plan);
  const auto one = probed_machine("node1", 100);
  const auto e = expect_on(plan, {one});
  // A thread of four has a fourth of what four reach.
  const apps::measured_worker worker{{25e9, 2.5e9, "", 1}, 1, 4};
  const auto roofline = apps::expect_step_on(plan, stages, {{worker, worker}, {0, 1}});
  CHECK(e.step.step_s > roofline.step_s);
  CHECK(e.step.least_s < roofline.step_s);
  CHECK(e.step.most_s > e.step.step_s);
  CHECK(e.step.stages[0].forward / e.step.step_s ==
        doctest::Approx(roofline.stages[0].forward / roofline.step_s));
  CHECK(e.step.tokens_s == doctest::Approx(8 * 512 / e.step.step_s));
  CHECK(e.step.run_s == doctest::Approx(100 * e.step.step_s));
  CHECK(e.outside.empty());
  CHECK_FALSE(e.network_s);  // OTH-1: no card's rate is guessed
  // With a card of 1 Gbit/s what stages send each other takes its time.
  auto connected = one;
  connected.profile.nic_gbit_s = 1;
  const auto by_net = expect_on(plan, {connected});
  REQUIRE(by_net.network_s);
  CHECK(*by_net.network_s ==
        doctest::Approx(static_cast<double>(stages[0].boundary_bytes) / 125e6));
  CHECK(by_net.step.step_s == doctest::Approx(e.step.step_s + *by_net.network_s));
}

TEST_CASE("other machines: a slow node is a slow stage, and would have fewer layers") {
  const auto plan = plan_for_others();
  const auto quick = probed_machine("a", 100), slow = probed_machine("b", 25);
  const auto equal = expect_on(plan, {quick, quick}), uneven = expect_on(plan, {quick, slow});
  CHECK(uneven.step.stages[0].forward == doctest::Approx(equal.step.stages[0].forward));
  CHECK(uneven.step.stages[1].forward == doctest::Approx(4 * equal.step.stages[1].forward));
  CHECK(measured_layers(equal) == std::vector<int64_t>{2, 2});
  CHECK(measured_layers(uneven) == std::vector<int64_t>{3, 1});
  CHECK_FALSE(
      expect_on(plan_for_others({"cluster.nodes=1", "parallel.pipeline=1"}), {quick}).split);
}

TEST_CASE("other machines: workers of one machine share all of its memory") {
  const auto plan = plan_for_others({"cluster.nodes=1", "cluster.workers_per_node=4",
                                     "parallel.pipeline=4", "model.layers=8", "model.vocab=20000"});
  uint64_t planned = 0;
  for (const auto& s : train::plan_stages(plan)) planned += s.bytes.total() + s.ring_bytes;
  auto one = probed_machine("a", 100);
  const auto gib = static_cast<double>(planned) / static_cast<double>(uint64_t{1} << 30);
  one.profile.mem_gib = 2 * gib;
  CHECK(measured_layers(expect_on(plan, {one})).size() == 4);
  one.profile.mem_gib = gib / 2;
  const auto tight = expect_on(plan, {one});
  REQUIRE(tight.split);
  CHECK(is_error(*tight.split, train::no_split_fits, size_t{8}, size_t{4}));
}

TEST_CASE("other machines: what was seen here is carried over by what both were probed to do") {
  const auto plan = plan_for_others();
  const auto same = expect_on(plan, {probed_machine("a", 100)}, seen_here(100));
  CHECK(same.step.step_s == doctest::Approx(0.5));
  CHECK(same.step.least_s < 0.4);  // another machine is less sure than this one
  CHECK(same.step.most_s > 0.6);
  CHECK(same.outside.empty());
  const auto twice = expect_on(plan, {probed_machine("a", 200)}, seen_here(100));
  CHECK(twice.step.step_s == doctest::Approx(0.25));
  // What this machine lacks is no reason to end, its runs say nothing then.
  auto unprobed = seen_here(100);
  unprobed.probes.gemm_gflop_s.reset();
  CHECK(expect_on(plan, {probed_machine("a", 100)}, unprobed).step.step_s ==
        doctest::Approx(expect_on(plan, {probed_machine("a", 100)}).step.step_s));
}

TEST_CASE("OTH-2: what is outside of what was measured is named, and widens the interval") {
  const auto wide = plan_for_others({"model.hidden=1024", "train.seq_len=512"});
  const auto narrow = plan_for_others();
  const auto one = probed_machine("node1", 100);
  const auto relative = [](const apps::expected_there& e) { return e.step.most_s / e.step.step_s; };
  const auto inside = expect_on(wide, {one}), outside = expect_on(narrow, {one});
  CHECK(inside.outside.empty());
  CHECK(outside.outside.size() == 1);
  CHECK(relative(outside) == doctest::Approx(2 * relative(inside)));
  auto threads = wide;
  threads.job.cluster.threads = 8;
  CHECK(expect_on(threads, {one}).outside.size() == 2);  // on each node
  const auto near = expect_on(wide, {one}, seen_here(50));
  const auto far = expect_on(wide, {one}, seen_here(5));
  CHECK(near.outside.empty());
  CHECK(far.outside.size() == 1);
  CHECK(relative(far) == doctest::Approx(2 * relative(near)));
}

TEST_CASE("other machines: memory is judged where a rank has least of what it needs") {
  const auto plan = plan_for_others();
  const auto stages = train::plan_stages(plan);
  auto small = probed_machine("small", 100);
  small.profile.mem_gib = 2;
  const auto tightest =
      apps::tightest_of(plan, stages, others_for(plan, {probed_machine("large", 100), small}));
  CHECK(tightest.node == "small");
  CHECK(tightest.has == uint64_t{2} << 30);
  CHECK(tightest.needed == stages[1].bytes.total());
  small.profile.mem_gib.reset();
  CHECK(apps::tightest_of(plan, stages, others_for(plan, {small})).has == 0);
}

TEST_CASE("other machines: programs are told what persons are") {
  const auto plan = plan_for_others();
  const std::vector<hw_machine> fleet{probed_machine("a", 100), probed_machine("b", 25)};
  const auto others = others_for(plan, fleet);
  const auto e = expect_on(plan, fleet);
  const auto j = apps::there_json(plan, others, e);
  CHECK(j.at("step_s").get<double>() == doctest::Approx(e.step.step_s).epsilon(1e-3));
  CHECK(j.at("rests_on") == e.rests_on);
  CHECK(j.at("outside").size() == e.outside.size());
  CHECK(j.at("machines").at(1).at("name") == "b");
  CHECK(j.at("measured_placement").at("layers") == "3,1");
  CHECK(j.at("measured_placement").at("as_planned") == false);
  CHECK_FALSE(j.contains("network_s"));
  const auto text = apps::there_text(plan, e);
  CHECK(text.back() == '\n');
  CHECK(text.find("nic_gbit_s") != text.npos);
  CHECK(text.find(e.rests_on) != text.npos);
  CHECK(text.find(e.outside.front()) != text.npos);
  CHECK(text.find("3,1") != text.npos);
}

TEST_CASE("other machines: nodes that share a machine share its processors") {
  const auto plan = plan_for_others({"cluster.threads=0"});
  const auto machine = probed_machine("node", 100);
  const auto apart = apps::others_of({{"x", machine}, {"y", machine}}, plan);
  const auto together = apps::others_of({{"x", machine}, {"x", machine}}, plan);
  REQUIRE(apart);
  REQUIRE(together);
  CHECK(apart->can.machines.size() == 2);
  REQUIRE(together->can.machines.size() == 1);
  CHECK(apart->can.machines[0].threads == 4);
  CHECK(together->can.machines[0].threads == 2);
  CHECK(together->can.machines[0].paces.flops_s ==
        doctest::Approx(apart->can.machines[0].paces.flops_s / 2));
  CHECK(together->worker_bytes[1] == apart->worker_bytes[1] / 2);
  const auto stages = train::plan_stages(plan);
  CHECK(apps::expect_there(plan, stages, *together, {}).step.step_s >
        1.5 * apps::expect_there(plan, stages, *apart, {}).step.step_s);
  CHECK(is_error(apps::others_of(std::vector<apps::probed_place>{{"x", machine}}, plan),
                 apps::other_machine_count, 1, 2));
}

TEST_CASE("PBN-1: a step of new work is expected once all places have said what they do") {
  const auto plan = plan_for_others();
  const auto machine = probed_machine("node", 100).profile;
  const auto of_place = [&](uint32_t place) {
    return troupe::predict::told_profile{"node", "host" + std::to_string(place), place, 2, machine};
  };
  apps::probed_nodes nodes(plan);
  CHECK_FALSE(nodes.hear(of_place(1)));
  CHECK_FALSE(nodes.hear(of_place(1)));
  CHECK_FALSE(nodes.hear(of_place(2)));  // which the job has not
  const auto expected = nodes.hear(of_place(0));
  REQUIRE(expected);
  CHECK(expected->step.step_s > 0);
  CHECK(expected->step.least_s < expected->step.step_s);
  CHECK(expected->step.step_s < expected->step.most_s);
  CHECK_FALSE(nodes.hear(of_place(0)));

  apps::probed_nodes lacking(plan);
  lacking.hear(of_place(0));
  auto bare = of_place(1);
  bare.profile = {};
  CHECK_FALSE(lacking.hear(bare));
}

TEST_CASE("PBN-1: what probes let expect is kept for the summary, where nothing better is known") {
  const auto plan = plan_for_others();
  const auto told_all = [&](const std::shared_ptr<apps::run_outcome>& outcome) {
    const auto tell = apps::expect_by_profiles(plan, outcome);
    for (const uint32_t place : {0, 1})
      tell({"node", "host", place, 2, probed_machine("node", 100).profile});
  };
  const auto fresh = std::make_shared<apps::run_outcome>();
  told_all(fresh);
  REQUIRE(fresh->summary.expected);
  CHECK(fresh->summary.expected->by_probes);
  CHECK(fresh->summary.expected->step > fresh->summary.expected->least);
  const auto known = std::make_shared<apps::run_outcome>();
  known->summary.expected = report::expected_ms{250, 200, 300};
  told_all(known);
  CHECK(known->summary.expected->step == 250);
  CHECK_FALSE(known->summary.expected->by_probes);
}

namespace {

/// A model of machines whose score is the same by a thread and a MHz.
gpu::predict::speed_prior prior_of_clocks() {
  using enum io::perf::feature_kind;
  io::perf::perf_table t{"fleet",
                         {{"cpus", "cpu", "1", log_number}, {"base_mhz", "cpu", "MHz", log_number}},
                         {"tokens_per_s"},
                         {}};
  for (int i = 0; i < 60; ++i) {
    io::perf::perf_row r;
    r.id = "r" + std::to_string(100 + i);
    r.cpu_model = "model" + std::to_string(i % 12);
    const double cpus = 2 + i % 30, mhz = 2000 + 100 * (i * 7 % 20);
    r.numbers = {cpus, mhz};
    r.words = {"", ""};
    r.labels = {cpus * mhz};
    t.rows.push_back(std::move(r));
  }
  return gpu::predict::testing::fitted_prior(t);
}

/// What it is, and nothing of what it does.
hw_machine unprobed_machine(const std::string& id, double cpus, double mhz) {
  hw_machine out{id, {}};
  out.profile.cpus = out.profile.usable_cpus = cpus;
  out.profile.base_mhz = mhz;
  out.profile.mem_gib = 64;
  return out;
}

}  // namespace

TEST_CASE("OTH-1: a machine that was not probed has the rates of one that was, as a prior says") {
  auto probed = unprobed_machine("a", 4, 2400);
  probed.profile.probe_threads = 4;
  probed.profile.gemm_gflop_s = 100;
  probed.profile.adamw_mparam_s = 1000;
  std::vector<hw_machine> machines{probed, unprobed_machine("b", 8, 3600)};
  apps::known_by_prior known{prior_of_clocks(), {}};
  const auto filled = apps::fill_by_prior(machines, known);
  CHECK(filled.names == std::vector<std::string>{"b"});
  CHECK(machines[0].profile == probed.profile);  // what was measured stays
  CHECK(machines[1].profile.probe_threads == 8);
  CHECK(*machines[1].profile.gemm_gflop_s == doctest::Approx(2 * 1.5 * 100).epsilon(0.05));
  CHECK(*machines[1].profile.adamw_mparam_s == doctest::Approx(2 * 1.5 * 1000).epsilon(0.05));
  CHECK_FALSE(machines[1].profile.gemm_bf16_gflop_s);  // nobody measured that
  // Beside this machine, where nothing of the file was probed; of none nothing is made up.
  std::vector<hw_machine> alone{unprobed_machine("b", 8, 3600)}, same = alone;
  CHECK(apps::fill_by_prior(alone, known).names.empty());
  CHECK(is_error(apps::others_of("f.csv", alone, plan_for_others()), apps::probes_missing, "b"));
  known.here = probed.profile;
  CHECK(apps::fill_by_prior(same, known).names.size() == 1);
  CHECK(same[0].profile.gemm_gflop_s == machines[1].profile.gemm_gflop_s);
}

TEST_CASE("OTH-1: what a prior tells is said, and its interval is the wider one") {
  const auto plan = plan_for_others({"model.hidden=1024", "train.seq_len=512"});
  const auto machine = probed_machine("node1", 100);
  auto others = others_for(plan, {machine});
  const auto stages = train::plan_stages(plan);
  const auto by_probes = apps::expect_there(plan, stages, others, {});
  others.by_prior = {"node1"};
  others.prior_half = 0.2;
  const auto by_prior = apps::expect_there(plan, stages, others, {});
  CHECK(by_prior.step.step_s == by_probes.step.step_s);
  CHECK(by_prior.step.most_s == doctest::Approx(std::exp(0.5) * by_probes.step.most_s));
  CHECK(by_prior.step.least_s == doctest::Approx(std::exp(-0.5) * by_probes.step.least_s));
  CHECK(by_prior.rests_on.find("node1 not probed") != std::string::npos);
  CHECK(apps::there_json(plan, others, by_prior)["by_prior"][0] == "node1");
  CHECK_FALSE(apps::there_json(plan, others_for(plan, {machine}), by_probes).contains("by_prior"));
}
