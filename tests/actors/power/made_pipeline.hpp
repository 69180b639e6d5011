// Replicas of a pipeline that take and draw what a known profile says, at the clocks that they are
// told, for tests of what measures that. Their meters are read as each step ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "actors/power/live_profile_policy.hpp"

namespace troupe::power::test {

struct made_pipeline {
  clock_profile truth;
  std::vector<double> slowness{1};  ///< of each replica
  double blocking_w = 84;
  int micro_batches = 8;
  size_t ranks_a_machine = 1, first_machine = 0;
  double update_s = 0.01;
  // What comes of it.
  int64_t now_ns = 5'000'000'000;
  int64_t step_ns = 0;
  std::vector<rank_sample> ranks = {};
  std::vector<double> joules = {};  ///< of each machine

  size_t stages() const { return truth.stages.size(); }
  const clock_row& row(size_t stage, instruction which, int mhz) const {
    const auto& rows = truth.rows(static_cast<int>(stage), which);
    return *std::ranges::find(rows, mhz, &clock_row::frequency_mhz);
  }
  /// A step of all at these clocks, by stage and replica; `longer`: what operations take of it.
  void make(const std::function<int(size_t, size_t)>& clock_of, double longer = 1) {
    ranks.clear();
    double longest_s = 0;
    std::vector<double> watts;
    for (size_t d = 0; d < slowness.size(); ++d)
      for (size_t s = 0; s < stages(); ++s) {
        const auto& forward = row(s, instruction::forward, clock_of(s, d));
        const auto& backward = row(s, instruction::backward, clock_of(s, d));
        const double times = slowness[d] * longer;
        rank_sample one{s,
                        d,
                        first_machine + ranks.size() / ranks_a_machine,
                        forward.time_s * times,
                        backward.time_s * times,
                        0};
        const double each_s = one.forward_s + one.backward_s;
        one.busy_s = micro_batches * each_s + update_s;
        longest_s = std::max(longest_s, (micro_batches + static_cast<double>(stages())) * each_s);
        watts.push_back(forward.energy_j / forward.time_s);
        ranks.push_back(one);
      }
    step_ns = static_cast<int64_t>((longest_s + update_s) * 1e9);
    const double step_s = static_cast<double>(step_ns) / 1e9;
    joules.resize(first_machine + 1 + (ranks.size() - 1) / ranks_a_machine);
    for (size_t r = 0; r < ranks.size(); ++r)
      joules[*ranks[r].machine] +=
          watts[r] * ranks[r].busy_s + blocking_w * (step_s - ranks[r].busy_s);
    now_ns += step_ns;
  }
  /// What a profile of these clocks alone would be.
  clock_profile only(const std::vector<int>& clocks) const {
    auto out = truth;
    for (auto& stage : out.stages)
      for (auto& rows : stage)
        std::erase_if(rows, [&](const clock_row& r) {
          return std::ranges::find(clocks, r.frequency_mhz) == clocks.end();
        });
    return out;
  }
  std::vector<int> clocks() const {
    std::vector<int> out;
    for (const auto& r : truth.rows(0, instruction::forward)) out.push_back(r.frequency_mhz);
    return out;
  }
};

}  // namespace troupe::power::test
