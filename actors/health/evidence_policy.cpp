// Keeping what has gone for a while.
#include "actors/health/evidence_policy.hpp"

#include <utility>

namespace troupe::health {

void evidence_policy::cleared(const std::vector<finding>& gone, int64_t now_ns) {
  for (const auto& f : gone) gone_.push_front({f, now_ns});
  while (!gone_.empty() && (gone_.size() > findings_policy::most_findings ||  // EVI-2
                            now_ns - gone_.back().gone_ns > memory_ns_))
    gone_.pop_back();
}

void evidence_policy::named(named_graph graph, int64_t now_ns) {
  graph_ = std::move(graph);
  true_ns_ = now_ns;
}

void evidence_policy::still_stuck(int64_t now_ns) {
  if (graph(now_ns) != nullptr) true_ns_ = now_ns;
}

std::vector<evidence_policy::gone_finding> evidence_policy::lately(int64_t now_ns) const {
  std::vector<gone_finding> out;
  for (const auto& f : gone_)
    if (now_ns - f.gone_ns <= memory_ns_) out.push_back(f);
  return out;
}

const named_graph* evidence_policy::graph(int64_t now_ns) const {
  return true_ns_ >= 0 && now_ns - true_ns_ <= memory_ns_ ? &graph_ : nullptr;
}

}  // namespace troupe::health
