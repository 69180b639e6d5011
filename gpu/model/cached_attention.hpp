// Attention of one new position over cached rows, on the host.
#pragma once

#include <cstdint>

#include "gpu/ops.hpp"
#include "io/base/model_config.hpp"

namespace troupe::gpu {

/// out[H*D] = attention of row `position` of qkv[position+1,(H+2K)*D] over the rows it sees: one
/// row of ops::attention_forward. Host memory; accumulates in f32.
void attend_last_row(const model_config& model, dtype type, const void* qkv, int64_t position,
                     void* out);

}  // namespace troupe::gpu
