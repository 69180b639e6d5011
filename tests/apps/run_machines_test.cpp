// By which machines a run is remembered, and what the next one on the same machines is told.
#include "apps/run_machines.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "actors/job/plan.hpp"
#include "actors/train/memory_estimate.hpp"
#include "apps/counted_expectation.hpp"
#include "apps/other_machines.hpp"
#include "apps/past_steps.hpp"
#include "apps/up/probed_nodes.hpp"
#include "tests/apps/plan_of_text.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using apps::run_place;

namespace {

/// Two nodes that others start.
train::job_plan plan_elsewhere(const std::vector<std::string>& sets = {}) {
  return plan_of_text(
      "[cluster]\nnodes = 2\nlaunch = \"external\"\nport = 4711\n"
      "device = \"host\"\n[model]\nlayers = 4\nheads = 4\nhidden = 64\n"
      "vocab = 256\n[data]\npath = \"x.txt\"\n[parallel]\npipeline = 2\n[train]\n"
      "steps = 100\nbatch = 8\nmicro_batch = 2\nseq_len = 32\n",
      sets);
}

io::perf::hw_profile machine_with(double cpus) {
  io::perf::hw_profile out;
  out.cpu_model = "Model 9";
  out.usable_cpus = cpus;
  out.probe_threads = cpus;
  out.gemm_gflop_s = 10 * cpus;
  out.gemm_bf16_gflop_s = 20 * cpus;
  out.adamw_mparam_s = 100 * cpus;
  return out;
}

std::optional<apps::run_machines> machines_with(const std::vector<run_place>& places,
                                                const std::vector<std::string>& sets = {}) {
  return apps::machines_of(places, plan_elsewhere(sets).job);
}

std::string name_of(const std::vector<run_place>& places,
                    const std::vector<std::string>& sets = {}) {
  const auto machines = machines_with(places, sets);
  return machines ? machines->name : "";
}

apps::step_times undisturbed_steps(double ms, double flops) {
  apps::step_times out;
  report::step_report r;
  r.step_ms = ms;
  for (int i = 0; i < 30; ++i) out.hear(r, flops);
  return out;
}

/// What a start of the job hears from its nodes.
struct start_elsewhere {
  train::job_plan plan = plan_elsewhere();
  std::shared_ptr<apps::run_outcome> outcome = std::make_shared<apps::run_outcome>();
  const io::fact_store& store;
  std::function<void(const troupe::predict::told_profile&)> tell;

  explicit start_elsewhere(const io::fact_store& kept)
      : store(kept), tell(apps::expect_by_profiles(plan, outcome, kept)) {}
  void hear(uint32_t place, double cpus) {
    tell({"node", "host" + std::to_string(place), place, 2, machine_with(cpus)});
  }
  void hear_nothing_of(uint32_t place) {
    tell({"node", "host" + std::to_string(place), place, 2, {}});
  }
  /// It ends, after steps of so many milliseconds each.
  void end(double ms) {
    const auto run = undisturbed_steps(ms, train::flops_of_step(plan))
                         .run_of(plan.job, outcome->summary.expected, outcome->machines);
    if (run) CHECK(apps::remember_run(*run, store));
  }
};

}  // namespace

TEST_CASE("RMA-1: machines have one name where they are as quick, whatever they are called") {
  const auto eight = machine_with(8), four = machine_with(4);
  const auto both = name_of({{"a", eight}, {"b", eight}});
  CHECK(both.starts_with("2 nodes on 2 machines, Model 9, 8 cpus, "));
  CHECK(name_of({{"x", eight}, {"y", eight}}) == both);
  auto probed_again = eight;
  probed_again.gemm_gflop_s = 79;
  probed_again.mem_gib = 63.9;
  CHECK(name_of({{"a", probed_again}, {"b", eight}}) == both);
  CHECK(name_of({{"a", eight}, {"a", eight}}) != both);  // they share one
  CHECK(name_of({{"a", eight}, {"b", four}}) != both);
  CHECK(name_of({{"a", eight}, {"b", four}}) != name_of({{"a", four}, {"b", eight}}));
  CHECK(name_of({{"a", eight}, {"b", four}}) != name_of({{"a", eight}, {"b", machine_with(2)}}));
  auto in_container = eight;
  in_container.quota_cpus = 2;
  CHECK(name_of({{"a", in_container}, {"b", eight}}) != both);
  auto far = eight;
  far.nic_gbit_s = 1;
  CHECK(name_of({{"a", far}, {"b", far}}) != both);
  auto other = eight;
  other.cpu_model = "Model 10";
  CHECK(name_of({{"a", other}, {"b", other}}) != both);
  other.cpu_model = std::string(2000, 'x');
  CHECK(name_of({{"a", other}, {"b", other}}).size() < 256);  // a line has room for it
}

TEST_CASE("RMA-1: how many workers each place has counts, and each machine is in the whole name") {
  const std::vector<run_place> places{{"a", machine_with(8)}, {"b", machine_with(8)}};
  auto job = plan_elsewhere().job;
  REQUIRE(job.cluster.node.size() == 2);
  const auto even = apps::machines_of(places, job);
  job.cluster.node[0].workers = 3;
  const auto uneven = apps::machines_of(places, job);
  REQUIRE((even && uneven));
  CHECK(even->name != uneven->name);
  // Two sums of a text of which each says nothing of its own would differ by the same everywhere.
  const auto apart = [](const std::string& name) {
    const auto sums = name.substr(name.size() - 16);
    return std::stoul(sums.substr(0, 8), nullptr, 16) ^ std::stoul(sums.substr(8), nullptr, 16);
  };
  CHECK(apart(name_of({{"a", machine_with(8)}, {"b", machine_with(8)}})) !=
        apart(name_of({{"a", machine_with(8)}, {"b", machine_with(4)}})));
}

TEST_CASE("RMA-1: GPUs count where they compute, and a rank has its share of a machine") {
  const auto eight = machine_with(8);
  auto with_gpu = eight;
  with_gpu.gpus = 2;
  with_gpu.gpu_name = "GPU 1";
  const auto on_host = machines_with({{"a", eight}, {"b", machine_with(6)}});
  REQUIRE(on_host);
  CHECK(on_host->threads == 6);
  CHECK_FALSE(on_host->on_gpus);
  CHECK(machines_with({{"a", eight}, {"a", eight}})->threads == 4);
  CHECK(machines_with({{"a", eight}, {"b", eight}}, {"cluster.threads=3"})->threads == 3);
  CHECK(name_of({{"a", with_gpu}, {"b", with_gpu}}) == name_of({{"a", eight}, {"b", eight}}));
  const std::vector<std::string> automatic{"cluster.device=auto"};
  const auto on_gpus = machines_with({{"a", with_gpu}, {"b", with_gpu}}, automatic);
  REQUIRE(on_gpus);
  CHECK(on_gpus->on_gpus);
  CHECK(on_gpus->name != name_of({{"a", eight}, {"b", eight}}, automatic));
  with_gpu.gpu_name.reset();
  CHECK_FALSE(machines_with({{"a", with_gpu}, {"b", with_gpu}}, automatic));
}

TEST_CASE("RMA-2: a place that has not told what its machine is leaves all without a name") {
  const auto eight = machine_with(8);
  CHECK_FALSE(machines_with({{"a", eight}}));
  auto nameless = eight;
  nameless.cpu_model.reset();
  CHECK_FALSE(machines_with({{"a", eight}, {"b", nameless}}));
  nameless = eight;
  nameless.usable_cpus.reset();
  CHECK_FALSE(machines_with({{"a", nameless}, {"b", eight}}));
  CHECK_FALSE(apps::machines_here(plan_elsewhere().job));
  CHECK(apps::machines_here(plan_elsewhere({"cluster.launch=local"}).job)->name ==
        apps::this_machine_alone);
}

TEST_CASE("RMA-3: a run whose places changed to other machines was on none of both") {
  apps::told_places places(plan_elsewhere().job);
  const run_place eight{"a", machine_with(8)}, four{"b", machine_with(4)};
  CHECK_FALSE(places.hear(2, eight));  // which the job has not
  CHECK_FALSE(places.hear(0, eight));
  CHECK_FALSE(places.machines());
  CHECK(places.hear(1, four));
  REQUIRE(places.machines());
  CHECK_FALSE(places.hear(1, {"c", machine_with(4)}));  // as quick
  CHECK(places.machines());
  CHECK_FALSE(places.hear(1, {"c", machine_with(8)}));
  CHECK_FALSE(places.machines());
  CHECK_FALSE(places.hear(1, four));
  CHECK_FALSE(places.machines());

  apps::told_places silent(plan_elsewhere().job);
  CHECK_FALSE(silent.hear(0, {"a", {}}));
  CHECK_FALSE(silent.hear(0, eight));  // what it made steps on until then, nobody knows
  CHECK_FALSE(silent.hear(1, eight));
  CHECK_FALSE(silent.machines());
}

TEST_CASE("RMA-1: nodes that told were probed, and so compute on their processors") {
  auto with_gpu = machine_with(8);
  with_gpu.gpus = 2;
  with_gpu.gpu_name = "GPU 1";
  apps::told_places places(plan_elsewhere({"cluster.device=auto"}).job);
  CHECK_FALSE(places.hear(0, {"a", with_gpu}));
  CHECK(places.hear(1, {"b", with_gpu}));
  CHECK_FALSE(places.machines()->on_gpus);
}

TEST_CASE("PBN-2: what runs on a job's machines took is expected of the next one on such") {
  const scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  start_elsewhere first(store);
  first.hear(1, 8);
  first.hear(0, 8);
  REQUIRE(first.outcome->summary.expected);
  CHECK(first.outcome->summary.expected->by_probes);  // of new work
  first.end(200);

  start_elsewhere next(store);
  next.hear(0, 8);
  CHECK_FALSE(next.outcome->summary.expected);
  next.hear(1, 8);
  REQUIRE(next.outcome->summary.expected);
  CHECK_FALSE(next.outcome->summary.expected->by_probes);
  CHECK(next.outcome->summary.expected->step == doctest::Approx(200));
  next.end(250);

  start_elsewhere slower(store);  // other machines have a past of their own
  slower.hear(0, 8);
  slower.hear(1, 4);
  REQUIRE(slower.outcome->summary.expected);
  CHECK(slower.outcome->summary.expected->by_probes);

  const auto& job = next.plan.job;
  const auto flops = train::flops_of_step(next.plan);
  CHECK_FALSE(apps::expect_by_past(job, flops, store));  // nobody says where
  const auto past = apps::expect_by_past(job, flops, store, next.outcome->machines);
  REQUIRE(past);
  CHECK(past->step.runs == 2);
  CHECK(past->ledger.runs == 1);  // what probes let expect is not in it
  CHECK(past->ledger.median_off == doctest::Approx(0.2));
  CHECK(apps::past_text(*past).find("of 2 runs of this work on these machines; expectations") !=
        std::string::npos);
  const auto larger = plan_elsewhere({"train.batch=16"});
  const auto other =
      apps::expect_by_past(larger.job, train::flops_of_step(larger), store, next.outcome->machines);
  REQUIRE(other);
  CHECK(other->step.basis == io::perf::past_basis::other_work);
}

TEST_CASE("PBN-2: a run whose machines changed, or did not all tell, is not remembered") {
  const scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  start_elsewhere changed(store);
  changed.hear(0, 8);
  changed.hear(1, 8);
  CHECK(changed.outcome->machines);
  changed.hear(1, 4);
  changed.end(200);
  start_elsewhere silent(store);
  silent.hear(0, 8);
  silent.end(200);
  start_elsewhere moved(store);  // to a machine that was not probed in time
  moved.hear(0, 8);
  moved.hear(1, 8);
  CHECK(moved.outcome->machines);
  moved.hear_nothing_of(1);
  moved.end(200);
  start_elsewhere back(store);
  back.hear(0, 8);
  back.hear_nothing_of(1);
  back.hear(1, 8);
  back.end(200);
  const auto kept = io::perf::read_past_runs(apps::past_runs_file(store));
  REQUIRE(kept);
  CHECK(kept->runs.empty());
}

TEST_CASE("CEX-1: of machines that are not here what runs on them took counts before probes") {
  const scratch dir;
  const io::fact_store store{dir.path, "here", "0.1.0", 0};
  start_elsewhere run(store);
  run.hear(0, 8);
  run.hear(1, 8);
  run.end(200);
  const auto plan = plan_elsewhere();
  const auto others =
      apps::others_of("fleet.csv", {{"n1", machine_with(8)}, {"n2", machine_with(8)}}, plan);
  REQUIRE(others);
  const auto machines = apps::machines_of(*others, plan.job);
  REQUIRE(machines);
  CHECK(machines->name == run.outcome->machines->name);
  const auto past = apps::expect_by_past(plan.job, train::flops_of_step(plan), store, machines);
  REQUIRE(past);
  const auto there = apps::expect_there(plan, train::plan_stages(plan), *others, {});
  const auto text = apps::counted_there_text(plan, there, past);
  CAPTURE(text);
  CHECK(text.find("expected: 200 ms a step (") == 0);
  CHECK(text.find("of this work on these machines\n") != text.npos);
  CHECK(text.find("  this counts, as whole steps of this work were measured on these") !=
        text.npos);
  CHECK(text.find("\n  beside it, by probes, roughly: ") != text.npos);
  CHECK(apps::counted_there_text(plan, there, {}).find("expected there, roughly: ") == 0);
  const auto j = apps::counted_there_json(plan, *others, there, past);
  CHECK(j.at("counts") == "past");
  CHECK(j.at("step_s").get<double>() == doctest::Approx(0.2));
  CHECK(j.at("probes").at("step_s").get<double>() ==
        doctest::Approx(there.step.step_s).epsilon(1e-3));
  CHECK(j.at("machines").size() == 2);
  CHECK_FALSE(apps::counted_there_json(plan, *others, there, {}).contains("counts"));
}
