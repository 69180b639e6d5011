// Random initial weights that depend on the seed, the tensor's name and the element's index alone,
// so that every pipeline layout starts from the same bits.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string_view>

#include "gpu/store/store.hpp"
#include "io/base/model_config.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu {

/// Fills `out` with element `first`.. of the tensor `name` (store layout): normal(0, std).
void fill_normal(uint64_t seed, std::string_view name, int64_t first, int64_t count,
                 double std_deviation, float* out);

/// Sets master and weight of every chunk: matrices and tables normal(0, init_std), output
/// projections of attention and MLP times 1/sqrt(2L) (GPT-2 paper, section 2.3), biases 0, norm
/// weights 1. Blocks until the device has the values. Errors: the device's; cancelled soon after
/// `ending` was asked for.
status initialize(parameter_store& store, const model_config& model, uint64_t seed,
                  const std::stop_token& ending = {});

}  // namespace troupe::gpu
