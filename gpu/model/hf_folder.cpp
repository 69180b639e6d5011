// Names, shapes and layouts between files and the store.
#include "gpu/model/hf_folder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "gpu/model/stage_shape.hpp"
#include "gpu/model/tensor_names.hpp"
#include "io/formats/hf_config.hpp"

namespace troupe::gpu {

namespace {

std::string_view prefix_of(model_family family) {
  return family == model_family::gpt2 ? "transformer." : "model.";
}

/// The full name of what a file calls `name`.
std::string full_name(model_family family, const std::string& name) {
  if (name.starts_with(prefix_of(family)) || name == head_name()) return name;
  return std::string(prefix_of(family)) + name;
}

/// Buffers that older versions of transformers saved; all are derived from the config.
bool known_buffer(const std::string& name) {
  static const std::regex buffers(
      R"(transformer\.h\.\d+\.attn\.(masked_)?bias)"
      R"(|model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq)");
  return std::regex_match(name, buffers);
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// out[c, r] = in[r, c], in blocks that stay in the cache.
void transpose(const float* in, int64_t rows, int64_t columns, float* out) {
  constexpr int64_t block = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += block)
    for (int64_t c0 = 0; c0 < columns; c0 += block)
      for (int64_t r = r0; r < std::min(rows, r0 + block); ++r)
        for (int64_t c = c0; c < std::min(columns, c0 + block); ++c)
          out[c * rows + r] = in[r * columns + c];
}

/// Every full name the whole model has.
std::set<std::string, std::less<>> names_of(const model_config& model) {
  std::set<std::string, std::less<>> names;
  for (const auto& chunk : stage_chunks(model, whole_model(model, 1, 1, dtype::f32)))
    for (const auto& tensor : chunk.tensors) names.insert(tensor.name);
  return names;
}

/// The file's tensors by full name; fails on one that has no place in the model (HF-1).
result<std::map<std::string, const io::tensor_view*, std::less<>>> tensors_of(
    const model_config& model, const io::tensor_store& file) {
  const auto expected = names_of(model);
  std::map<std::string, const io::tensor_view*, std::less<>> out;
  for (const auto& [name, view] : file.tensors()) {
    std::string full = full_name(model.family, name);
    if (known_buffer(full) || (model.tied && full == head_name())) continue;
    if (!expected.contains(full)) return tensor_unexpected(name);
    out.emplace(std::move(full), &view);
  }
  return out;
}

/// Puts one tensor of a file at `out` in store layout.
status place(const tensor_info& tensor, const io::tensor_view& view, float* out) {
  if (view.shape != tensor.file_shape())
    return tensor_misshapen(tensor.name, shape_text(view.shape), shape_text(tensor.file_shape()));
  const auto count = static_cast<size_t>(tensor.count);
  if (tensor.layout == file_layout::same) {
    TROUPE_CHECK(io::copy_as_f32(view, std::span(out, count)));
    return {};
  }
  std::vector<float> values(count);
  TROUPE_CHECK(io::copy_as_f32(view, values));
  transpose(values.data(), tensor.shape[1], tensor.shape[0], out);
  return {};
}

}  // namespace

result<model_config> read_folder_model(const std::filesystem::path& folder) {
  TROUPE_TRY(config, io::read_hf_config(folder));
  model_config& model = config.model;
  if (model.block != block_form::sequential) {
    TROUPE_TRY(file, io::tensor_store::open(folder));
    const std::string norm = tensor_name(model.family, 0, layer_role::norm2_weight);
    const bool second = std::any_of(file.tensors().begin(), file.tensors().end(), [&](auto& entry) {
      return full_name(model.family, entry.first) == norm;
    });
    TROUPE_CHECK(io::resolve_parallel_block(model, second));
  }
  TROUPE_CHECK(model.check());
  return model;
}

status load_weights(parameter_store& store, const model_config& model, const io::tensor_store& file,
                    const std::stop_token& ending) {
  TROUPE_TRY(tensors, tensors_of(model, file));
  for (int c = 0; c < store.chunk_count(); ++c) {
    const chunk_info& chunk = store.info(c);
    std::vector<float> values(static_cast<size_t>(chunk.count), 0.0f);
    for (const auto& tensor : chunk.tensors) {
      if (ending.stop_requested()) return error{errc::cancelled, "stopped"};
      const auto found = tensors.find(tensor.name);
      if (found == tensors.end())
        return weights_missing(tensor.name, shape_text(tensor.file_shape()));
      TROUPE_CHECK(place(tensor, *found->second, values.data() + tensor.offset));
    }
    TROUPE_CHECK(store.write(c, part::master, values.data()));
  }
  return {};
}

status load_weights(parameter_store& store, const model_config& model,
                    const std::filesystem::path& path, const std::stop_token& ending) {
  TROUPE_TRY(file, io::tensor_store::open(path));
  if (auto loaded = load_weights(store, model, file, ending); !loaded)
    return loaded.error().within(path.string());
  return {};
}

}  // namespace troupe::gpu
