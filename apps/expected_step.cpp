// A layer's pace, and the schedule.
#include "apps/expected_step.hpp"

#include <algorithm>
#include <future>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "actors/base/hardware.hpp"
#include "actors/job/stage_split_policy.hpp"
#include "actors/power/pipeline_dag.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/readiness_policy.hpp"
#include "apps/report/report.hpp"
#include "gpu/swap/step_traffic.hpp"
#include "io/base/counted.hpp"
#include "trace/text.hpp"

namespace troupe::apps {

namespace {

/// A step is hardly quicker than the quickest try of its products, but for what those vary by.
constexpr double quickest = 0.9;
/// What is not counted, as steps of small jobs had it (docs/predict.md).
constexpr double slowest_by = 1.5;
/// Of a layer that is measured: matrix elements, and products of one try.
constexpr double measured_elements = 8e6, measured_flops = 12e9;
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
  const auto& of = plan.job.train;
  const auto layers = static_cast<size_t>(plan.model.layers);
  const auto stages = static_cast<size_t>(plan.job.parallel.pipeline);
  const auto tokens = static_cast<double>(of.micro_batch * of.seq_len);
  const double passes = plan.job.model.recompute ? 4 : 3;
  const double layer = tokens * gpu::layer_flops(plan.model, of.seq_len) * passes / 3;
  const double head = tokens * 6 * static_cast<double>(plan.model.vocab * plan.model.hidden);
  const double flops_s = worker.paces.flops_s / worker.paces.spread;
  train::split_question q;
  q.kinds = {{"this machine", std::vector<double>(layers, layer / flops_s), 0, head / flops_s, 0}};
  q.nodes.assign(stages, 0);
  q.slots.assign(stages, 1);
  q.layer_bytes.assign(layers, 0);
  q.layer_slot_bytes.assign(layers, 0);
  return q;
}

}  // namespace

train::engine_options measured_part(train::engine_options o) {
  auto& m = o.model;
  m.layers = 1;
  m.vocab = std::min<int64_t>(m.vocab, 64);  // no head is measured
  const auto halves = [](int64_t n) { return n % 2 == 0; };
  const auto elements = [&] {
    return static_cast<double>(m.matrix_parameters() - m.vocab * m.hidden);
  };
  while (elements() > measured_elements && halves(m.heads) && halves(m.kv_heads) &&
         halves(m.hidden) && halves(m.ffn)) {
    m.heads /= 2;
    m.kv_heads /= 2;
    m.hidden /= 2;
    m.ffn /= 2;
  }
  auto& s = o.shape;
  const auto flops = [&] {
    return gpu::layer_flops(m, s.seq) * static_cast<double>(s.micro_batch * s.seq);
  };
  while (flops() > measured_flops && s.micro_batch > 1) s.micro_batch /= 2;
  while (flops() > measured_flops && s.seq > 16) s.seq /= 2;
  return o;
}

result<measured_worker> measure_worker(const train::job_plan& plan) {
  const auto& r = plan.ranks.front();
  measured_worker out;
  out.threads = train::threads_here(plan.job.cluster);
  out.cores = cluster::hardware_facts().cores;
  const auto options =
      measured_part(train::options_of(plan.job, plan.model, r.at, r.layers, out.threads));
  if (options.device != "host")
    return error{errc::unavailable, "rates are measured of the host's processors only"};
  if (static_cast<double>(options.model.matrix_parameters()) > 4 * measured_elements)
    return error{errc::unavailable, "a layer of this model is too large to be measured in passing"};
  // As many at once as compute at once: cores share what feeds them, and what others left of them.
  const auto ranks = std::min(std::ssize(plan.ranks), out.at_once());
  std::vector<std::future<result<swap::paces>>> others;
  const auto measure = [&] { return swap::measure_paces(options, {out.threads, 64, 0.4}); };
  for (int64_t i = 1; i < ranks; ++i) others.push_back(std::async(std::launch::async, measure));
  std::vector<result<swap::paces>> all{measure()};
  for (auto& other : others) all.push_back(other.get());
  for (const auto& one : all)
    if (!one) return one.error();
  // Of ranks that wait for each other the slowest counts.
  out.paces = **std::min_element(all.begin(), all.end(), [](const auto& x, const auto& y) {
    return x->flops_s / x->spread < y->flops_s / y->spread;
  });
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

expected_step expect_step(const train::job_plan& plan,
                          const std::vector<train::planned_stage>& stages,
                          const measured_worker& worker) {
  expected_step out;
  const auto& paces = worker.paces;  // as they typically are
  double update = 0, all_work = 0;
  const auto micro_batches = static_cast<double>(plan.micro_batches);
  double busy = 0;
  for (const auto& s : stages) {
    const auto& takes = out.stages.emplace_back(
        train::seconds_of(s, plan, paces.flops_s / paces.spread, paces.updates_s));
    update = std::max(update, takes.update);
    busy += micro_batches * busy_s(takes);
    all_work +=
        static_cast<double>(s.ranks.size()) * (micro_batches * busy_s(takes) + takes.update);
  }
  const double pipeline = pipeline_seconds(out.stages, plan.micro_batches);
  out.idle_share = 1 - busy / (pipeline * static_cast<double>(stages.size()));
  // Ranks that have no processors of their own take turns.
  out.step_s = std::max(pipeline + update, all_work / static_cast<double>(worker.at_once()));
  out.least_s = quickest / paces.spread * out.step_s;
  out.most_s = slowest_by * out.step_s;
  out.tokens_s = static_cast<double>(plan.job.tokens_per_step()) / out.step_s;
  out.run_s = static_cast<double>(plan.job.train.steps) * out.step_s;
  return out;
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

std::string expected_text(const train::job_plan& plan, const expected_step& e,
                          const measured_worker& worker) {
  auto out = fmt::format("expected here, roughly: {} a step ({} to {}), {} tokens/s, {} for {}\n",
                         time_of(e.step_s), time_of(e.least_s), time_of(e.most_s),
                         report::grouped(static_cast<int64_t>(e.tokens_s)),
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
  out += fmt::format(
      "  by a layer measured just now: products {:.0f} GFLOP/s, updates {:.2f} G/s with {}; "
      "not counted: what ranks send each other, data, checkpoints, validations\n",
      worker.paces.flops_s / worker.paces.spread / 1e9, worker.paces.updates_s / 1e9,
      counted(worker.threads, "thread"));
  return out;
}

nlohmann::ordered_json expected_json(const expected_step& e, const measured_worker& worker) {
  nlohmann::ordered_json out{{"step_s", short_number(e.step_s)},
                             {"least_s", short_number(e.least_s)},
                             {"most_s", short_number(e.most_s)},
                             {"tokens_per_s", short_number(e.tokens_s)},
                             {"run_s", short_number(e.run_s)},
                             {"idle_share", short_number(e.idle_share)},
                             {"measured",
                              {{"flops_s", short_number(worker.paces.flops_s)},
                               {"update_parameters_s", short_number(worker.paces.updates_s)},
                               {"spread", short_number(worker.paces.spread)},
                               {"threads", worker.threads}}}};
  out["stages"] = nlohmann::ordered_json::array();
  for (const auto& s : e.stages)
    out["stages"].push_back({{"forward_s", short_number(s.forward)},
                             {"backward_s", short_number(s.backward)},
                             {"update_s", short_number(s.update)}});
  return out;
}

}  // namespace troupe::apps
