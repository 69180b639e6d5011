// Names, shapes and layouts between files and the store.
#include "gpu/model/hf_folder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <regex>
#include <set>
#include <span>

#include "gpu/model/stage_shape.hpp"
#include "gpu/model/tensor_names.hpp"

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
    if (!expected.contains(full))
      return error{errc::bad_data, fmt::format("the model has no tensor {}", name),
                   "the weights belong to another model than config.json describes"};
    out.emplace(std::move(full), &view);
  }
  return out;
}

/// Puts one tensor of a file at `out` in store layout.
status place(const tensor_info& tensor, const io::tensor_view& view, float* out) {
  if (view.shape != tensor.file_shape())
    return error{errc::bad_data,
                 fmt::format("{} is {}; the model needs {}", tensor.name, shape_text(view.shape),
                             shape_text(tensor.file_shape()))};
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

result<model_config> to_model_config(const io::hf_model_config& config) {
  model_config out;
  const bool llama = config.family == io::hf_family::llama;
  out.family = llama ? model_family::llama : model_family::gpt2;
  out.layers = config.layers;
  out.hidden = config.hidden;
  out.heads = config.heads;
  out.kv_heads = config.kv_heads;
  out.head_width = config.head_dim;
  out.ffn = config.ffn;
  out.vocab = config.vocab;
  out.max_positions = config.max_positions;
  out.norm_eps = config.norm_eps;
  out.rope_theta = config.rope_theta;
  if (config.rope_llama3)
    out.rope = {config.rope_llama3->factor, config.rope_llama3->low_freq_factor,
                config.rope_llama3->high_freq_factor, config.rope_llama3->original_max_positions};
  out.tied = config.tied;
  switch (config.activation) {
    case io::hf_activation::gelu_new:
      out.activation = activation_kind::gelu_tanh;
      break;
    case io::hf_activation::gelu:
      out.activation = activation_kind::gelu_erf;
      break;
    case io::hf_activation::silu:
      out.activation = activation_kind::swiglu;
      break;
  }
  out.attention_bias = config.attention_bias;
  out.mlp_bias = config.mlp_bias;
  out.sliding_window = config.sliding_window;
  switch (config.parallel_block) {
    case io::hf_parallel_block::none:
      out.block = block_form::sequential;
      break;
    case io::hf_parallel_block::shared_norm:
      out.block = block_form::shared_norm;
      break;
    case io::hf_parallel_block::two_norms:
      out.block = block_form::two_norms;
      break;
  }
  TROUPE_CHECK(out.check());
  return out;
}

io::hf_model_config to_hf_config(const model_config& model) {
  io::hf_model_config out;
  out.family = model.family == model_family::llama ? io::hf_family::llama : io::hf_family::gpt2;
  out.layers = model.layers;
  out.heads = model.heads;
  out.kv_heads = model.kv_heads;
  out.head_dim = model.head_width;
  out.hidden = model.hidden;
  out.ffn = model.ffn;
  out.vocab = model.vocab;
  out.max_positions = model.max_positions;
  out.norm_eps = model.norm_eps;
  out.rope_theta = model.rope_theta;
  if (model.rope.factor != 1)
    out.rope_llama3 =
        io::hf_llama3_rope{model.rope.factor, model.rope.low_freq_factor,
                           model.rope.high_freq_factor, model.rope.original_max_positions};
  out.tied = model.tied;
  switch (model.activation) {
    case activation_kind::gelu_tanh:
      out.activation = io::hf_activation::gelu_new;
      break;
    case activation_kind::gelu_erf:
      out.activation = io::hf_activation::gelu;
      break;
    case activation_kind::swiglu:
      out.activation = io::hf_activation::silu;
      break;
  }
  out.attention_bias = model.attention_bias;
  out.mlp_bias = model.mlp_bias;
  out.sliding_window = model.sliding_window;
  switch (model.block) {
    case block_form::sequential:
      out.parallel_block = io::hf_parallel_block::none;
      break;
    case block_form::shared_norm:
      out.parallel_block = io::hf_parallel_block::shared_norm;
      break;
    case block_form::two_norms:
      out.parallel_block = io::hf_parallel_block::two_norms;
      break;
  }
  return out;
}

result<io::hf_model_config> read_folder_config(const std::filesystem::path& folder) {
  TROUPE_TRY(config, io::read_hf_config(folder));
  if (config.parallel_block == io::hf_parallel_block::none) return config;
  TROUPE_TRY(file, io::tensor_store::open(folder));
  const auto family =
      config.family == io::hf_family::llama ? model_family::llama : model_family::gpt2;
  const std::string norm = tensor_name(family, 0, layer_role::norm2_weight);
  const bool second = std::any_of(file.tensors().begin(), file.tensors().end(), [&](auto& entry) {
    return full_name(family, entry.first) == norm;
  });
  TROUPE_CHECK(io::resolve_parallel_block(config, second));
  return config;
}

status load_weights(parameter_store& store, const model_config& model,
                    const io::tensor_store& file) {
  TROUPE_TRY(tensors, tensors_of(model, file));
  for (int c = 0; c < store.chunk_count(); ++c) {
    const chunk_info& chunk = store.info(c);
    std::vector<float> values(static_cast<size_t>(chunk.count), 0.0f);
    for (const auto& tensor : chunk.tensors) {
      const auto found = tensors.find(tensor.name);
      if (found == tensors.end())
        return error{errc::bad_data, fmt::format("the weights lack {} {}", tensor.name,
                                                 shape_text(tensor.file_shape()))};
      TROUPE_CHECK(place(tensor, *found->second, values.data() + tensor.offset));
    }
    TROUPE_CHECK(store.write(c, part::master, values.data()));
  }
  return {};
}

status load_weights(parameter_store& store, const model_config& model,
                    const std::filesystem::path& path) {
  TROUPE_TRY(file, io::tensor_store::open(path));
  if (auto loaded = load_weights(store, model, file); !loaded)
    return loaded.error().within(path.string());
  return {};
}

}  // namespace troupe::gpu
