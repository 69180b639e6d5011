// Runs beside each other, and windows against them: see own_past_policy.hpp.
#include "actors/predict/own_past_policy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <span>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/file.hpp"

namespace troupe::predict {

using train::pipeline_op;

namespace {

/// What a rank does by itself, on its processors or its device.
bool is_computed(pipeline_op part) {
  if (part >= pipeline_op::count) return false;
  const auto& facts = train::facts_of(part);
  return facts.resource == train::op_resource::device && facts.with == train::op_partner::none;
}

}  // namespace

uint64_t work_sum(const config::job& job, const model_config& model) {
  const auto number = [](auto x) { return static_cast<int64_t>(x); };
  std::vector<int64_t> all{number(model.family), model.hidden,         model.heads,
                           model.kv_heads,       model.head_width,     model.ffn,
                           model.vocab,          model.tied,           number(model.activation),
                           model.attention_bias, model.output_bias,    model.qk_norm,
                           model.mlp_bias,       model.sliding_window, number(model.block)};
  const auto& swap = job.swap;
  all.insert(all.end(),
             {job.data.reset_attention, job.train.stochastic_rounding,
              number(job.parallel.schedule), swap.host_bytes, swap.device_bytes, number(swap.clip),
              number(swap.weights), swap.keep_layers, swap.spill_layers, swap.half_layers});
  for (const auto& node : job.cluster.node)
    if (!node.spare) all.push_back(node.workers);
  const auto text = fmt::format("{}", fmt::join(all, " "));
  return uint64_t{std::max(uint32_t{1}, io::crc32c(std::as_bytes(std::span(text))))} << 2;
}

uint64_t work_sum_at(uint64_t of_job, const grid_rank& at) {
  return of_job + (at.first() ? 1 : 0) + (at.last() ? 2 : 0);
}

void own_past_policy::recall(pipeline_op part, uint64_t node, const std::vector<double>& features,
                             uint64_t run_number, double seconds, uint64_t windows) {
  if (!is_computed(part) || node == 0 || run_number == 0) return;
  if (!(seconds > 0) || windows == 0) return;
  const std::tuple of(part, node, features);
  if (runs_.size() == options_.pasts_kept && !runs_.contains(of)) return;  // OPP-3
  auto& runs = runs_[of];
  auto at = std::ranges::find(runs, run_number, &run::number);
  if (at == runs.end()) {
    if (runs.size() == options_.runs_kept) runs.erase(runs.begin());
    runs.push_back({run_number, 0, 0});
    at = std::prev(runs.end());
  }
  at->logarithms += static_cast<double>(windows) * std::log(seconds);
  at->windows += static_cast<double>(windows);
}

void own_past_policy::forget(uint64_t node) {
  std::erase_if(runs_, [node](const auto& of) { return std::get<1>(of.first) == node; });
}

std::optional<own_past> own_past_policy::past_of(pipeline_op part, uint64_t node,
                                                 const std::vector<double>& features) const {
  const auto found = runs_.find(std::tuple(part, node, features));
  if (found == runs_.end()) return std::nullopt;
  std::vector<double> logarithms;
  for (const auto& r : found->second)
    if (r.windows >= static_cast<double>(options_.least_windows))
      logarithms.push_back(r.logarithms / r.windows);
  if (logarithms.empty() || logarithms.size() < options_.least_runs) return std::nullopt;
  const auto n = static_cast<double>(logarithms.size());
  double mean = 0, squares = 0;
  for (const double x : logarithms) mean += x / n;
  for (const double x : logarithms) squares += (x - mean) * (x - mean);
  const double usual = options_.usual_deviation;
  const double deviation = std::sqrt((squares + options_.pseudo_runs * usual * usual) /
                                     std::max(1.0, n - 1 + options_.pseudo_runs));
  const auto [least, most] = std::ranges::minmax(logarithms);
  const double more = std::max(std::log1p(options_.least_more), options_.deviations * deviation);
  return own_past{std::exp(mean), std::exp(least), std::exp(most + more), logarithms.size()};
}

void own_past_policy::judge(const key& of, uint64_t node, const std::vector<double>& features,
                            double ms) {
  const auto past = past_of(of.second, node, features);
  if (!past || 1e3 * past->usual_s < options_.least_ms) return drop(of);
  auto& w = windows_[of];
  const bool is_beyond = ms > 1e3 * past->most_s;
  w.beyond = is_beyond ? w.beyond + 1 : 0;
  w.within = is_beyond ? 0 : w.within + 1;
  if (w.within >= options_.windows_back) end(of);
  const bool is_lasting = w.beyond >= options_.windows;
  if (!is_lasting || named_.contains(of)) return;
  if (named_of_[of.second] == options_.told_kept) return;
  named_.insert(of);
  ++named_of_[of.second];
  told_.push_back({of, node, ms, *past, false});
}

void own_past_policy::end(const key& of) {
  if (named_.erase(of) == 0) return;
  --named_of_[of.second];
  told_.push_back({of, 0, 0, {}, true});
}

void own_past_policy::drop(const key& of) {
  end(of);
  windows_.erase(of);
}

void own_past_policy::drop_rank(uint32_t rank) {
  while (true) {
    const auto at = windows_.lower_bound(key{rank, pipeline_op{}});
    if (at == windows_.end() || at->first.first != rank) return;
    drop(key(at->first));
  }
}

void own_past_policy::drop_all() {
  while (!windows_.empty()) drop(key(windows_.begin()->first));
}

}  // namespace troupe::predict
