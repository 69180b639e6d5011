// The engine of a rank that makes drills ([[inject]]): a real one, and what befalls it.
//
// Why an engine of its own: one without drills is made of the other class, and has nothing of this
// in its way. What it does is as real as it can be made from within:
//   slow       each operation of the compute stream is followed, on that stream, by a wait of
//              (factor - 1) times the processor time that it took there
//   hang       the first operation of the step does not end: its stream's thread waits for ever
//   wrong_bit  the lowest bit of a weight turns right before the next comparison of replicas. In
//              between it could not stay: weights are overwritten by what replicas gather
//   wrong_product  the lowest bit of what the next rechecked layer comes to turns before it is
//              hashed
//   fail       the process is killed by SIGKILL, from within
//   disk_slow  the disk of the saver answers later (slow_disk.hpp) until the next save is over
//   drop       the process falls silent at its gate (basp_gate.hpp), for good
//
// Invariants
//   DRE-1  It acts in the first operation of a training step in which a drill falls due.
//   DRE-2  What is computed and saved is what the engine without drills computes and saves; a wrong
//     bit is in the weights or the product that are compared, and in nothing else before that.
//   DRE-3  A wait ends when the engine is aborted; a hang does not.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "actors/train/drill_policy.hpp"
#include "actors/train/rank_engine.hpp"

namespace troupe::train {

/// What of a drill befalls more than the rank.
struct drill_edges {
  std::function<void()> end_process;
  std::function<void()> fall_silent;
  /// Blocks, on the stream's thread, for ever.
  std::function<void()> hang;
};

/// Of this process. `fall_silent` is the network's.
drill_edges process_edges(std::function<void()> fall_silent);

class drilled_engine final : public rank_engine {
 public:
  /// Errors: as of rank_engine.
  static result<std::unique_ptr<rank_engine>> make(const engine_options& options,
                                                   drill_edges edges);
  ~drilled_engine() override;

  void run(const op_order& order, completion done) override;
  void digest_weights() override;
  void save(uint64_t step, const std::filesystem::path& partial, bool last,
            gpu::state_saver::completion done) override;
  void copy(uint64_t step, const std::filesystem::path& partial,
            gpu::state_saver::completion done) override;
  void abort() noexcept override;

 protected:
  void enqueue(gpu::stream& s, pipeline_op kind, const std::function<void()>& work) override;
  gpu::saver_options saver_options() override;
  layer_recheck::spoiler recheck_spoiler() override;

 private:
  struct waits;
  drilled_engine(const engine_options& options, drill_edges edges);
  void begin_step(uint64_t step);
  void turn_a_bit(gpu::stream& s, void* of);
  gpu::state_saver::completion slowed(gpu::state_saver::completion done);

  drill_policy policy_;
  drill_edges edges_;
  uint64_t step_ = 0;
  double slow_factor_ = 1;  ///< of this step
  bool hangs_ = false;      ///< the next operation
  bool turns_ = false;      ///< a bit, at the next comparison
  bool spoils_ = false;     ///< the next recheck
  bool has_turned_ = false;
  double next_save_factor_ = 1;  ///< of its writes
  struct slow_saves {
    std::atomic<double> factor{1};  ///< of writes, while one is under way
    std::atomic<int> open{0};
  };
  std::shared_ptr<slow_saves> slow_saves_ = std::make_shared<slow_saves>();  ///< the disk's, too
  std::shared_ptr<waits> waits_;  ///< the compute stream's, too
  uint32_t turned_ = 0;           ///< a weight or a number, on its way
  std::shared_ptr<void> turned_pinned_;
};

}  // namespace troupe::train
