// Whether layers whose activations were to go to a drive compute them again instead, by what the
// drive does in the steps of a rank (gpu/swap/replan_policy.hpp): its engine tells of operations,
// and asks before each step.
//
// Of one rank, or of all replicas of a job with one stage, whose layers were chosen by known rates
// (swap.rates): what a person has chosen stays. Replicas may share a drive, and would each answer
// what the others do. So each is told what all of them moved (rank_engine::share_moves), and they
// choose alike, each by itself, before the same step; were it not so, no bit would differ.
//
// Invariants
//   SPD-1  Reads that go on at the same time count once for the drive's time, and so do writes: of
//     several streams none is idle because another one is not.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/train/engine.hpp"
#include "gpu/swap/replan_policy.hpp"

namespace troupe::train {

/// For how long a drive read, wrote and did either. From any thread.
class drive_clock {
 public:
  void began(pipeline_op kind, double now_ms);
  void ended(pipeline_op kind, double now_ms, uint64_t bytes);
  /// Counts from now on; what is under way goes on.
  void restart(double now_ms);
  /// Since then.
  gpu::step_moves since(double now_ms) const;

 private:
  struct lane {
    int under_way = 0;
    double began_ms = 0, busy_ms = 0;
    double bytes = 0;

    void begin(double now_ms);
    void end(double now_ms);
    double seconds(double now_ms) const;
  };

  mutable std::mutex mutex_;
  lane read_, write_, either_;
  double started_ms_ = 0;
};

class spill_replan {
 public:
  /// Null where nothing of the kind is decided.
  static std::unique_ptr<spill_replan> make(const engine_options& options);

  drive_clock& clock() noexcept { return clock_; }

  /// Whether the drive reads and writes at once in the steps that follow.
  void mixes(bool at_once);
  /// A step was made, and took that of its drive, of replicas as step_moves has it of several
  /// ranks. What a person should know: that other layers spill from now on.
  std::optional<std::string> stepped(const gpu::step_moves& moved);

  /// Layers that spill and are before this one compute again; of the stage, from 0.
  int spills_from() const;
  /// How many of those that spill do; from any thread.
  int again() const;

 private:
  spill_replan(const engine_options& options, const gpu::machine_rates& rates);
  std::string text_of(const gpu::replan_policy::decision& d) const;

  const std::vector<int> spilling_;
  const gpu::machine_rates rates_;
  gpu::replan_policy policy_;
  drive_clock clock_;
  std::atomic<int> again_{0};
};

}  // namespace troupe::train
