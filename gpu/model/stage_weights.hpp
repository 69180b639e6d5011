// Where in a store the model's tensors are, by what they do: looked up by name once, used in every
// pass.
#pragma once

#include <cstdint>

#include "gpu/model/layer.hpp"
#include "gpu/store/store.hpp"
#include "io/base/model_config.hpp"

namespace troupe::gpu {

/// Weights and gradients of one layer; gradients are null in stores without them.
struct layer_parameters {
  int chunk = -1;
  layer_tensors<const void> weights;
  layer_tensors<float> gradients;
};

/// A table or matrix with its gradient.
struct matrix_parameters {
  int chunk = -1;
  const void* weight = nullptr;
  float* gradient = nullptr;
};

/// The layer `layer` (of the whole model), which the store must hold.
layer_parameters find_layer(const parameter_store& store, const model_config& model, int64_t layer);

/// A tensor by name; all null where the store does not hold it.
matrix_parameters find_matrix(const parameter_store& store, std::string_view name);

/// The head's matrix: the token table where tied.
matrix_parameters find_head(const parameter_store& store, const model_config& model);

}  // namespace troupe::gpu
