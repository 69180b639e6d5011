// The trainer of `troupe bench checkpoint`: state shaped as a Llama's, updated as a training step
// updates it, without the mathematics.
//
// An iteration is a pause on the compute stream (forward and backward: the device computes, the
// host's cores are free) and then an update of every saved byte, chunk by chunk in the optimizer's
// order, each after the chunk's readers (PS-5). What a byte is follows from step and place, so a
// restored state is checked byte by byte.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/store/store.hpp"
#include "io/base/model_config.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::ckpt_bench {

/// A Llama of about `bytes` of saved state (12 a parameter): as many layers as fit, the rest in
/// the vocabulary.
model_config state_shape(uint64_t bytes);

class synthetic_trainer {
 public:
  /// The state at step 0. `stop` ends pauses early. Errors: no_memory.
  static result<std::unique_ptr<synthetic_trainer>> make(const model_config& model,
                                                         const std::atomic<bool>& stop);

  gpu::parameter_store& store() noexcept { return *store_; }
  uint64_t step() const noexcept { return step_; }
  /// Saved bytes: master weights and both moments.
  uint64_t state_bytes() const noexcept { return state_bytes_; }
  /// The saved arrays in the optimizer's order.
  std::vector<std::span<const std::byte>> regions() const;

  /// Seconds of one update with nothing beside it; advances the step.
  result<double> time_update();
  /// Seconds that forward and backward take from now on.
  void set_pause(double seconds) noexcept { pause_s_ = seconds; }

  /// Each waits until the stream is done with it. Error cancelled where `stop` was set.
  status forward_backward();
  /// Seconds for which the stream waited for the readers of chunks.
  result<double> update();
  /// The end of the last update.
  gpu::event_ptr updated() const { return updated_; }

  /// The state was restored to that of `step`: bytes that are not as they were then.
  uint64_t restored_to(uint64_t step);

 private:
  explicit synthetic_trainer(const std::atomic<bool>& stop) : stop_(stop) {}
  void enqueue_chunk(int chunk, uint32_t change);

  const std::atomic<bool>& stop_;
  std::unique_ptr<gpu::device> device_;
  std::unique_ptr<gpu::parameter_store> store_;
  std::unique_ptr<gpu::stream> compute_;  ///< ends before what it works on
  gpu::event_ptr updated_;
  uint64_t step_ = 0;
  uint64_t state_bytes_ = 0;
  double pause_s_ = 0;
  int64_t gate_ns_ = 0, mark_ns_ = 0;  ///< the stream's, while it works
};

}  // namespace troupe::apps::ckpt_bench
