// The file of a predictor, `.tpm`.
//
//   file := "TRPRED\r\n" | u32 version | u32 zero | u64 bytes | model | u32 crc32c
//   model := FlatBuffer Model (model.fbs), `bytes` long
//   crc32c := of every byte before it; all numbers little-endian
//
// Written beside its name, synced, renamed, the folder synced (io/file.hpp, FILE-1): who reads sees
// the old model or the new one.
//
// Invariants
// TPM-1 A file with any bit changed, cut or longer is refused; nothing is allocated by an unchecked
//       length.
// TPM-2 What was read has the parts that its kind is made of, of the sizes that they promise each
//       other, and finite numbers: asking it reads no byte outside.
// TPM-3 Writing a model that was read gives the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/perf/model_generated.h"

namespace troupe::io::perf {

using saved::ModelT;

inline constexpr uint32_t model_version = 2;
/// What a model's kind may be, from the plainest on.
inline constexpr std::string_view model_kinds[] = {
    "mean", "trunk", "trunk+local", "ncpp", "ncpp-published", "trunk+ncpp", "trunk+ncpp+local"};
/// Whether a network has a say in what a model of the kind answers.
constexpr bool is_of_network(std::string_view kind) noexcept {
  return kind.find("ncpp") != std::string_view::npos;
}
/// Of the file; of a network's width, hidden width and heads; of levels of one category.
inline constexpr size_t max_model_bytes = size_t{256} << 20;
inline constexpr uint32_t max_network_width = 512;
inline constexpr uint32_t max_network_heads = 16;
inline constexpr size_t max_levels = 4096;

/// The file's name, and what is wrong with it.
inline constexpr error_kind<std::string_view, std::string_view> bad_model{
    "bad_model", errc::bad_data, "{}: {}", "train it again: troupe predict train"};
inline constexpr error_kind<std::string_view, uint32_t, uint32_t> model_of_other_version{
    "model_of_other_version", errc::bad_data, "{}: version {}; this program reads version {}",
    "train it again: troupe predict train"};

/// Columns that the trunk makes of the features, and parameters that such a network has.
size_t trunk_columns(const ModelT& m) noexcept;
size_t network_parameters(const ModelT& m, const saved::NetworkT& shape) noexcept;

/// TPM-2. Errors: bad_model.
status check(const ModelT& m, std::string_view name);

/// The bytes of a file.
std::string encode(const ModelT& m);
/// Errors: bad_model, model_of_other_version.
result<ModelT> decode(std::string_view bytes, std::string_view name);

/// Errors: bad_model where it is longer than `most_bytes`, which nobody could read; those of files.
status write_model(const std::filesystem::path& path, const ModelT& m,
                   size_t most_bytes = max_model_bytes);
result<ModelT> read_model(const std::filesystem::path& path);

}  // namespace troupe::io::perf
