// One way of `troupe bench swap` in training: its engine, its files, and what it has moved so far.
//
// All ways but one are a rank's engine (actors/train) with another residency or with other rules of
// what may overlap. `phased` is a step of its own, since no product code has such an order: it is
// made of the same model, swapper, optimizer and kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/train/engine.hpp"
#include "apps/bench/swap_run.hpp"
#include "gpu/store/store.hpp"
#include "gpu/swap/step_traffic.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::swap_bench {

/// How a rank of the plan is made, all but where its chunks live.
train::engine_options options_of(const swap_plan& plan);

/// Where the chunks of a way live. Errors: budget_too_small.
result<gpu::residency> residency_of(way w, const swap_plan& plan, const train::engine_options& o);

/// What a step of the way moves; of `phased` with its gradients. Equal to what trainer::moved()
/// counts of any step but the first.
gpu::step_traffic traffic_of(way w, const train::engine_options& o);

/// The same, and what it computes.
gpu::step_work work_of(way w, const train::engine_options& o);

/// Of the least that any way could move and compute with these bytes in memory, as `troupe plan`
/// has it: nothing twice, and no activations.
gpu::phase_work least_of(const train::engine_options& o);

/// How many layers keep what.
gpu::activation_split kept_by(const gpu::stage_shape& shape);

/// With so much memory `spill` would be another way.
inline constexpr error_kind<> nothing_spills{"nothing_spills", errc::bad_config,
                                             "nothing of it is on a drive: no layer spills"};

/// The batch of every step: tokens, then targets.
int32_t token_at(size_t i, int64_t vocab);

/// Of a drive's notes the one that says that bytes go through the page cache; empty: they do not.
std::string why_cached(const std::vector<std::string>& notes);

class trainer {
 public:
  /// What moved between memory and drive, bytes, of all steps so far.
  struct moved_bytes {
    uint64_t read = 0, written = 0;
  };

  /// Errors: budget_too_small, nothing_spills, no_memory, io.
  static result<std::unique_ptr<trainer>> make(way w, const swap_plan& plan);
  trainer(const trainer&) = delete;
  trainer& operator=(const trainer&) = delete;
  virtual ~trainer() = default;

  /// Seconds of a step, of some, with all that is still on its way behind the last.
  result<double> run(int steps);
  /// Of every master and moment.
  result<uint64_t> state_hash();
  /// Of the last step, a token's.
  double loss() const { return loss_; }
  const train::engine_options& options() const { return options_; }
  uint64_t parameters();
  uint64_t memory_bytes() const;
  uint64_t disk_bytes() const;
  virtual moved_bytes moved() const = 0;
  virtual uint64_t redone_steps() const { return 0; }
  /// Why the kernel's counts of this process are not those of its drive; empty: they are.
  virtual std::string cached() const = 0;

 protected:
  explicit trainer(train::engine_options options) : options_(std::move(options)) {}
  virtual status step() = 0;
  virtual gpu::parameter_store& store() = 0;
  /// Waits for what steps have left behind.
  virtual status settle();

  static constexpr float rate = 1e-4f;
  train::engine_options options_;
  int64_t steps_ = 0;
  double loss_ = 0;
};

}  // namespace troupe::apps::swap_bench
