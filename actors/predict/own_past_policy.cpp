// Runs beside each other, and windows against them: see own_past_policy.hpp.
#include "actors/predict/own_past_policy.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

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

void own_past_policy::recall(pipeline_op part, uint64_t node, const std::vector<double>& features,
                             uint64_t run_number, double seconds, uint64_t windows) {
  if (!is_computed(part) || node == 0 || !(seconds > 0) || windows == 0) return;
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
  if (!is_lasting || named_.contains(of) || named_.size() == options_.told_kept) return;
  named_.insert(of);
  told_.push_back({of, node, ms, *past, false});
}

void own_past_policy::end(const key& of) {
  if (named_.erase(of) > 0) told_.push_back({of, 0, 0, {}, true});
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
