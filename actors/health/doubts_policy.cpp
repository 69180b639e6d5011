// By rank and part: see doubts_policy.hpp.
#include "actors/health/doubts_policy.hpp"

namespace troupe::health {

void doubts_policy::hear(uint32_t epoch, int64_t rank, train::pipeline_op part, doubted_part what) {
  if (epoch < epoch_ || rank < 0 || rank >= ranks_ || part >= train::pipeline_op::count) return;
  if (epoch > epoch_) doubts_.clear();  // DBT-1
  epoch_ = epoch;
  doubts_[{rank, part}] = std::move(what);
}

void doubts_policy::gone(uint32_t epoch, int64_t rank, train::pipeline_op part) {
  if (epoch == epoch_) doubts_.erase({rank, part});
}

const doubted_part* doubts_policy::of(uint32_t epoch, int64_t rank, train::pipeline_op part,
                                      const std::string& node) const {
  const auto it = doubts_.find({rank, part});
  const bool is_there = epoch == epoch_ && it != doubts_.end() && it->second.node == node;
  return is_there ? &it->second : nullptr;
}

}  // namespace troupe::health
