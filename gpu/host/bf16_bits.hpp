// The name of a bfloat16's bits.
#pragma once

#include <stdint.h>

namespace troupe::gpu {

/// The bits of a bfloat16: the upper half of a float32.
using bf16_bits = uint16_t;

}  // namespace troupe::gpu
