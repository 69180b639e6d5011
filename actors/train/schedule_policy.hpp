// The pipeline schedule of one stage for one step: which forward or backward comes next, and when
// its inputs allow it. 1F1B (Narayanan et al., SC'21; MegaScale §3.2): warm-up forwards, then
// pairs of one forward and one backward, then the remaining backwards. By layer (GreedySnake,
// arXiv 2512.17570; one stage only): one forward of all micro-batches, in which each layer is done
// for all of them before the next one, and one backward alike: a layer's weights are used twice in
// a step, however many micro-batches it has, and its gradient is whole after one visit.
//
// A pure class: it is told what happened and says what to enqueue. It knows no clock, no actor,
// no memory.
//
// Invariants
//   SCH-1  Operations are issued in the order of the schedule, each exactly once.
//   SCH-2  A forward is issued only after its activation was announced by the previous stage
//     (first stage: at once); a backward only after its gradient was announced by the next stage
//     (last stage: after its own forward).
//   SCH-3  At most min(stages - stage, micro_batches) micro-batches are in flight between their
//     forward and their backward: the number of activation slots a stage needs. By layer it is all.
//   SCH-4  A micro-batch uses slot m mod slots; a receive into a slot is issued only after the
//     operation that frees the slot was issued.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "messages/operations.hpp"

namespace troupe::train {

/// One compute operation of the schedule.
struct scheduled_op {
  pipeline_op kind;
  int micro_batch;
  int count = 1;  ///< micro-batches from there on
  bool operator==(const scheduled_op&) const = default;
};

/// The 1F1B order for `stage` of `stages` with `micro_batches` >= 1.
std::vector<scheduled_op> one_forward_one_backward(int stage, int stages, int micro_batches);

/// What a stage has to do: its place in the pipeline, and how the job orders its work.
struct schedule_of {
  int stage = 0;
  int stages = 1;
  int micro_batches = 1;
  bool by_layer = false;  ///< with one stage only
};

/// Activation slots a stage needs (SCH-3).
int slots_needed(const schedule_of& job);

/// What the stage should enqueue on its worker, in this order.
struct action {
  pipeline_op what;  ///< update: every operation is issued, the step or the validation's batch ends
  int micro_batch;
  int slot;
  int count = 1;  ///< micro-batches from micro_batch on, in slots from `slot` on
  bool operator==(const action&) const = default;
};

/// The progress of one stage through one step.
class step_policy {
 public:
  /// `train` false: forwards only (validation).
  step_policy(const schedule_of& job, bool train);

  /// The previous stage has computed the activation of `micro_batch`. False if that is not expected
  /// (a duplicate, out of range, or this is the first stage): the caller counts and drops it.
  bool activation_ready(int micro_batch);

  /// The next stage has computed the gradient of `micro_batch`. False as above.
  bool gradient_ready(int micro_batch);

  /// Everything that may be enqueued now and was not yet returned.
  std::vector<action> next();

  /// Whether `finish` was returned.
  bool finished() const noexcept { return finished_; }

  /// What the next operation waits for after next(): the activation of the previous stage (forward)
  /// or the gradient of the next (backward) of a micro-batch; nothing when all are issued.
  std::optional<scheduled_op> awaited() const noexcept;

  int slots() const noexcept { return slots_; }

 private:
  bool input_available(const scheduled_op& op) const;
  void receive_what_fits(std::vector<action>& out);
  bool slot_is_free(int micro_batch) const;

  int stage_;
  int stages_;
  int slots_;
  bool train_;
  bool finished_ = false;
  std::vector<scheduled_op> order_;
  size_t issued_ = 0;
  struct progress {
    bool activation_announced = false;
    bool activation_received = false;
    bool gradient_announced = false;
    bool computed = false;  ///< forward is issued
    bool slot_freed = false;
  };
  std::vector<progress> micro_batches_;
};

}  // namespace troupe::train
