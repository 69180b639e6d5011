// Keys to text, times to a line: see past_steps.hpp.
#include "apps/past_steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/report/text.hpp"
#include "apps/up/run_log.hpp"
#include "gpu/predict/online_policy.hpp"
#include "io/base/counted.hpp"
#include "io/config/properties.hpp"
#include "io/config/work_shape.hpp"
#include "io/file.hpp"
#include "trace/text.hpp"

namespace troupe::apps {

namespace perf = io::perf;

namespace {

/// Of a run: kernels are chosen, memory is touched.
constexpr size_t first_steps = 3;
/// Fewer say too little.
constexpr size_t least_steps = 8;
/// Of a step, that saves may hold it up for.
constexpr double held_up_share = 0.02;

/// Of the steps nine in ten are between these.
constexpr double low_quantile = 0.05, high_quantile = 0.95;

/// Times as much work, or as little; from other runs alone nothing is told.
constexpr double near_enough = 10;
/// No estimate by other work is surer.
constexpr double sure_of_others = 0.3;

bool is_held_up(const report::step_report& r) {
  return r.validation_loss || r.replicas != 0 || r.pace_percent < 100 || r.power_wait_ms > 0 ||
         r.checkpoint_wait_ms > held_up_share * r.step_ms || !(r.step_ms > 0);
}

std::filesystem::path past_file(const io::fact_store& store) {
  const auto here = store.here();
  return here.empty() ? here : here / "past-runs.jsonl";
}

/// The file is this machine's; how many nodes share it is the work's.
constexpr const char* this_kind = "this";

/// Short, and the same for the same work.
std::string work_key(const config::job& job) {
  const auto text = work_of(job);
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  const auto& m = job.model;
  return fmt::format("{} layers of {}, {} x {} tokens, {} x {} ranks, {:08x}{:08x}", m.layers,
                     m.hidden, job.train.batch, job.train.seq_len, job.parallel.data,
                     job.parallel.pipeline, io::crc32c(bytes), io::crc32c(bytes, 1));
}

double quantile(const std::vector<float>& sorted, double q) {
  return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

/// For the model: a step's FLOP, at a rate that only the model's factor is about, and its shape.
gpu::predict::step_configuration configuration_of(const std::vector<double>& shape, double flops) {
  constexpr double some_rate = 1e12;
  auto features = shape;
  features.push_back(flops);
  return {std::move(features), flops / some_rate};
}

/// By what all runs on this machine took, whatever their work was.
std::optional<perf::past_estimate> estimate_by_others(std::span<const perf::past_run> runs,
                                                      const std::vector<double>& shape,
                                                      double flops) {
  gpu::predict::online_policy model(std::vector(shape.size() + 1, perf::feature_kind::log_number));
  perf::past_estimate out;
  out.basis = perf::past_basis::other_work;
  bool any_near = false;
  for (const auto& r : runs) {
    if (r.machine != this_kind || r.shape.size() != shape.size()) continue;
    // What is beyond all that a step may take is left out.
    if (!model.hear(configuration_of(r.shape, r.flops), 0, r.median_s)) continue;
    any_near = any_near || std::abs(std::log(r.flops / flops)) <= std::log(near_enough);
    ++out.runs;
    out.steps += r.steps;
  }
  if (!any_near) return std::nullopt;
  model.fit();
  const auto said = model.ask(configuration_of(shape, flops), 0);
  if (!said || !*said) return std::nullopt;
  out.step_s = (*said)->seconds;
  out.least_s = std::min((*said)->least_s, out.step_s * std::exp(-sure_of_others));
  out.most_s = std::max((*said)->most_s, out.step_s * std::exp(sure_of_others));
  return out;
}

std::string time_text(double seconds) {
  return trace::duration_text(std::llround(1e9 * seconds));
}

}  // namespace

/// All that decides how long a step takes.
std::string work_of(const config::job& job) {
  constexpr std::array keys{
      "model.family",      "model.path",           "model.layers",      "model.hidden",
      "model.heads",       "model.kv_heads",       "model.ffn",         "model.vocab",
      "model.dtype",       "model.parallel_block", "model.recompute",   "train.batch",
      "train.micro_batch", "train.seq_len",        "train.optimizer",   "parallel.data",
      "parallel.pipeline", "parallel.layers",      "parallel.schedule", "cluster.threads",
      "cluster.device",    "cluster.launch",       "power.budget_w",    "power.control",
      "swap.dir",          "swap.host_bytes",      "swap.clip",         "swap.keep_layers",
      "swap.half_layers",  "swap.spill_layers",    "swap.verify"};
  std::string out;
  for (const auto* key : keys) out += fmt::format("{}={}\n", key, config::value_text(key, job));
  return out;
}

void step_times::hear(const report::step_report& step, double flops) {
  if (++heard_ <= first_steps || is_held_up(step) || ms_.size() == kept_steps) return;
  ms_.push_back(static_cast<float>(step.step_ms));
  flops_ = flops;
}

std::optional<perf::past_run> step_times::run_of(
    const config::job& job, const std::optional<report::expected_ms>& expected) const {
  if (ms_.size() < least_steps || job.cluster.launch != config::launch_mode::local)
    return std::nullopt;
  auto sorted = ms_;
  std::sort(sorted.begin(), sorted.end());
  perf::past_run out;
  out.unix_s = unix_now();
  out.job = job.job.name;
  out.machine = this_kind;
  out.work = work_key(job);
  out.flops = flops_;
  out.expected_s = expected ? expected->step / 1e3 : 0;
  out.steps = sorted.size();
  out.median_s = quantile(sorted, 0.5) / 1e3;
  out.low_s = quantile(sorted, low_quantile) / 1e3;
  out.high_s = quantile(sorted, high_quantile) / 1e3;
  out.shape = config::work_shape_of(job);
  return out;
}

std::optional<past_expectation> expect_by_past(const config::job& job, double flops,
                                               const io::fact_store& store) {
  const auto file = past_file(store);
  if (file.empty() || job.cluster.launch != config::launch_mode::local) return std::nullopt;
  const auto past = perf::read_past_runs(file);
  if (!past) return std::nullopt;
  auto step = perf::estimate_step(past->runs, this_kind, work_key(job));
  if (!step && flops > 0) step = estimate_by_others(past->runs, config::work_shape_of(job), flops);
  if (!step) return std::nullopt;
  return past_expectation{*step, perf::ledger_of(past->runs, this_kind)};
}

std::string past_text(const past_expectation& e) {
  const auto& s = e.step;
  const bool same = s.basis == perf::past_basis::same_work;
  auto out = fmt::format("{} a step ({} to {}), by {} steps of {} of {} here", time_text(s.step_s),
                         time_text(s.least_s), time_text(s.most_s),
                         report::grouped(static_cast<int64_t>(s.steps)), counted(s.runs, "run"),
                         same ? "this work" : "other work");
  if (e.ledger.runs > 0)
    out += fmt::format("; expectations were off by {:.0f} % (median of {}), {:.0f} % at most",
                       100 * e.ledger.median_off, e.ledger.runs, 100 * e.ledger.most_off);
  return out;
}

nlohmann::ordered_json past_json(const past_expectation& e) {
  return {
      {"step_s", e.step.step_s},       {"least_s", e.step.least_s},
      {"most_s", e.step.most_s},       {"same_work", e.step.basis == perf::past_basis::same_work},
      {"runs", e.step.runs},           {"steps", e.step.steps},
      {"expectations", e.ledger.runs}, {"median_off", e.ledger.median_off},
      {"most_off", e.ledger.most_off}};
}

report::expected_ms as_expected_ms(const past_expectation& e) {
  return {1e3 * e.step.step_s, 1e3 * e.step.least_s, 1e3 * e.step.most_s};
}

status remember_run(const perf::past_run& run, const io::fact_store& store) {
  const auto file = past_file(store);
  return file.empty() ? status{} : perf::add_past_run(file, run);
}

}  // namespace troupe::apps
