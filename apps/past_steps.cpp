// Keys to text, times to a line: see past_steps.hpp.
#include "apps/past_steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include <xxhash.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/job/plan.hpp"
#include "actors/power/job_profile.hpp"
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

/// Times as much work, or as little, and times as many threads; from other runs alone nothing is
/// told.
constexpr double near_enough = 10, like_threads = 2;
/// No estimate by other work is surer.
constexpr double sure_of_others = 0.3;

bool is_held_up(const report::step_report& r) {
  return r.validation_loss || r.replicas != 0 || r.pace_percent < 100 || r.power_wait_ms > 0 ||
         r.checkpoint_wait_ms > held_up_share * r.step_ms || !(r.step_ms > 0) ||
         r.slack == power::profiling_state;
}

/// Short, and the same for the same work: `sum` tells apart what the words do not.
std::string key_of_work(const config::job& job, std::string_view sum) {
  const auto& m = job.model;
  return fmt::format("{} layers of {}, {} x {} tokens, {} x {} ranks, {}", m.layers, m.hidden,
                     job.train.batch, job.train.seq_len, job.parallel.data, job.parallel.pipeline,
                     sum);
}

std::string work_key(const config::job& job) {
  const auto text = work_of(job);
  return key_of_work(job, fmt::format("x{:016x}", XXH64(text.data(), text.size(), 0)));
}

/// As releases had it whose sum was two CRC32C, the second of which tells no more than the first.
std::string work_key_before(const config::job& job) {
  const auto text = work_of(job);
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return key_of_work(job, fmt::format("{:08x}{:08x}", io::crc32c(bytes), io::crc32c(bytes, 1)));
}

/// What earlier releases kept of this work counts for it.
void rename_work(std::vector<perf::past_run>& runs, const config::job& job) {
  const auto before = work_key_before(job), now = work_key(job);
  for (auto& r : runs)
    if (r.work == before) r.work = now;
}

double quantile(const std::vector<float>& sorted, double q) {
  return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

/// Where a shape has what other work must have the like of.
constexpr auto threads_at = static_cast<size_t>(config::work_feature::threads);
constexpr auto dtype_at = static_cast<size_t>(config::work_feature::number_bytes);
constexpr auto device_at = static_cast<size_t>(config::work_feature::device);

/// What the time of a job's step depends on beside its FLOP, by what a key means on the machines,
/// not by how it is said. None where the time hangs on a drive or a power budget, too: no number
/// here tells how much.
std::vector<double> shape_on(const run_machines& machines, const config::job& job) {
  if (!job.swap.dir.empty() || job.power.is_budgeted()) return {};
  auto out = config::work_shape_of(job);
  out[threads_at] = std::max(1.0, machines.threads);
  out[device_at] = machines.on_gpus ? 2.0 : 1.0;
  return out;
}

/// This one alone where it is, else those that are told.
std::optional<run_machines> machines_for(const config::job& job,
                                         const std::optional<run_machines>& elsewhere) {
  return elsewhere ? elsewhere : machines_here(job);
}

bool within_times(double a, double b, double times) {
  return std::abs(std::log(a / b)) <= std::log(times);
}

/// Whether a run is near enough to such work to tell of it. A model only knows what differed among
/// its runs: what they all had in common, it takes everything to have.
bool is_near(const perf::past_run& run, const std::vector<double>& shape, double flops) {
  return within_times(run.flops, flops, near_enough) && run.shape[dtype_at] == shape[dtype_at] &&
         within_times(run.shape[threads_at], shape[threads_at], like_threads);
}

/// To 6 digits: a run's are of its times, and differ in the last bits.
double rounded_flops(double flops) {
  const double unit = std::pow(10, std::floor(std::log10(flops)) - 5);
  return std::round(flops / unit) * unit;
}

/// For the model: a step's FLOP, at a rate that only the model's factor is about, and its shape.
gpu::predict::step_configuration configuration_of(const std::vector<double>& shape, double flops) {
  constexpr double some_rate = 1e12;
  const double rounded = rounded_flops(flops);
  auto features = shape;
  features.push_back(rounded);
  return {std::move(features), rounded / some_rate};
}

struct run_to_learn {
  const perf::past_run* run = nullptr;
  gpu::predict::step_configuration is = {};
};

/// Of the device's runs those of the newest configurations, as many as a model keeps; the oldest
/// first.
std::vector<run_to_learn> runs_to_learn(std::span<const perf::past_run> runs,
                                        const std::vector<double>& shape,
                                        std::string_view machines) {
  std::vector<run_to_learn> out;
  std::set<std::vector<double>> seen;
  for (size_t i = runs.size(); i-- > 0;) {
    const auto& r = runs[i];
    if (r.machine != machines || r.shape.size() != shape.size()) continue;
    if (r.shape[device_at] != shape[device_at]) continue;
    auto is = configuration_of(r.shape, r.flops);
    if (seen.size() == gpu::predict::kept_configurations && !seen.contains(is.features)) continue;
    seen.insert(is.features);
    out.push_back({&r, std::move(is)});
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::string time_text(double seconds) {
  return trace::duration_text(std::llround(1e9 * seconds));
}

}  // namespace

std::filesystem::path past_runs_file(const io::fact_store& store) {
  const auto here = store.here();
  return here.empty() ? here : here / "past-runs.jsonl";
}

std::optional<perf::past_estimate> estimate_by_other_work(std::span<const perf::past_run> runs,
                                                          const std::vector<double>& shape,
                                                          double flops, std::string_view machines) {
  if (shape.empty()) return std::nullopt;
  gpu::predict::online_policy model(std::vector(shape.size() + 1, perf::feature_kind::log_number));
  perf::past_estimate out;
  out.basis = perf::past_basis::other_work;
  bool any_near = false;
  for (const auto& [run, is] : runs_to_learn(runs, shape, machines)) {
    // What is beyond all that a step may take is left out.
    if (!model.hear(is, 0, run->median_s)) continue;
    any_near = any_near || is_near(*run, shape, flops);
    ++out.runs;
    out.steps += run->steps;
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

/// All that decides how long a step takes. Layers that nodes are still to measure have no numbers
/// yet: they are a layout of their own, and not the planned one.
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
  if (job.swap.device_bytes > 0)
    out += fmt::format("swap.device_bytes={}\n", job.swap.device_bytes);
  if (job.swap.weights != config::weights_choice::automatic)
    out += fmt::format("swap.weights={}\n", config::value_text("swap.weights", job));
  if (train::is_split_open(job)) out += "parallel.layers=measured\n";
  return out;
}

void step_times::hear(const report::step_report& step, double flops) {
  if (++heard_ <= first_steps || is_held_up(step) || ms_.size() == kept_steps) return;
  ms_.push_back(static_cast<float>(step.step_ms));
  flops_ = flops;
}

std::optional<perf::past_run> step_times::run_of(
    const config::job& job, const std::optional<report::expected_ms>& expected,
    const std::optional<run_machines>& elsewhere) const {
  if (ms_.size() < least_steps) return std::nullopt;
  const auto machines = machines_for(job, elsewhere);
  if (!machines) return std::nullopt;
  auto sorted = ms_;
  std::sort(sorted.begin(), sorted.end());
  perf::past_run out;
  out.unix_s = unix_now();
  out.job = job.job.name;
  out.machine = machines->name;
  out.work = work_key(job);
  out.flops = flops_;
  // By probes alone it is off by more than what anybody learned is: no line of the ledger.
  out.expected_s = expected && !expected->by_probes ? expected->step / 1e3 : 0;
  out.steps = sorted.size();
  out.median_s = quantile(sorted, 0.5) / 1e3;
  out.low_s = quantile(sorted, low_quantile) / 1e3;
  out.high_s = quantile(sorted, high_quantile) / 1e3;
  out.shape = shape_on(*machines, job);
  return out;
}

std::optional<past_expectation> expect_by_past(const config::job& job, double flops,
                                               const io::fact_store& store,
                                               const std::optional<run_machines>& elsewhere) {
  const auto file = past_runs_file(store);
  const auto machines = machines_for(job, elsewhere);
  if (file.empty() || !machines) return std::nullopt;
  auto past = perf::read_past_runs(file);
  if (!past) return std::nullopt;
  rename_work(past->runs, job);
  auto step = perf::estimate_step(past->runs, machines->name, work_key(job));
  if (!step && flops > 0)
    step = estimate_by_other_work(past->runs, shape_on(*machines, job), flops, machines->name);
  if (!step) return std::nullopt;
  return past_expectation{*step, perf::ledger_of(past->runs, machines->name),
                          elsewhere.has_value()};
}

std::string past_text(const past_expectation& e) {
  const auto& s = e.step;
  const bool same = s.basis == perf::past_basis::same_work;
  auto out = fmt::format(
      "{} a step ({} to {}), by {} steps of {} of {} {}", time_text(s.step_s), time_text(s.least_s),
      time_text(s.most_s), grouped(static_cast<int64_t>(s.steps)), counted(s.runs, "run"),
      same ? "this work" : "other work", e.elsewhere ? "on these machines" : "here");
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
  return {1e3 * e.step.step_s, 1e3 * e.step.least_s, 1e3 * e.step.most_s, false};
}

status remember_run(const perf::past_run& run, const io::fact_store& store) {
  const auto file = past_runs_file(store);
  return file.empty() ? status{} : perf::add_past_run(file, run);
}

}  // namespace troupe::apps
