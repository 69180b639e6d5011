// Lines to runs, and runs to a pace: see past_paces_policy.hpp.
#include "actors/predict/past_paces_policy.hpp"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "actors/predict/learning_policy.hpp"
#include "actors/predict/own_past_policy.hpp"
#include "gpu/swap/step_traffic.hpp"
#include "io/config/work_shape.hpp"

namespace troupe::predict {

namespace {

using config::work_feature;
using io::perf::part_time;
using io::perf::past_pace;

/// No past says more exactly than that how quick a node will be.
constexpr double least_half = 0.03;
/// Deviations that 19 of 20 are within.
constexpr double usual_range = 2;

constexpr auto shape_features = static_cast<size_t>(work_feature::count);
/// Behind the shape: whether it swaps, which steps have saves, and the part's work.
constexpr size_t swap_feature = shape_features, kept_features = shape_features + 3;
constexpr uint64_t sum_of_ends = 3, sum_of_head = 2;  // work_sum_at()

double feature_of(const part_time& t, work_feature f) {
  return t.features[static_cast<size_t>(f)];
}

/// Whose pace it is.
struct paced {
  std::string node;
  io::perf::machine_print machine;
  uint32_t threads = 0;
  bool on_gpus = false;
  auto operator<=>(const paced&) const = default;
};

/// What windows took, by their logarithms.
struct part_sum {
  double logarithms = 0, windows = 0;
};
struct both_parts {
  part_sum forward, backward;
};

struct run_of_node {
  uint64_t number = 0;
  std::map<std::tuple<std::vector<double>, uint64_t>, both_parts> works;  ///< features, sum
};

/// PPC-1.
class paced_work {
 public:
  paced_work(const config::job& job, const model_config& model)
      : shape_(config::work_shape_of(job)),
        sum_(work_sum(job, model)),
        swaps_(job.swap.dir.empty() ? 1 : 2) {}

  bool counts(const part_time& t) const {
    if (t.run == 0 || t.node.empty() || t.features.size() != kept_features) return false;
    if (!t.machine.is_known() || (t.work_sum & ~sum_of_ends) != sum_) return false;
    constexpr work_feature alike[] = {work_feature::hidden, work_feature::micro_batch,
                                      work_feature::seq_len, work_feature::number_bytes,
                                      work_feature::recompute};
    return t.features[swap_feature] == swaps_ && std::ranges::all_of(alike, [&](work_feature f) {
             return feature_of(t, f) == shape_[static_cast<size_t>(f)];
           });
  }

 private:
  std::vector<double> shape_;
  uint64_t sum_ = 0;
  double swaps_ = 1;
};

/// PPC-2: of a step, forward and backward.
double flops_of(const std::vector<double>& features, uint64_t sum, const config::job& job,
                const model_config& model) {
  const double layers = features[static_cast<size_t>(work_feature::layers)];
  const double passes = job.model.recompute ? 4 : 3;
  const double of_layers = layers * gpu::layer_flops(model, job.train.seq_len) * passes / 3;
  const double of_head = 6 * static_cast<double>(model.vocab * model.hidden);
  return features.back() * (of_layers + ((sum & sum_of_head) != 0 ? of_head : 0));
}

/// Of a run on a node, the logarithm of its pace; nothing: too little is known (PPC-3).
struct run_pace {
  double logarithm = 0, windows = 0;
};
std::optional<run_pace> pace_of_run(const run_of_node& run, const config::job& job,
                                    const model_config& model) {
  run_pace out;
  for (const auto& [of, parts] : run.works) {
    const double windows = std::min(parts.forward.windows, parts.backward.windows);
    if (!(windows > 0)) continue;
    const auto seconds = [](const part_sum& p) { return std::exp(p.logarithms / p.windows); };
    const double rate = flops_of(std::get<0>(of), std::get<1>(of), job, model) /
                        (seconds(parts.forward) + seconds(parts.backward));
    out.logarithm += windows * std::log(rate);
    out.windows += windows;
  }
  if (out.windows < static_cast<double>(own_past_options{}.least_windows)) return std::nullopt;
  out.logarithm /= out.windows;
  return out;
}

/// PPC-4.
std::optional<past_pace> pace_of_runs(const paced& who, const std::vector<run_of_node>& runs,
                                      const config::job& job, const model_config& model) {
  const own_past_options usual;
  std::vector<run_pace> all;
  for (const auto& run : runs)
    if (const auto pace = pace_of_run(run, job, model)) all.push_back(*pace);
  if (all.empty()) return std::nullopt;
  if (all.size() > usual.runs_kept)
    all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(usual.runs_kept));
  const auto n = static_cast<double>(all.size());
  double mean = 0, squares = 0, windows = 0;
  for (const auto& run : all) {
    mean += run.logarithm / n;
    windows += run.windows;
  }
  for (const auto& run : all) squares += (run.logarithm - mean) * (run.logarithm - mean);
  squares += usual.pseudo_runs * usual.usual_deviation * usual.usual_deviation;
  const double deviation = std::sqrt(squares / (n - 1 + usual.pseudo_runs));
  const auto steps = windows * static_cast<double>(learning_options{}.window);
  return past_pace{who.node,
                   who.machine,
                   who.threads,
                   who.on_gpus,
                   std::exp(mean),
                   std::max(least_half, usual_range * deviation / std::sqrt(n)),
                   static_cast<uint64_t>(steps),
                   static_cast<uint32_t>(all.size())};
}

}  // namespace

std::vector<past_pace> past_paces(std::span<const part_time> times, const config::job& job,
                                  const model_config& model) {
  const paced_work work(job, model);
  const auto forward = train::facts_of(train::pipeline_op::forward).name;
  const auto backward = train::facts_of(train::pipeline_op::backward).name;
  std::map<paced, std::pair<size_t, std::vector<run_of_node>>> nodes;  // with their newest line
  for (size_t i = 0; i < times.size(); ++i) {
    const auto& t = times[i];
    if ((t.part != forward && t.part != backward) || !work.counts(t)) continue;
    auto& [newest, runs] =
        nodes[{t.node, t.machine, static_cast<uint32_t>(feature_of(t, work_feature::threads)),
               feature_of(t, work_feature::device) > 1}];
    newest = i;
    auto run = std::ranges::find(runs, t.run, &run_of_node::number);
    if (run == runs.end()) run = runs.insert(runs.end(), {t.run, {}});
    auto& both = run->works[{t.features, t.work_sum}];
    auto& part = t.part == forward ? both.forward : both.backward;
    part.logarithms += static_cast<double>(t.samples) * std::log(t.seconds);
    part.windows += static_cast<double>(t.samples);
  }
  std::map<size_t, past_pace> by_age;
  for (const auto& [who, known] : nodes)
    if (auto pace = pace_of_runs(who, known.second, job, model))
      by_age.emplace(known.first, std::move(*pace));
  while (by_age.size() > io::perf::past_paces_kept) by_age.erase(by_age.begin());  // PPC-3
  std::vector<past_pace> out;
  for (auto& [age, pace] : by_age) out.push_back(std::move(pace));
  return out;
}

}  // namespace troupe::predict
