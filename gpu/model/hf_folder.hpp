// Weights from Hugging Face folders (config.json, model*.safetensors), a stage at a time: no
// process needs or reads more than its own tensors. Folders are written from checkpoints
// (io/checkpoint/export.hpp).
//
// Invariants
// HF-1 Every tensor of the stage is in the folder with the right shape, or the load fails and names
//   it; every other tensor of the folder is one of the model's or a buffer known to be derived, or
//   the load fails and names it.
// HF-2 What is exported of a stage and read back has the same bits (f32).
#pragma once

#include <filesystem>
#include <stop_token>

#include "gpu/store/store.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/model_config.hpp"
#include "io/base/result.hpp"
#include "io/formats/safetensors.hpp"

namespace troupe::gpu {

/// Weights that are not the model's (HF-1).
inline constexpr error_kind<std::string_view> tensor_unexpected{
    "tensor_unexpected", errc::bad_data, "the model has no tensor {}",
    "the weights belong to another model than config.json describes"};
inline constexpr error_kind<std::string_view, std::string_view, std::string_view> tensor_misshapen{
    "tensor_misshapen", errc::bad_data, "{} is {}; the model needs {}"};
inline constexpr error_kind<std::string_view, std::string_view> weights_missing{
    "weights_missing", errc::bad_data, "the weights lack {} {}"};

/// The model of a folder: its config.json, and what only its weights tell (whether a parallel block
/// shares its norm). Fails with bad_config for what we cannot compute.
result<model_config> read_folder_model(const std::filesystem::path& folder);

/// Loads the stage's tensors into master and weight from an open folder (HF-1). Names may come
/// without "transformer." or "model."; F64, F32, F16 and BF16 are converted. Blocks. Errors: those
/// above, io, cancelled soon after `ending` was asked for.
status load_weights(parameter_store& store, const model_config& model, const io::tensor_store& file,
                    const std::stop_token& ending = {});

/// The same from a path: a folder, an index or a .safetensors file.
status load_weights(parameter_store& store, const model_config& model,
                    const std::filesystem::path& path, const std::stop_token& ending = {});

}  // namespace troupe::gpu
