// What a worker's streams do, in its stats and in the flight recorder: whom a transfer waits for,
// what the device computes, and a record of every operation under the message it was done for.
//
// Invariants
//   PRB-1  What the device computes is shown from its begin to its end: it is what other ranks wait
//     for. What moves bytes beside it, as a checkpoint's copies do, is shown while it computes
//     nothing.
#pragma once

#include <array>
#include <mutex>
#include <string>
#include <string_view>

#include "actors/base/actor_registry.hpp"
#include "actors/capture/recorder.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/typical_time.hpp"

namespace troupe::train {

/// Writes to the stats of one worker and to a recorder, which must outlive it.
class stats_probe : public engine_probe {
 public:
  stats_probe(actor_stats& stats, recorder& records, const grid_rank& at)
      : stats_(stats), records_(records), at_(at) {}

  uint64_t begin(const operation& op) override;
  void end(const operation& op, uint64_t token, double begin_ms, double end_ms) override;
  void waits(pipeline_op kind) override;
  void goes_on() override;

 private:
  std::vector<std::string> peers_of(const operation& op) const;
  void count(const operation& op, double took_ms);
  double median_ms(const operation& op);
  std::string is_at(std::string_view what);
  bool computes();

  static constexpr std::string_view nothing = "ready";

  actor_stats& stats_;
  recorder& records_;
  grid_rank at_;
  std::mutex mutex_;  ///< streams end their operations on threads of their own
  uint64_t finished_ = 0;
  std::string_view computes_ = nothing;  ///< what the compute stream is at
  std::array<typical_time, operations.size()> times_;
};

}  // namespace troupe::train
