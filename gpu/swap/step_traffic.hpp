// What a step moves between memory and drive, phase by phase, when some of its state lives there.
//
// Pure: the visits of a step in their order (forward through the chunks, backward in reverse, each
// again where the passes are made twice), and the frames that still hold what they need. What it
// says is what the swapper moves, to the byte (tests/actors/swap_engine_test.cpp), in every step
// but the first, whose moments are not read (they are zero). Where rows of a token table are
// updated before the rest of it (CHP-10) their blocks are read besides, less than an eighth of it,
// and the rest is a part of the next step.
//
// Of what moves it is known as well what is summed (SWP-5): state and weights that are written, for
// the checkpoints that take the files, and where swap.verify asks for it all that is read and
// activations that are written.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/model/stage_shape.hpp"
#include "gpu/swap/limit_model.hpp"
#include "gpu/swap/residency_plan.hpp"

namespace troupe::gpu {

/// When a step's chunks are updated.
enum class update_order : uint8_t {
  behind_backward,  ///< all gradients are kept, in memory or on disk; or nothing is on disk
  under_backward,   ///< as soon as backward has passed a chunk: nothing is clipped
  speculate,        ///< the same, into a second version: dropped, and made again, if that was wrong
  twice,            ///< in a second round of passes, whose norm the first has made
};
/// "hold", "none", "speculate", "twice": how a step's gradients are clipped.
std::string_view to_string(update_order order);

/// What the engine does (ENG-11); where it may speculate, it makes passes twice as well while most
/// steps are clipped (clip_policy.hpp).
update_order update_order_of(const residency& where, bool clips);

struct phase_traffic {
  uint64_t read_bytes = 0, written_bytes = 0;
  uint64_t summed_bytes = 0;  ///< of both
  bool operator==(const phase_traffic&) const = default;
};

struct step_traffic {
  phase_traffic forward;   ///< all forward passes
  phase_traffic backward;  ///< with the updates
  int64_t passes = 1;      ///< forward and backward over all micro-batches: 2 where made twice
  /// Weights that replicas gather: of layers that share frames whenever they are read, others once.
  uint64_t gathered_bytes = 0;
  uint64_t summed_bytes = 0;  ///< gradients that they sum: of all chunks, in each round of passes

  phase_traffic whole() const {
    return {forward.read_bytes + backward.read_bytes,
            forward.written_bytes + backward.written_bytes,
            forward.summed_bytes + backward.summed_bytes};
  }
};

/// What the phases of a step do, for limit_of().
struct step_work {
  phase_work forward, backward;  ///< the latter with the updates
  phase_work whole() const {
    auto out = forward;
    return out += backward;
  }
};
/// `flops`: of the step's products made once, forward and backward; `again`: of what backward makes
/// again of the forward pass, once; `updates`: parameters.
step_work work_of_step(const step_traffic& traffic, double flops, double again, double updates);

/// Of one layer's products for one token, forward and backward, in sequences of that length.
double layer_flops(const model_config& model, int64_t seq);
/// Of what backward makes again of a stage's forward pass for one token, by what each layer keeps.
double again_flops(const model_config& model, const stage_shape& shape);

/// Of a stage with shape.where; `budget`: how its steps are. Of one that speculates it is a step
/// whose updates count.
step_traffic traffic_of_step(const model_config& model, const stage_shape& shape,
                             const residency_budget& budget);

}  // namespace troupe::gpu
