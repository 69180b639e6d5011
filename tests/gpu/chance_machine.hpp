// Lanes of operations that go on as chance has it, for tests of orders.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <utility>

#include "gpu/swap/order_watch.hpp"

namespace troupe::gpu {

/// Lanes that each do one operation after the other, at a pace of their own; one is slow.
class chance_machine : public order_machine {
 public:
  explicit chance_machine(std::mt19937& random) : random_(random), slow_(random() % lanes) {}

  size_t enqueue(watched_op op) override {
    auto& queue = queues_[op.lane];
    ops_.push_back({std::move(op)});
    queue.push_back(ops_.size() - 1);
    return queue.back();
  }

  /// Something is left, and nothing may.
  bool stuck() const { return stuck_; }

  /// One begin or end of an operation that may; false: none may.
  bool move() {
    std::array<size_t, lanes> able{};
    size_t count = 0;
    bool left = false;
    for (size_t lane = 0; lane < lanes; ++lane) {
      if (queues_[lane].empty()) continue;
      left = true;
      if (may(ops_[queues_[lane].front()])) able[count++] = lane;
    }
    stuck_ = left && count == 0;
    if (count == 0) return false;
    auto drawn = random_() % count;
    if (able[drawn] == slow_ && random_() % 512 > 0) drawn = (drawn + 1) % count;
    step(able[drawn]);
    return true;
  }

 private:
  struct queued_op {
    watched_op op;
    bool begun = false, done = false;
  };

  /// Whether one that has begun may end.
  virtual bool may_end(const watched_op&) const { return true; }

  bool may(const queued_op& q) const {
    if (q.begun) return may_end(q.op);
    return std::all_of(q.op.behind.begin(), q.op.behind.end(),
                       [&](size_t before) { return ops_[before].done; });
  }
  void step(size_t lane) {
    auto& q = ops_[queues_[lane].front()];
    if (!std::exchange(q.begun, true)) {
      if (q.op.begin) q.op.begin();
      return;
    }
    if (q.op.end) q.op.end();
    q.done = true;
    queues_[lane].pop_front();
  }

  std::mt19937& random_;
  const size_t slow_;
  bool stuck_ = false;
  std::deque<queued_op> ops_;
  std::array<std::deque<size_t>, lanes> queues_;
};

}  // namespace troupe::gpu
