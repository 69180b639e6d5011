// Who brings what layers spill of their forward pass to a drive, and back for backward
// (gpu/swap/spiller.hpp).
#pragma once

#include "gpu/device.hpp"

namespace troupe::gpu {

/// By the thread that enqueues, as the passes go. Layers are of the stage, from 0, and spill.
class activation_mover {
 public:
  virtual ~activation_mover() = default;

  /// Makes `s` wait until the frame of the layer's activations of that slot is free.
  virtual void take_frame(stream& s, int slot, int layer) = 0;
  /// Behind what `s` has now they are whole: they go to the drive.
  virtual void spill(stream& s, int slot, int layer) = 0;
  /// Makes `s` wait until they are in the frame again.
  virtual void fetch(stream& s, int slot, int layer) = 0;
  /// Behind what `s` has now nobody uses them.
  virtual void release(stream& s, int slot, int layer) = 0;
};

}  // namespace troupe::gpu
