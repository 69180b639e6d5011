// Walks the schedules of all stages at once: what may come next is numbered next.
#include "actors/power/pipeline_dag.hpp"

#include <cassert>
#include <utility>

#include "actors/train/schedule_policy.hpp"

namespace troupe::power {

namespace {

/// The numbers that operations were given so far, -1: none yet.
class given_numbers {
 public:
  given_numbers(int stages, int micro_batches)
      : stages_(stages),
        micro_batches_(micro_batches),
        numbers_(static_cast<size_t>(stages) * static_cast<size_t>(micro_batches) * instructions,
                 -1) {}

  int& at(int stage, instruction which, int micro_batch) {
    const auto place = (static_cast<size_t>(stage) * static_cast<size_t>(micro_batches_) +
                        static_cast<size_t>(micro_batch)) *
                           instructions +
                       static_cast<size_t>(which);
    return numbers_[place];
  }

  /// The operation of a neighbour that this one waits for; none at the ends of the pipeline. The
  /// last stage's backward follows its own forward by the schedule.
  const int* awaited(int stage, instruction which, int micro_batch) {
    const int neighbour = which == instruction::forward ? stage - 1 : stage + 1;
    if (neighbour < 0 || neighbour == stages_) return nullptr;
    return &at(neighbour, which, micro_batch);
  }

 private:
  int stages_;
  int micro_batches_;
  std::vector<int> numbers_;
};

}  // namespace

pipeline_dag::pipeline_dag(int stages, int micro_batches)
    : stages_(stages), micro_batches_(micro_batches) {
  assert(stages >= 1 && micro_batches >= 1);
  std::vector<std::vector<train::scheduled_op>> orders;
  for (int s = 0; s < stages; ++s)
    orders.push_back(train::one_forward_one_backward(s, stages, micro_batches));
  given_numbers numbers(stages, micro_batches);
  std::vector<size_t> next(orders.size(), 0);
  std::vector<int> last(orders.size(), -1);
  const auto number_next_of = [&](size_t s) {
    const auto& op = orders[s][next[s]];
    const int stage = static_cast<int>(s);
    const auto which =
        op.kind == train::pipeline_op::forward ? instruction::forward : instruction::backward;
    const int* there = numbers.awaited(stage, which, op.micro_batch);
    if (there != nullptr && *there < 0) return false;
    const int number = static_cast<int>(nodes_.size());
    nodes_.push_back({stage, which, op.micro_batch, last[s], there == nullptr ? -1 : *there});
    if (last[s] >= 0) nodes_[static_cast<size_t>(last[s])].after_here = number;
    if (there != nullptr) nodes_[static_cast<size_t>(*there)].after_there = number;
    numbers.at(stage, which, op.micro_batch) = number;
    last[s] = number;
    ++next[s];
    return true;
  };
  // Downwards for forwards, upwards for backwards: a few rounds number all.
  for (bool moved = true; std::exchange(moved, false);) {
    for (size_t s = 0; s < orders.size(); ++s)
      while (next[s] < orders[s].size() && number_next_of(s)) moved = true;
    for (size_t s = orders.size(); s-- > 0;)
      while (next[s] < orders[s].size() && number_next_of(s)) moved = true;
  }
}

}  // namespace troupe::power
