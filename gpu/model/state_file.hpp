// Training state in safetensors: master weights and both Adam moments, by tensor name, so that any
// pipeline layout can restore what any other saved.
//
// Names: "master.<tensor>", "exp_avg.<tensor>", "exp_avg_sq.<tensor>"; f32, store layout [out, in].
#pragma once

#include <filesystem>
#include <vector>

#include "gpu/store/store.hpp"
#include "io/base/result.hpp"
#include "io/formats/safetensors.hpp"

namespace troupe::gpu {

/// What a stage writes, in the store's order, tied copies left out.
std::vector<io::tensor_spec> state_specs(const parameter_store& store);

/// Gives the bytes of those tensors. Blocks while it reads the device. The store outlives it.
io::tensor_source state_source(const parameter_store& store);

/// Writes the stage's state as one .safetensors file, made durable.
status write_state(const parameter_store& store, const std::filesystem::path& path);

/// Restores master (and weight), m and v of every chunk from files that together hold the model's
/// state. bad_data naming a tensor that is missing, of the wrong shape or not f32. Blocks.
status read_state(parameter_store& store, const std::vector<std::filesystem::path>& files);

}  // namespace troupe::gpu
