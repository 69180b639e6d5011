// The name of a bfloat16's bits: apart from bf16.hpp, so that kernel files need no function of it.
#pragma once

#include <stdint.h>

namespace troupe::gpu {

/// The bits of a bfloat16: the upper half of a float32.
using bf16_bits = uint16_t;

}  // namespace troupe::gpu
