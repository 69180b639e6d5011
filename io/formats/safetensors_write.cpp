// Writing of safetensors: one file as a stream, and a model folder with its shards and index.
#include <algorithm>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/formats/json_text.hpp"
#include "io/formats/safetensors.hpp"

namespace troupe::io {

namespace fs = std::filesystem;
using ordered_json = nlohmann::ordered_json;

namespace {

struct header_text {
  std::string json;
  uint64_t data_bytes = 0;
};

result<header_text> make_header(std::span<const tensor_spec> specs,
                                const std::map<std::string, std::string>& metadata) {
  auto root = ordered_json::object();
  if (!metadata.empty()) root["__metadata__"] = metadata;
  std::set<std::string_view> names;
  uint64_t at = 0;
  for (const auto& spec : specs) {
    auto bytes = byte_size(spec.type, spec.shape);
    bool fits = bytes && *bytes <= (uint64_t{1} << 62) - at;
    if (!fits || spec.name == "__metadata__" || !names.insert(spec.name).second)
      return error{errc::bug,
                   fmt::format("tensor \"{}\" cannot be written: its shape is impossible "
                               "or its name is taken",
                               spec.name)};
    root[spec.name] = {{"dtype", to_string(spec.type)},
                       {"shape", spec.shape},
                       {"data_offsets", {at, at + *bytes}}};
    at += *bytes;
  }
  auto text = root.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return header_text{std::move(text), at};
}

std::string shard_name(size_t index, size_t count) {
  return count == 1 ? "model.safetensors"
                    : fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

/// Cuts the specs, in order, into runs of at most `max_bytes` (a larger tensor gets its own).
std::vector<std::vector<tensor_spec>> plan_shards(std::span<const tensor_spec> specs,
                                                  uint64_t max_bytes) {
  std::vector<std::vector<tensor_spec>> shards(1);
  uint64_t used = 0;
  for (const auto& spec : specs) {
    uint64_t bytes = byte_size(spec.type, spec.shape).value_or(0);
    if (!shards.back().empty() && (bytes > max_bytes || used > max_bytes - bytes)) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(spec);
    used += bytes;
  }
  return shards;
}

}  // namespace

result<safetensors_writer> safetensors_writer::create(
    const fs::path& path, std::vector<tensor_spec> specs,
    const std::map<std::string, std::string>& metadata) {
  TROUPE_TRY(header, make_header(specs, metadata));
  TROUPE_TRY(file, atomic_file::create(path));
  uint64_t length = header.json.size();
  TROUPE_CHECK(file.write({reinterpret_cast<const std::byte*>(&length), sizeof length}));
  TROUPE_CHECK(file.write(header.json));
  return safetensors_writer(std::move(file), header.data_bytes);
}

status safetensors_writer::write(std::span<const std::byte> bytes) {
  if (bytes.size() > remaining_)
    return error{errc::bug, fmt::format("{} bytes more than the tensors' shapes hold",
                                        bytes.size() - remaining_)};
  remaining_ -= bytes.size();
  return file_.write(bytes);
}

status safetensors_writer::finish() {
  if (remaining_ != 0)
    return error{errc::bug, fmt::format("{} bytes of tensors were never written", remaining_)};
  return file_.commit();
}

status write_model_tensors(const fs::path& folder, std::span<const tensor_spec> specs,
                           const tensor_source& source, uint64_t max_shard_bytes) {
  auto shards = plan_shards(specs, max_shard_bytes);
  std::map<std::string, std::string> file_of;
  uint64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    auto name = shard_name(i, shards.size());
    TROUPE_TRY(writer, safetensors_writer::create(folder / name, shards[i], {{"format", "pt"}}));
    for (const auto& spec : shards[i]) {
      file_of[spec.name] = name;
      uint64_t bytes = byte_size(spec.type, spec.shape).value_or(0);
      uint64_t before = writer.remaining();
      TROUPE_CHECK(
          source(spec, [&](std::span<const std::byte> piece) { return writer.write(piece); }));
      if (before - writer.remaining() != bytes)
        return error{errc::bug, fmt::format("\"{}\" gave {} bytes of {}", spec.name,
                                            before - writer.remaining(), bytes)};
      total += bytes;
    }
    TROUPE_CHECK(writer.finish());
  }
  if (shards.size() > 1)
    TROUPE_CHECK(
        write_atomic(folder / "model.safetensors.index.json", safetensors_index(file_of, total)));
  return fsync_directory(folder);
}

std::vector<std::string> model_file_names(std::span<const tensor_spec> specs,
                                          uint64_t max_shard_bytes) {
  const auto count = plan_shards(specs, max_shard_bytes).size();
  std::vector<std::string> out;
  for (size_t i = 0; i < count; ++i) out.push_back(shard_name(i, count));
  if (count > 1) out.emplace_back("model.safetensors.index.json");
  return out;
}

std::string safetensors_index(const std::map<std::string, std::string>& file_of_tensor,
                              uint64_t total_bytes) {
  ordered_json index;
  index["metadata"] = {{"total_size", total_bytes}};
  index["weight_map"] = file_of_tensor;
  return index.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace troupe::io
