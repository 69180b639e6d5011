// A ceiling that is sampled beside whoever shows shares of it.
//
// Why: a sample takes some 10 ms of each thread's processor time, and several times that where
// nodes compute on all cores. A reporter that samples itself tells of steps late, and a head that
// is killed meanwhile has told nobody of them.
//
// Invariants
//   CEIL-3  Neither ask() nor flops() waits for a sample.
//   CEIL-4  One sample at a time: what is asked for meanwhile is left out.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "apps/ceiling.hpp"

namespace troupe::apps {

class ceiling_watch {
 public:
  /// Takes a sample; answers the ceiling behind it.
  using sampler = std::function<double()>;

  explicit ceiling_watch(const std::shared_ptr<ceiling>& of);
  ceiling_watch(double flops, sampler take);
  /// Waits for the sample under way.
  ~ceiling_watch() = default;
  ceiling_watch(const ceiling_watch&) = delete;
  ceiling_watch& operator=(const ceiling_watch&) = delete;

  /// Floating-point operations a second, as of the last sample that ended.
  double flops() const noexcept { return flops_.load(); }
  /// Asks for one more sample, on a thread of its own; without one there is none.
  void ask();

 private:
  std::atomic<double> flops_;
  std::atomic<bool> busy_ = false;
  sampler take_;
  std::jthread thread_;  ///< last: it uses all of the above
};

}  // namespace troupe::apps
