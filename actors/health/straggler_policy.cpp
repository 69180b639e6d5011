// Ranks against their peers, and steps without them.
#include "actors/health/straggler_policy.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::health {

namespace {

/// The median of all but the one at `without`, of values in ascending order.
float median_without(const std::vector<float>& sorted, size_t without) {
  const auto middle = (sorted.size() - 1) / 2;
  return sorted[middle + (without <= middle ? 1 : 0)];
}

/// The median of each one's others.
std::vector<float> medians_of_others(const float* first, size_t count) {
  std::vector<float> sorted(first, first + count), out(count);
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < count; ++i) {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), first[i]) - sorted.begin();
    out[i] = median_without(sorted, static_cast<size_t>(at));
  }
  return out;
}

}  // namespace

std::string_view to_string(slow_class c) noexcept {
  return c == slow_class::slow_host ? "slow_host" : "slow_device";
}

straggler_policy::straggler_policy(rank_grid grid, int64_t micro_batches, double limit)
    : grid_(grid),
      micro_batches_(static_cast<double>(std::max<int64_t>(micro_batches, 1))),
      limit_(limit) {}

/// SLW-4.
void straggler_policy::begin_epoch(const step_window& first) {
  epoch_ = first.epoch;
  tokens_ = first.tokens;
  best_ms_ = 0;
  windows_.clear();
}

straggler_policy::times straggler_policy::expected(const times& own) const {
  const auto peers = own.size() / static_cast<size_t>(grid_.pipeline);
  times out;
  if (peers > 1) {
    for (size_t first = 0; first < own.size(); first += peers) {
      const auto of_stage = medians_of_others(own.data() + first, peers);
      out.insert(out.end(), of_stage.begin(), of_stage.end());
    }
    return out;
  }
  if (own.size() < 2 || best_ms_ == 0) return own;
  times change;
  for (size_t r = 0; r < own.size(); ++r) change.push_back(best_[r] > 0 ? own[r] / best_[r] : 1);
  const auto of_others = medians_of_others(change.data(), change.size());
  for (size_t r = 0; r < own.size(); ++r)
    out.push_back(best_[r] > 0 ? best_[r] * of_others[r] : own[r]);
  return out;
}

double straggler_policy::model_ms(const times& own) const {
  const auto peers = own.size() / static_cast<size_t>(grid_.pipeline);
  double slowest = 0;
  for (size_t p = 0; p < peers; ++p) {
    double most = 0, sum = 0;
    for (size_t r = p; r < own.size(); r += peers) {
      most = std::max<double>(most, own[r]);
      sum += own[r];
    }
    slowest = std::max(slowest, most + (sum - most) / micro_batches_);
  }
  return slowest;
}

/// SLW-1, SLW-3.
std::vector<straggler> straggler_policy::groups(const times& own, const times& right,
                                                double least_ms,
                                                const std::vector<std::string>& nodes) const {
  std::map<std::string, std::vector<size_t>> slow, all;
  for (size_t r = 0; r < own.size(); ++r) {
    all[nodes[r]].push_back(r);
    if (own[r] - right[r] >= least_ms) slow[nodes[r]].push_back(r);
  }
  std::vector<straggler> out;
  const double right_ms = model_ms(right);
  const auto add = [&](straggler s, const std::vector<size_t>& ranks) {
    auto slowed = right;
    for (const auto r : ranks) slowed[r] = own[r];
    s.cost_ms = model_ms(slowed) - right_ms;
    if (s.cost_ms >= least_ms) out.push_back(std::move(s));
  };
  for (const auto& [node, ranks] : slow) {
    const bool whole = !node.empty() && all.size() > 1 && ranks.size() == all[node].size();
    const auto what = whole ? slow_class::slow_host : slow_class::slow_device;
    if (whole && ranks.size() > 1)
      add({node, -1, what}, ranks);
    else
      for (const auto r : ranks) add({node, static_cast<int>(r), what}, {r});
  }
  return out;
}

/// SLW-2.
void straggler_policy::count(std::vector<straggler>& slow, const std::vector<std::string>& nodes) {
  std::map<int, uint64_t> now;
  for (auto& s : slow) {
    s.windows = std::numeric_limits<uint64_t>::max();
    for (size_t r = 0; r < nodes.size(); ++r) {
      const auto rank = static_cast<int>(r);
      if (s.rank >= 0 ? rank != s.rank : nodes[r] != s.node) continue;
      const auto before = windows_.find(rank);
      now[rank] = 1 + (before == windows_.end() ? 0 : before->second);
      s.windows = std::min(s.windows, now[rank]);
    }
    s.for_long = s.windows % long_windows == 0;
  }
  windows_ = std::move(now);
  std::erase_if(slow, [](const straggler& s) { return s.windows < least_windows; });
}

straggler_policy::verdict straggler_policy::judge(const step_window& last,
                                                  const std::vector<std::string>& nodes) {
  verdict out{last.step_ms, last.step_ms, {}};
  const auto ranks = last.own_ms.size();
  if (limit_ <= 0 || nodes.size() != ranks || grid_.ranks() != std::ssize(last.own_ms)) return out;
  if (last.epoch != epoch_ || last.tokens != tokens_) begin_epoch(last);
  const auto& own = last.own_ms;
  auto right = expected(own);
  for (size_t r = 0; r < ranks; ++r)
    right[r] = std::min(right[r], own[r]);  // who is quick stays so
  out.slow = groups(own, right, limit_ * last.step_ms, nodes);
  count(out.slow, nodes);
  std::stable_sort(out.slow.begin(), out.slow.end(),
                   [](const auto& a, const auto& b) { return a.cost_ms > b.cost_ms; });
  if (out.slow.size() > most_told) out.slow.resize(most_told);
  auto without = own;
  for (size_t r = 0; r < ranks; ++r)
    for (const auto& s : out.slow)
      if (s.rank >= 0 ? static_cast<int>(r) == s.rank : nodes[r] == s.node) without[r] = right[r];
  out.without_ms = std::max(0.0, last.step_ms - (model_ms(own) - model_ms(without)));
  if (best_ms_ == 0 || last.step_ms < best_ms_) {
    best_ms_ = last.step_ms;
    best_ = own;
  }
  return out;
}

}  // namespace troupe::health
