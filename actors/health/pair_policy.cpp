// Neighbours, suspects, culprits.
#include "actors/health/pair_policy.hpp"

#include <algorithm>
#include <set>

namespace troupe::health {

double exchange_times::latency_us() const {
  if (small_ns_.empty()) return 0;
  auto all = small_ns_;
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return static_cast<double>(*middle) / 1e3;
}

double exchange_times::bytes_per_s() const {
  return large_ns_ > 0 ? 2e9 * static_cast<double>(large_bytes_) / static_cast<double>(large_ns_)
                       : 0;
}

std::optional<double> wanted_rate(std::span<const pair_seen> all, bool one_host) {
  constexpr size_t least_pairs = 3;
  constexpr double of_median = 0.25;
  std::vector<double> rates;
  for (const auto& p : all)
    if (p.answered && !p.busy && p.one_host == one_host) rates.push_back(p.bytes_per_s);
  if (rates.size() < least_pairs) return std::nullopt;
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2] * of_median;
}

fbs::CheckVerdict verdict_of(const pair_seen& p, std::optional<double> wanted) {
  if (!p.tried) return fbs::CheckVerdict::unknown;
  if (!p.answered || p.wrong > 0) return fbs::CheckVerdict::bad;
  if (p.bytes_per_s > 0 && p.bytes_per_s >= wanted.value_or(0)) return fbs::CheckVerdict::ok;
  return p.busy ? fbs::CheckVerdict::unknown : fbs::CheckVerdict::bad;
}

pair_policy::pair_policy(std::vector<std::string> nodes) : nodes_(std::move(nodes)) {}

std::vector<pair_policy::pair> pair_policy::first_round() const {
  std::vector<pair> out;
  for (size_t i = 0; i + 1 < nodes_.size(); i += 2) out.emplace_back(nodes_[i], nodes_[i + 1]);
  if (nodes_.size() % 2 == 1 && nodes_.size() > 1)
    out.emplace_back(nodes_[nodes_.size() - 2], nodes_.back());
  if (nodes_.size() == 3) out.emplace_back(nodes_.front(), nodes_.back());  // PAI-3
  return out;
}

void pair_policy::tell_first(const pair& p, bool passed) {
  first_.emplace_back(p, passed);
}

void pair_policy::tell_second(const pair& p, bool passed) {
  second_[p.first] = passed;
}

bool pair_policy::is_proven(const std::string& node) const {
  return std::any_of(first_.begin(), first_.end(), [&](const auto& t) {
    return t.second && (t.first.first == node || t.first.second == node);
  });
}

bool pair_policy::failed_with_two(const std::string& node) const {
  std::set<std::string> with;
  for (const auto& [p, passed] : first_)
    if (!passed && (p.first == node || p.second == node))
      with.insert(p.first == node ? p.second : p.first);
  return with.size() > 1 &&
         std::any_of(with.begin(), with.end(), [&](const auto& n) { return is_proven(n); });
}

std::optional<bool> pair_policy::second_of(const std::string& node) const {
  if (const auto it = second_.find(node); it != second_.end()) return it->second;
  if (!is_proven(node) && failed_with_two(node)) return false;
  return std::nullopt;
}

std::string pair_policy::proven_beside(const std::string& not_with, size_t turn) const {
  std::vector<std::string> proven;
  for (const auto& n : nodes_)
    if (n != not_with && is_proven(n)) proven.push_back(n);
  return proven.empty() ? std::string() : proven[turn % proven.size()];
}

std::vector<pair_policy::pair> pair_policy::second_round() const {
  std::vector<pair> out;
  std::set<std::string> asked;
  const auto add = [&](const std::string& suspect, const std::string& failed_with) {
    if (is_proven(suspect) || failed_with_two(suspect) || !asked.insert(suspect).second) return;
    const auto with = proven_beside(failed_with, out.size());  // PAI-2
    if (!with.empty()) out.emplace_back(suspect, with);
  };
  for (const auto& [p, passed] : first_) {
    if (passed) continue;
    add(p.first, p.second);
    add(p.second, p.first);
  }
  return out;
}

bool pair_policy::is_clear_about(const std::string& node) const {
  return is_proven(node) || second_of(node).has_value();
}

pair_policy::outcome pair_policy::conclude() const {
  outcome out;
  std::set<std::string> named;
  for (const auto& [p, passed] : first_) {
    if (passed) continue;
    bool somebody = false, all_well = true;
    for (const auto& node : {p.first, p.second}) {
      const auto again = second_of(node);
      all_well = all_well && again.value_or(is_proven(node));
      if (again.value_or(true)) continue;
      somebody = true;  // PAI-1
      if (named.insert(node).second) out.culprits.push_back(node);
    }
    if (somebody) continue;
    (all_well ? out.cut : out.unclear).push_back(p);
  }
  return out;
}

}  // namespace troupe::health
