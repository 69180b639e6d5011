// A checkpoint as a Hugging Face folder: config.json, tokenizer files, model*.safetensors.
//
// Invariants
// EX-1 What is there is replaced whole or not at all: the export is written to FOLDER.partial,
//      and the two change places.
// EX-2 Only a folder that an export made, with nothing else in it, is ever replaced.
// EX-3 Where the file system cannot let two names change places (NFS, Lustre) the older export goes
//      first: it can be made again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "io/base/result.hpp"
#include "io/checkpoint/parallel.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/folder/owned.hpp"

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

/// What the mark of an export says it was made from: launch, step and type.
std::string export_source(const manifest_head& head, tensor_dtype type);

/// The type of the model's own folder, as config.json has it: bf16 for bfloat16, else f32 (float16
/// is not written). Errors: those of reader::read_file.
result<tensor_dtype> export_type(const reader& from);

/// Whether an export to `folder` may be made: nothing is there, an empty folder, or an earlier
/// export of this program, and the same of FOLDER.partial. Errors: permission naming what is in the
/// way; io.
status check_export(const std::filesystem::path& folder);

/// Removes FOLDER.partial, which an export that was killed may have left: half of one, or what had
/// the name before. Errors: permission where it is not this program's; io.
status remove_half_export(const std::filesystem::path& folder);

/// Makes an export of what `write` puts into the folder it is given, whose names are those of
/// `ours` (EX-1, EX-2); what an interrupted export left goes first. The parent is made if it is
/// missing. Errors: check_export's; those of `write`; io.
status replace_export(const std::filesystem::path& folder, const claim& ours,
                      const std::function<status(const std::filesystem::path&)>& write);

/// Writes the model's weights (the masters, or their roundings to bf16; parts `weight` where they
/// were stored and bf16 is asked for) in file layout under full names, and every small file of the
/// checkpoint but the training state; torch_dtype in config.json is set to the type. Errors:
/// replace_export's; bad_data for damage, or a checkpoint without config.json or weights.
result<export_report> export_model(const reader& from, const std::filesystem::path& folder,
                                   const export_options& options);

}  // namespace troupe::io::checkpoint
