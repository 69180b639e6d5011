// Training steps of one process whose state lives on a drive, each way in turn, and in memory.
//
// The ways, of one binary and one set of kernels:
//   inmem    all in memory: what swapping is held against where that fits
//   sync     nothing overlaps: whatever moves waits for what computes, and the other way round
//   behind   gradients are kept in memory and chunks updated behind backward, as ZeRO-Infinity's
//            optimizer is a phase of its own (which writes gradients to the drive, too: here it has
//            less to move)
//   ours     as `troupe up` does it with that memory and one copy on the drive
//   speculate  ours with a second copy: chunks are updated before the norm of all gradients is
//            known; only where they are clipped (clip_norm)
//   noverify ours, what is read not summed
//
// Invariants
//   SWB-1  All ways make the same steps in turn. Losses and the state's hash are equal in all of
//     them, or the benchmark fails.
//   SWB-2  A round in which the drive's rates before and after differ by more than
//     `steady_share` is not counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/spread.hpp"
#include "apps/bench/train_run.hpp"
#include "gpu/swap/limit_model.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::swap_bench {

inline constexpr double steady_share = 0.15;

enum class way : uint8_t { inmem, sync, behind, ours, speculate, noverify };
inline constexpr int ways = 6;
std::string_view to_string(way w);

/// What is measured.
struct swap_plan {
  std::string model = "tiny";
  std::string dtype = "bf16";
  int64_t tokens = 128;  ///< of a step, one sequence
  int64_t layers = 0;    ///< 0: the model's
  double clip_norm = 0;
  bool recompute = true;
  uint64_t host_bytes = 0;  ///< of the stage; 0: the least that it can be trained with
  std::vector<way> ways = {way::inmem, way::sync,      way::behind,
                           way::ours,  way::speculate, way::noverify};
  int rounds = 5;
  int steps = 2;              ///< of each way in a round
  std::filesystem::path dir;  ///< where the files go, for the time
  const std::atomic<bool>* stop = nullptr;
};

/// One way's steps.
struct way_result {
  way of = way::ours;
  std::vector<double> seconds;  ///< of a step, by round that counts
  uint64_t memory_bytes = 0, disk_bytes = 0;
  uint64_t read_bytes = 0, written_bytes = 0;  ///< of a step
  uint64_t redone_steps = 0;                   ///< of all that were made, updated once more
  double limit_s = 0, expected_s = 0;          ///< 0: all is in memory
  gpu::bound_by part = gpu::bound_by::products;
  std::string skipped;  ///< why it was not measured; empty: it was
  spread took() const { return spread_of(seconds); }
};

struct swap_measurement {
  swap_plan plan;
  uint64_t parameters = 0;
  gpu::machine_rates rates;
  std::vector<way_result> results;
  int discarded = 0;  ///< rounds (SWB-2)
  double loss = 0;
  uint64_t state_hash = 0;
};

/// Errors: io, no_memory; training where two ways differ (SWB-1); cancelled.
result<swap_measurement> measure_swap(const swap_plan& plan);

std::string text(const swap_measurement& m);
nlohmann::ordered_json json(const swap_measurement& m);

}  // namespace troupe::apps::swap_bench
