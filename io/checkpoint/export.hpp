// A checkpoint as a Hugging Face folder: config.json, tokenizer files, model*.safetensors.
#pragma once

#include <cstdint>
#include <filesystem>

#include "io/base/result.hpp"
#include "io/checkpoint/parallel.hpp"
#include "io/checkpoint/reader.hpp"

namespace troupe::io::checkpoint {

struct export_options {
  tensor_dtype type = tensor_dtype::f32;     ///< f32 or bf16
  uint64_t max_shard_bytes = 5'000'000'000;  ///< of one .safetensors file
  uint64_t batch_bytes = 256 << 20;          ///< memory for tensors; a larger matrix takes its size
  work_options work;                         ///< progress counts bytes of tensors read
};

/// What an export made.
struct export_report {
  uint64_t tensors = 0;
  uint64_t bytes = 0;  ///< of tensors, as written
};

/// Writes the model's weights (the masters, or their roundings to bf16; parts `weight` where they
/// were stored and bf16 is asked for) in file layout under full names, and every small file of the
/// checkpoint but the training state; torch_dtype in config.json is set to the type. The folder is
/// made if it is missing. Errors: bad_data for damage, or a checkpoint without config.json or
/// weights; io.
result<export_report> export_model(const reader& from, const std::filesystem::path& folder,
                                   const export_options& options);

}  // namespace troupe::io::checkpoint
