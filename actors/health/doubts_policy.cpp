// By rank and part: see doubts_policy.hpp.
#include "actors/health/doubts_policy.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe::health {

void doubts_policy::hear(uint32_t epoch, int64_t rank, train::pipeline_op part, doubted_part what) {
  if (epoch < epoch_ || rank < 0 || rank >= ranks_ || part >= train::pipeline_op::count) return;
  if (epoch > epoch_) doubts_.clear();  // DBT-1
  epoch_ = epoch;
  const auto by = basis_of(what.by_probes, what.by_past);
  doubts_[{rank, part, by}] = std::move(what);
}

void doubts_policy::gone(uint32_t epoch, int64_t rank, train::pipeline_op part, bool by_probes,
                         bool by_past) {
  if (epoch == epoch_) doubts_.erase({rank, part, basis_of(by_probes, by_past)});
}

void doubts_policy::drop_beyond() {
  std::erase_if(doubts_, [](const auto& d) { return std::get<basis>(d.first) != basis::learned; });
}

bool doubts_policy::has_beyond(uint32_t epoch) const {
  return epoch == epoch_ && std::ranges::any_of(doubts_, [](const auto& d) {
           return std::get<basis>(d.first) != basis::learned;
         });
}

std::vector<doubts_policy::beyond_part> doubts_policy::beyond(
    uint32_t epoch, std::span<const std::string> nodes) const {
  std::vector<beyond_part> out;
  if (epoch != epoch_) return out;
  for (const auto& [of, is] : doubts_) {
    const auto rank = std::get<int64_t>(of);
    const bool is_there = rank < std::ssize(nodes) && nodes[static_cast<size_t>(rank)] == is.node;
    if (std::get<basis>(of) != basis::learned && is_there && !is.node.empty())
      out.push_back({rank, std::get<train::pipeline_op>(of), is});
  }
  return out;
}

const doubted_part* doubts_policy::of(uint32_t epoch, int64_t rank, train::pipeline_op part,
                                      const std::string& node) const {
  const auto it = doubts_.find({rank, part, basis::learned});
  const bool is_there = epoch == epoch_ && it != doubts_.end() && it->second.node == node;
  return is_there ? &it->second : nullptr;
}

}  // namespace troupe::health
