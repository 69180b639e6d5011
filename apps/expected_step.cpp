// A layer's pace, and the schedule.
#include "apps/expected_step.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "actors/base/hardware.hpp"
#include "actors/job/stage_split_policy.hpp"
#include "actors/power/pipeline_dag.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/layer_paces.hpp"
#include "actors/train/measured_split_policy.hpp"
#include "actors/train/readiness_policy.hpp"
#include "apps/report/report.hpp"
#include "io/base/counted.hpp"
#include "trace/text.hpp"

namespace troupe::apps {

namespace {

/// A step is hardly quicker than the quickest try of its products, but for what those vary by.
constexpr double quickest = 0.9;
/// What is not counted, as steps of small jobs had it (docs/predict.md).
constexpr double slowest_by = 1.5;
/// Operations of a schedule that are walked.
constexpr int64_t walked_operations = 1 << 16;

double short_number(double value) {
  return std::stod(fmt::format("{:.4g}", value));
}

double busy_s(const train::stage_seconds& s) {
  return s.forward + s.backward;
}

std::string time_of(double seconds) {
  return trace::duration_text(static_cast<int64_t>(std::min(1e9 * seconds, 9e18)));
}

/// The stages' layers as a question of who should have how many: all nodes are this one.
train::split_question question_of(const train::job_plan& plan, const measured_worker& worker) {
  const auto layers = static_cast<size_t>(plan.model.layers);
  const auto stages = static_cast<size_t>(plan.job.parallel.pipeline);
  train::split_question q;
  q.kinds = {train::kind_of_node(plan, "this machine", worker.paces.flops_s / worker.paces.spread)};
  q.nodes.assign(stages, 0);
  q.slots.assign(stages, 1);
  q.layer_bytes.assign(layers, 0);
  q.layer_slot_bytes.assign(layers, 0);
  return q;
}

}  // namespace

result<measured_worker> measure_worker(const train::job_plan& plan) {
  const auto& r = plan.ranks.front();
  measured_worker out;
  out.threads = train::threads_here(plan.job.cluster);
  out.cores = cluster::hardware_facts().cores;
  // As many at once as compute at once.
  const auto ranks = std::min(std::ssize(plan.ranks), out.at_once());
  TROUPE_TRY(measured,
             train::measure_workers(
                 train::options_of(plan.job, plan.model, r.at, r.layers, out.threads), ranks));
  out.paces = std::move(measured);
  return out;
}

double pipeline_seconds(const std::vector<train::stage_seconds>& stages, int64_t micro_batches) {
  double slowest = 0;
  for (const auto& s : stages) slowest = std::max(slowest, busy_s(s));
  const auto count = std::ssize(stages);
  // Of a pipeline too long to be walked: as if all stages were as slow as the slowest.
  if (2 * count * count > walked_operations)
    return slowest * static_cast<double>(micro_batches + count - 1);
  const auto walked = std::min(micro_batches, walked_operations / (2 * count));
  const power::pipeline_dag dag(static_cast<int>(count), static_cast<int>(walked));
  std::vector<double> lasting;
  lasting.reserve(dag.nodes().size());
  for (const auto& node : dag.nodes()) {
    const auto& s = stages[static_cast<size_t>(node.stage)];
    lasting.push_back(node.which == power::instruction::forward ? s.forward : s.backward);
  }
  // The first stage's last backward is the end (DAG-1); further micro-batches come at the pace of
  // the slowest stage.
  return dag.ends(lasting).back() + slowest * static_cast<double>(micro_batches - walked);
}

expected_step expect_step_on(const train::job_plan& plan,
                             const std::vector<train::planned_stage>& stages,
                             const job_machines& where) {
  expected_step out;
  std::vector<double> work(where.machines.size());  // of all ranks of a machine
  double update = 0, busy = 0, spread = 1;
  const auto micro_batches = static_cast<double>(plan.micro_batches);
  for (const auto& s : stages) {
    auto& slowest = out.stages.emplace_back();
    for (const auto rank : s.ranks) {
      const auto node = static_cast<size_t>(plan.ranks[static_cast<size_t>(rank)].node);
      const auto at = where.of_node.at(node);
      const auto& paces = where.machines[at].paces;  // as they typically are
      const auto takes = train::seconds_of(s, plan, paces.flops_s / paces.spread, paces.updates_s);
      work[at] += micro_batches * busy_s(takes) + takes.update;
      slowest = {std::max(slowest.forward, takes.forward),
                 std::max(slowest.backward, takes.backward),
                 std::max(slowest.update, takes.update)};
      spread = std::max(spread, paces.spread);
    }
    update = std::max(update, slowest.update);
    busy += micro_batches * busy_s(slowest);
  }
  const double pipeline = pipeline_seconds(out.stages, plan.micro_batches);
  out.idle_share = 1 - busy / (pipeline * static_cast<double>(stages.size()));
  out.step_s = pipeline + update;
  // Ranks that have no processors of their own take turns.
  for (size_t m = 0; m < work.size(); ++m)
    out.step_s = std::max(out.step_s, work[m] / static_cast<double>(where.machines[m].at_once()));
  out.least_s = quickest / spread * out.step_s;
  out.most_s = slowest_by * out.step_s;
  out.tokens_s = static_cast<double>(plan.job.tokens_per_step()) / out.step_s;
  out.run_s = static_cast<double>(plan.job.train.steps) * out.step_s;
  return out;
}

expected_step expect_step(const train::job_plan& plan,
                          const std::vector<train::planned_stage>& stages,
                          const measured_worker& worker) {
  return expect_step_on(plan, stages,
                        {{worker}, std::vector<size_t>(plan.job.cluster.node.size(), 0)});
}

std::optional<better_cut> better_cut_of(const train::job_plan& plan, const expected_step& now,
                                        const measured_worker& worker,
                                        const train::machine& machine) {
  constexpr double worth_telling = 0.98;
  if (plan.job.parallel.pipeline == 1) return std::nullopt;
  const auto split = train::best_split(question_of(plan, worker));
  if (!split) return std::nullopt;
  auto other = plan;
  other.job.parallel.layers = fmt::format("{}", fmt::join(split->layers, ","));
  if (!train::place_stages(other) || !train::fits_memory(other, machine)) return std::nullopt;
  auto expected = expect_step(other, train::plan_stages(other), worker);
  if (expected.step_s > worth_telling * now.step_s) return std::nullopt;
  return better_cut{other.job.parallel.layers, std::move(expected)};
}

std::string better_cut_text(const train::job_plan& plan, const better_cut& better,
                            const expected_step& now) {
  const auto replaced = train::is_split_open(plan.job)
                            ? std::string("parallel.placement")
                            : fmt::format("\"{}\"", train::stage_layers_text(plan));
  return fmt::format("  parallel.layers = \"{}\" in place of {}: about {:.0f} % of that\n",
                     better.layers, replaced, 100 * better.expected.step_s / now.step_s);
}

std::string times_text(const train::job_plan& plan, const expected_step& e,
                       std::string_view begin) {
  auto out =
      fmt::format("{}: {} a step ({} to {}), {} tokens/s, {} for {}\n", begin, time_of(e.step_s),
                  time_of(e.least_s), time_of(e.most_s), grouped(static_cast<int64_t>(e.tokens_s)),
                  report::duration(e.run_s), counted(plan.job.train.steps, "step"));
  constexpr size_t told = 8;
  for (size_t i = 0; i < std::min(told, e.stages.size()); ++i) {
    const auto& s = e.stages[i];
    out += fmt::format("  stage {}: forward {}, backward {} a micro-batch, update {}\n", i,
                       time_of(s.forward), time_of(s.backward), time_of(s.update));
  }
  if (e.stages.size() > told)
    out += fmt::format("  and {} more\n", counted(e.stages.size() - told, "stage"));
  if (e.stages.size() > 1)
    out += fmt::format("  stages wait for each other {:.1f} % of the pipeline's time\n",
                       100 * e.idle_share);
  return out;
}

nlohmann::ordered_json times_json(const expected_step& e) {
  nlohmann::ordered_json out{
      {"step_s", short_number(e.step_s)}, {"least_s", short_number(e.least_s)},
      {"most_s", short_number(e.most_s)}, {"tokens_per_s", short_number(e.tokens_s)},
      {"run_s", short_number(e.run_s)},   {"idle_share", short_number(e.idle_share)}};
  out["stages"] = nlohmann::ordered_json::array();
  for (const auto& s : e.stages)
    out["stages"].push_back({{"forward_s", short_number(s.forward)},
                             {"backward_s", short_number(s.backward)},
                             {"update_s", short_number(s.update)}});
  return out;
}

std::string measured_text(const measured_worker& worker) {
  return fmt::format(
      "  by a layer measured just now: products {:.0f} GFLOP/s, updates {:.2f} G/s with {}; not "
      "counted: what ranks send each other, data, checkpoints, validations\n",
      worker.paces.flops_s / worker.paces.spread / 1e9, worker.paces.updates_s / 1e9,
      counted(worker.threads, "thread"));
}

std::string expected_text(const train::job_plan& plan, const expected_step& e,
                          const measured_worker& worker) {
  return times_text(plan, e, "expected here, roughly") + measured_text(worker);
}

nlohmann::ordered_json expected_json(const expected_step& e, const measured_worker& worker) {
  auto out = times_json(e);
  out["measured"] = {{"flops_s", short_number(worker.paces.flops_s)},
                     {"update_parameters_s", short_number(worker.paces.updates_s)},
                     {"spread", short_number(worker.paces.spread)},
                     {"threads", worker.threads}};
  return out;
}

}  // namespace troupe::apps
