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
  static const std::regex buffers(R"(transformer\.h\.\d+\.attn\.(masked_)?bias)"
                                  R"(|model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq)");
  return std::regex_match(name, buffers);
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
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

/// `count` elements of a file's tensor as they lie there, from the one with number `first` on.
status copy_elements(const io::tensor_view& view, int64_t first, int64_t count, float* out) {
  auto some = view;
  const auto size = io::size_of(view.type);
  some.shape = {count};
  some.bytes =
      view.bytes.subspan(static_cast<size_t>(first) * size, static_cast<size_t>(count) * size);
  return io::copy_as_f32(some, std::span(out, static_cast<size_t>(count)));
}

/// Puts a piece of a tensor at `out` in store layout. Of a file that has it the other way round,
/// the columns that are the store's rows are read: a run of them in every row of the file.
status place(const tensor_piece& p, const io::tensor_view& view, float* out) {
  const auto& t = *p.tensor;
  if (t.layout == file_layout::same) return copy_elements(view, p.first, p.count, out);
  const int64_t rows = t.shape[0], width = t.shape[1];
  const int64_t first_row = p.first / width, end_row = (p.first + p.count + width - 1) / width;
  std::vector<float> run(static_cast<size_t>(end_row - first_row));
  for (int64_t i = 0; i < width; ++i) {
    TROUPE_CHECK(copy_elements(view, i * rows + first_row, std::ssize(run), run.data()));
    for (int64_t o = first_row; o < end_row; ++o) {
      const int64_t to = o * width + i - p.first;
      if (to >= 0 && to < p.count) out[to] = run[static_cast<size_t>(o - first_row)];
    }
  }
  return {};
}

/// Whether the file has all tensors of the chunk, in their shapes.
status check_chunk(const chunk_info& chunk,
                   const std::map<std::string, const io::tensor_view*, std::less<>>& tensors) {
  for (const auto& t : chunk.tensors) {
    const auto found = tensors.find(t.name);
    if (found == tensors.end()) return weights_missing(t.name, shape_text(t.file_shape()));
    if (found->second->shape != t.file_shape())
      return tensor_misshapen(t.name, shape_text(found->second->shape), shape_text(t.file_shape()));
  }
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
    TROUPE_CHECK(check_chunk(chunk, tensors));
    const auto values = [&](int64_t first, int64_t count, float* out) -> status {
      std::fill_n(out, count, 0.0f);
      return for_each_piece(chunk, first, count, [&](const tensor_piece& p) -> status {
        if (ending.stop_requested()) return error{errc::cancelled, "stopped"};
        return place(p, *tensors.at(p.tensor->name), out + p.at);
      });
    };
    TROUPE_CHECK(store.write(c, part::master, values));
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
