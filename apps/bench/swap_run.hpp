// Training steps of one process whose state lives on a drive, each way in turn, and in memory.
//
// The ways, of one binary and one set of kernels:
//   inmem    all in memory: what swapping is held against where that fits
//   sync     nothing overlaps: whatever moves waits for what computes, and the other way round
//   phased   as ZeRO-Infinity: gradients to the drive and back, the optimizer behind backward
//            (swap_phased.hpp)
//   behind   ours, less updates under backward: gradients are kept in memory
//   ours     as `troupe up` does it with that memory and one copy on the drive
//   speculate  ours with a second copy: chunks are updated before the norm of all gradients is
//            known; only where they are clipped (clip_norm)
//   noahead  ours, less read-ahead: one slot for state, one frame for weights
//   turns    ours, less mixed I/O: the drive reads or writes
//   noverify ours, less sums of what is read
//   saving   ours, with a checkpoint by links each step
//   derived  ours, less files for weights: these are rounded from masters (bfloat16)
// and, of what layers keep of a forward pass (--sweep activations), ours where
//   recompute  they keep their input
//   half       and x + attention
//   keep       all
//   planned    the planner chooses (gpu/swap/activation_plan.hpp), by the rates before the rounds
//
// Invariants
//   SWB-1  All ways make the same steps in turn. Losses and the state's hash are equal in all of
//     them, or the benchmark fails.
//   SWB-2  A round in which the drive's rates before and after differ by more than
//     `steady_share` is not counted (swap_steady.hpp); how far they differed is told.
//   SWB-3  What the engines say that they have moved is, within `counted_share`, what the kernel
//     says that this process has; else the benchmark fails.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/spread.hpp"
#include "apps/bench/swap_counts.hpp"
#include "apps/bench/swap_steady.hpp"
#include "apps/bench/train_run.hpp"
#include "gpu/swap/activation_plan.hpp"
#include "gpu/swap/limit_model.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/model_config.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::swap_bench {

enum class way : uint8_t {
  inmem,
  sync,
  phased,
  behind,
  ours,
  speculate,
  noahead,
  turns,
  noverify,
  saving,
  derived,
  recompute,
  half,
  keep,
  spill,
  planned,
};
inline constexpr int ways = 16;
std::string_view to_string(way w);
/// Whether it is one of --sweep activations.
constexpr bool is_swept(way w) {
  return w >= way::recompute;
}

/// What is measured.
struct swap_plan {
  std::string model = "tiny";
  std::optional<model_config> of_job = {};  ///< in place of the model of that name
  std::string dtype = "bf16";
  std::string device = "host";  ///< gpu::open_device's name of it
  int64_t tokens = 128;  ///< of a step, one sequence
  int64_t layers = 0;    ///< 0: the model's
  double clip_norm = 0;
  bool recompute = true;
  uint64_t host_bytes = 0;  ///< of the stage; 0: the least that it can be trained with
  std::vector<way> ways = {way::inmem, way::sync, way::phased, way::behind, way::ours};
  int rounds = 5;
  int steps = 2;              ///< of each way in a round
  std::filesystem::path dir;  ///< where the files go, for the time
  const std::atomic<bool>* stop = nullptr;
  /// Of this machine, where a way asks for them.
  gpu::machine_rates rates = {};
};

/// One way's steps.
struct way_result {
  way of = way::ours;
  std::vector<double> seconds;  ///< of a step, by round that counts
  uint64_t memory_bytes = 0, disk_bytes = 0;
  uint64_t read_bytes = 0, written_bytes = 0;  ///< of a step
  moved_counts counted;                        ///< of all rounds, by the engine and the kernel
  uint64_t redone_steps = 0;                   ///< of all that were made, updated once more
  double limit_s = 0, expected_s = 0;          ///< 0: all is in memory
  double least_s = 0;                          ///< of any way with these bytes in memory
  double compute_s = 0, disk_s = 0;            ///< of a step, each alone
  double processors_s = 0;                     ///< for products, updates and sums
  gpu::bound_by part = gpu::bound_by::products;
  gpu::activation_split kept;  ///< layers
  std::string skipped;         ///< why it was not measured; empty: it was
  spread took() const { return spread_of(seconds); }
};

struct swap_measurement {
  swap_plan plan;
  uint64_t parameters = 0;
  gpu::machine_rates rates;
  std::vector<way_result> results;
  int discarded = 0;                      ///< rounds (SWB-2)
  std::vector<rates_apart> rounds_apart;  ///< by round
  std::string not_compared;  ///< why the kernel's counts were not (SWB-3); empty: they agree
  double loss = 0;
  uint64_t state_hash = 0;
};

/// Where a way's steps have come to.
struct end_state {
  way of = way::ours;
  double loss = 0;
  uint64_t hash = 0;
};

/// SWB-1.
inline constexpr error_kind<std::string_view, double, uint64_t, double, uint64_t> ways_differ{
    "ways_differ", errc::training,
    "{} came to loss {} and state {:016x}, others to {} and {:016x}"};

/// Errors: ways_differ, of the first that differs from the one before all.
status compare_ends(const std::vector<end_state>& ends);

/// Errors: io, no_memory; ways_differ (SWB-1), counts_differ (SWB-3); cancelled.
result<swap_measurement> measure_swap(const swap_plan& plan);

/// The result of a way that has rounds that count; null: there is none.
const way_result* find(const swap_measurement& m, way w);

std::string text(const swap_measurement& m);
nlohmann::ordered_json json(const swap_measurement& m);

}  // namespace troupe::apps::swap_bench
