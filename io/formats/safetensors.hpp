// Safetensors: the file format of model weights, read from a map and written as a stream.
//
// Layout (github.com/huggingface/safetensors, README "Format"): u64 little-endian N, N bytes of
// JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {text: text}},
// then the data; offsets count from the first data byte.
//
// Invariants of a file that opened:
// ST-1 N <= 100,000,000 and the header is a JSON object without duplicate names.
// ST-2 Every tensor's bytes lie inside the file and are exactly product(shape) * size_of(dtype).
// ST-3 Tensors neither overlap nor leave holes, and together fill the data section.
// ST-4 Foreign bytes give an error, never undefined behaviour; no allocation follows an unchecked
//      length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::io {

/// A header that is no object of tensors.
inline constexpr error_kind<> safetensors_no_object{
    "safetensors_no_object", errc::bad_data, "safetensors: the header does not begin with '{{'"};
inline constexpr error_kind<std::string_view> safetensors_no_json{
    "safetensors_no_json", errc::bad_data, "safetensors: the header is not JSON: {}"};
inline constexpr error_kind<std::string_view, std::string_view> safetensors_unexpected{
    "safetensors_unexpected", errc::bad_data, "safetensors: \"{}\": unexpected {} in the header"};
inline constexpr error_kind<std::string_view, std::string_view> safetensors_unknown_type{
    "safetensors_unknown_type", errc::bad_data, "safetensors: \"{}\": unknown dtype \"{}\""};
inline constexpr error_kind<std::string_view> safetensors_name_twice{
    "safetensors_name_twice", errc::bad_data, "safetensors: \"{}\": duplicate name"};
inline constexpr error_kind<std::string_view> safetensors_key_missing{
    "safetensors_key_missing", errc::bad_data,
    "safetensors: \"{}\": dtype, shape or data_offsets is missing"};
/// Tensors that do not lie as the header says (ST-2, ST-3).
inline constexpr error_kind<std::string_view> safetensors_shape_wrong{
    "safetensors_shape_wrong", errc::bad_data, "safetensors: \"{}\" has an impossible shape"};
inline constexpr error_kind<std::string_view, uint64_t, uint64_t, uint64_t> safetensors_outside{
    "safetensors_outside", errc::bad_data, "safetensors: \"{}\" lies at [{}, {}) of {} data bytes"};
inline constexpr error_kind<std::string_view, uint64_t, uint64_t> safetensors_size_wrong{
    "safetensors_size_wrong", errc::bad_data,
    "safetensors: \"{}\" has {} bytes where its shape needs {}"};
inline constexpr error_kind<std::string_view, uint64_t, uint64_t> safetensors_misplaced{
    "safetensors_misplaced", errc::bad_data,
    "safetensors: \"{}\" begins at {} where {} was expected: tensors overlap or leave a hole"};
inline constexpr error_kind<uint64_t, uint64_t> safetensors_not_filled{
    "safetensors_not_filled", errc::bad_data,
    "safetensors: {} bytes of data, {} of them in tensors"};
/// A folder with neither weights nor their index.
inline constexpr error_kind<std::string_view> no_safetensors{
    "no_safetensors", errc::not_found,
    "{} has neither model.safetensors nor model.safetensors.index.json",
    "name a folder in Hugging Face layout; pytorch_model.bin is not read"};

/// Element types of the format.
enum class tensor_dtype : uint8_t {
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64
};

/// Bytes of one element.
size_t size_of(tensor_dtype type) noexcept;
/// The name in files: "F32", "BF16", "BOOL", ...
std::string_view to_string(tensor_dtype type) noexcept;
/// The type of a name in files, if there is one.
std::optional<tensor_dtype> tensor_dtype_of(std::string_view name) noexcept;

/// Name, type and shape of a tensor; an empty shape is a scalar.
struct tensor_spec {
  std::string name;
  tensor_dtype type = tensor_dtype::f32;
  std::vector<int64_t> shape;
  bool operator==(const tensor_spec&) const = default;
};

/// product(shape) * size_of(type), or nothing when a dimension is negative or it overflows 2^62.
std::optional<uint64_t> byte_size(tensor_dtype type, std::span<const int64_t> shape) noexcept;

/// A tensor inside a file. `bytes` may be unaligned: use the copy functions below, or memcpy.
struct tensor_view {
  tensor_dtype type = tensor_dtype::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;

  /// Number of elements.
  uint64_t elements() const noexcept { return bytes.size() / size_of(type); }
};

using tensor_map = std::map<std::string, tensor_view, std::less<>>;

/// What a header says, verified against the length of the data (ST-1..ST-4).
struct safetensors_content {
  tensor_map tensors;
  std::map<std::string, std::string> metadata;
};

/// Parses a whole file held in memory; the views point into `file`. Error: bad_data.
result<safetensors_content> parse_safetensors(std::span<const std::byte> file);

/// All tensors of a model: one file, or a folder with `model.safetensors` or with
/// `model.safetensors.index.json` and its shards. Keeps the maps alive.
class tensor_store {
 public:
  /// `path` is a .safetensors file, an index file, or a folder. With an index, every name of
  /// weight_map must be in the shard it names, and shards may hold nothing else; shard names may
  /// not leave the folder.
  static result<tensor_store> open(const std::filesystem::path& path);

  const tensor_map& tensors() const noexcept { return tensors_; }
  /// The tensor of that name, or null.
  const tensor_view* find(std::string_view name) const noexcept;
  /// `__metadata__` of the (first) file.
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }

 private:
  std::vector<std::shared_ptr<const mapped_file>> files_;
  tensor_map tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Streams one file: the header first, padded by spaces so that data begins at a multiple of 8,
/// then the tensors in the order of the specs. The file appears under its name only on finish().
class safetensors_writer {
 public:
  /// Errors: bug for duplicate names or an impossible shape; io.
  static result<safetensors_writer> create(const std::filesystem::path& path,
                                           std::vector<tensor_spec> specs,
                                           const std::map<std::string, std::string>& metadata = {});

  /// Appends the next bytes of the data section; a tensor may come in several pieces, and a piece
  /// may span tensors.
  status write(std::span<const std::byte> bytes);

  /// Bytes still missing.
  uint64_t remaining() const noexcept { return remaining_; }

  /// Error bug when bytes are missing; else makes the file durable under its name.
  status finish();

 private:
  safetensors_writer(atomic_file file, uint64_t data_bytes)
      : file_(std::move(file)), remaining_(data_bytes) {}

  atomic_file file_;
  uint64_t remaining_;
};

/// Gives the bytes of a tensor to `sink`, in as many pieces as it likes.
using tensor_source = std::function<status(
    const tensor_spec& spec, const std::function<status(std::span<const std::byte>)>& sink)>;

/// Writes a model into a folder that has none yet, under Hugging Face's names: `model.safetensors`
/// when all fits `max_shard_bytes`, else `model-00001-of-0000N.safetensors` and
/// `model.safetensors.index.json`.
/// Tensors are asked for in the given order. Metadata {"format": "pt"} is added, as transformers
/// wants it.
status write_model_tensors(const std::filesystem::path& folder, std::span<const tensor_spec> specs,
                           const tensor_source& source, uint64_t max_shard_bytes = 5'000'000'000);

/// The names of the files that write_model_tensors makes.
std::vector<std::string> model_file_names(std::span<const tensor_spec> specs,
                                          uint64_t max_shard_bytes = 5'000'000'000);

/// The JSON text of model.safetensors.index.json.
std::string safetensors_index(const std::map<std::string, std::string>& file_of_tensor,
                              uint64_t total_bytes);

/// Copies a float tensor (F64, F32, F16, BF16) into `out` as float32; out.size() must equal
/// elements(). Error: bad_data for other types.
status copy_as_f32(const tensor_view& tensor, std::span<float> out);

/// IEEE half and bfloat16 bit patterns to float, exactly; and float to bfloat16, to nearest even,
/// NaN kept quiet.
float f16_to_f32(uint16_t bits) noexcept;
float bf16_to_f32(uint16_t bits) noexcept;
uint16_t f32_to_bf16(float value) noexcept;

}  // namespace troupe::io
