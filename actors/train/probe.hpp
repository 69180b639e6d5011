// What a worker's streams do, in its stats and in the flight recorder: whom a transfer waits for,
// what the device computes, and a record of every operation under the message it was done for.
//
// Invariants
//   PRB-1  What the device computes is shown from its begin to its end: it is what other ranks wait
//     for. What moves bytes beside it, as a checkpoint's copies do, is shown while it computes
//     nothing.
//   PRB-2  What moves to and from a swap folder is shown in its swapper's stats, where there is
//     one, and a wait of the compute stream for a chunk is a wait for that swapper.
//   PRB-3  So is how much has moved so far, and how much is at it, as counters of the swapper: a
//     viewer of traces draws them beside the operations.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/base/actor_registry.hpp"
#include "actors/capture/recorder.hpp"
#include "actors/train/engine.hpp"
#include "actors/train/typical_time.hpp"

namespace troupe::train {

/// Writes to the stats of one worker and to a recorder, which must outlive it.
class stats_probe : public engine_probe {
 public:
  /// `swapper`: of the same rank; none where it has no swap folder.
  stats_probe(actor_stats& stats, recorder& records, const grid_rank& at,
              std::shared_ptr<actor_stats> swapper = {})
      : stats_(stats), records_(records), at_(at), swapper_(std::move(swapper)) {}

  uint64_t begin(const operation& op) override;
  void end(const operation& op, uint64_t token, double begin_ms, double end_ms) override;
  void waits(pipeline_op kind, int64_t chunk = -1, uint64_t under_way = 0) override;
  void goes_on() override;

 private:
  std::vector<std::string> peers_of(const operation& op) const;
  void count(const operation& op, double took_ms);
  double median_ms(const operation& op);
  std::string is_at(std::string_view what);
  bool computes();
  bool shown_by_swapper(pipeline_op kind) const;
  void swaps(const operation& op, bool begins);
  void count_swaps(const operation& op, bool begins);
  std::string_view swap_of(int64_t chunk, bool activations);

  static constexpr std::string_view nothing = "ready";

  actor_stats& stats_;
  recorder& records_;
  grid_rank at_;
  std::mutex mutex_;  ///< streams end their operations on threads of their own
  uint64_t finished_ = 0;
  std::string_view computes_ = nothing;  ///< what the compute stream is at
  const std::shared_ptr<actor_stats> swapper_;
  /// The chunks that move, by stream; -1: none does.
  std::array<int64_t, 6> moving_{-1, -1, -1, -1, -1, -1};
  std::array<int, 6> under_way_{};  ///< rows of a table are read beside its groups
  uint64_t read_bytes_ = 0, written_bytes_ = 0;
  uint64_t wait_ = 0;  ///< for the swapper, of its stream; 0: none
  std::array<typical_time, operations.size()> times_;
};

}  // namespace troupe::train
