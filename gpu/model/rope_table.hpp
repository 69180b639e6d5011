// The angles of rotary position embeddings (Su et al. 2021), Llama 3's rescaling included.
#pragma once

#include <cstdint>
#include <vector>

#include "io/base/model_config.hpp"

namespace troupe::gpu {

/// Cosines and sines of position * frequency, [positions, D/2] each.
struct rope_table {
  std::vector<float> cosine;
  std::vector<float> sine;
};

/// Frequencies [D/2]: theta^(-2i/D), rescaled as transformers' "llama3" rope type where
/// model.rope.factor is not 1.
std::vector<double> rope_frequencies(const model_config& model);

/// The tables for positions 0..positions-1.
rope_table make_rope_table(const model_config& model, int64_t positions);

}  // namespace troupe::gpu
