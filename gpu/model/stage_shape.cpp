// Which layers a stage has and which chunks they make.
#include "gpu/model/stage_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "gpu/model/tensor_names.hpp"

namespace troupe::gpu {

namespace {

using roles = layer_role;

/// Builds the chunks of one model; knows its names and its decay rule.
class chunk_builder {
 public:
  chunk_builder(const model_config& model, decay_scope decay) : model_(model), decay_(decay) {}

  chunk_info one_table(std::string chunk_name, std::string tensor, int64_t rows) const {
    chunk_info chunk;
    chunk.name = std::move(chunk_name);
    add(chunk, std::move(tensor), {rows, model_.hidden});
    finish_chunk(chunk);
    return chunk;
  }

  chunk_info head() const {
    chunk_info chunk;
    chunk.name = "head";
    add(chunk, final_norm_name(model_.family, false), {model_.hidden});
    if (model_.family == model_family::gpt2)
      add(chunk, final_norm_name(model_.family, true), {model_.hidden});
    if (!model_.tied) add(chunk, head_name(), {model_.vocab, model_.hidden});
    finish_chunk(chunk);
    return chunk;
  }

  chunk_info layer(int64_t number) const {
    chunk_info chunk;
    chunk.name = fmt::format("layer.{}", number);
    chunk.layer = number;
    norm(chunk, roles::norm1_weight, roles::norm1_bias);
    if (model_.family == model_family::gpt2)
      gpt2_body(chunk);
    else
      llama_body(chunk);
    finish_chunk(chunk);
    return chunk;
  }

 private:
  void add(chunk_info& chunk, std::string name, std::vector<int64_t> shape,
           file_layout layout = file_layout::same, bool adjacent = false) const {
    const bool decay = decay_ == decay_scope::all || shape.size() >= 2;
    add_tensor(chunk, {std::move(name), std::move(shape), 0, 0, decay, layout}, adjacent);
  }

  void add(chunk_info& chunk, roles role, std::vector<int64_t> shape,
           file_layout layout = file_layout::same, bool adjacent = false) const {
    add(chunk, tensor_name(model_.family, chunk.layer, role), std::move(shape), layout, adjacent);
  }

  void norm(chunk_info& chunk, roles weight, roles bias) const {
    add(chunk, weight, {model_.hidden});
    if (model_.family == model_family::gpt2) add(chunk, bias, {model_.hidden});
  }

  void second_norm(chunk_info& chunk) const {
    if (model_.block != block_form::shared_norm)
      norm(chunk, roles::norm2_weight, roles::norm2_bias);
  }

  void conv1d(chunk_info& chunk, roles weight, roles bias, int64_t out, int64_t in,
              bool with_bias) const {
    add(chunk, weight, {out, in}, file_layout::transposed);
    if (with_bias) add(chunk, bias, {out});
  }

  void gpt2_body(chunk_info& chunk) const {
    const auto& m = model_;
    conv1d(chunk, roles::q_weight, roles::q_bias, m.qkv_width(), m.hidden, m.attention_bias);
    conv1d(chunk, roles::o_weight, roles::o_bias, m.hidden, m.attention_width(), m.output_bias);
    second_norm(chunk);
    conv1d(chunk, roles::up_weight, roles::up_bias, m.ffn, m.hidden, m.mlp_bias);
    conv1d(chunk, roles::down_weight, roles::down_bias, m.hidden, m.ffn, m.mlp_bias);
  }

  void llama_body(chunk_info& chunk) const {
    const auto& m = model_;
    const int64_t q = m.attention_width(), kv = m.kv_heads * m.head_width;
    const auto same = file_layout::same;
    add(chunk, roles::q_weight, {q, m.hidden});
    add(chunk, roles::k_weight, {kv, m.hidden}, same, true);  // PS-2
    add(chunk, roles::v_weight, {kv, m.hidden}, same, true);
    if (m.attention_bias) {
      add(chunk, roles::q_bias, {q});
      add(chunk, roles::k_bias, {kv}, same, true);
      add(chunk, roles::v_bias, {kv}, same, true);
    }
    if (m.qk_norm) {
      add(chunk, roles::q_norm_weight, {m.head_width});
      add(chunk, roles::k_norm_weight, {m.head_width});
    }
    add(chunk, roles::o_weight, {m.hidden, q});
    if (m.output_bias) add(chunk, roles::o_bias, {m.hidden});
    second_norm(chunk);
    add(chunk, roles::gate_weight, {m.ffn, m.hidden});
    add(chunk, roles::up_weight, {m.ffn, m.hidden}, same, true);
    if (m.mlp_bias) {
      add(chunk, roles::gate_bias, {m.ffn});
      add(chunk, roles::up_bias, {m.ffn}, same, true);
    }
    add(chunk, roles::down_weight, {m.hidden, m.ffn});
    if (m.mlp_bias) add(chunk, roles::down_bias, {m.hidden});
  }

  const model_config& model_;
  decay_scope decay_;
};

}  // namespace

std::string_view to_string(activation_choice choice) {
  constexpr std::array<std::string_view, activation_choices> names{"recompute", "half", "keep",
                                                                   "spill"};
  return names[static_cast<size_t>(choice)];
}

status check(const model_config& model, const stage_shape& shape) {
  TROUPE_CHECK(model.check());
  auto impossible = [](std::string text) {
    return error{errc::bad_config, "impossible stage: " + std::move(text)};
  };
  if (shape.first_layer < 0 || shape.last_layer <= shape.first_layer ||
      shape.last_layer > model.layers)
    return impossible(
        fmt::format("layers [{}, {}) of {}", shape.first_layer, shape.last_layer, model.layers));
  if (shape.has_embedding != (shape.first_layer == 0))
    return impossible("the embedding goes with layer 0");
  if (shape.has_head != (shape.last_layer == model.layers))
    return impossible("the head goes with the last layer");
  if (shape.micro_batch < 1 || shape.seq < 1 || shape.slots < 1)
    return impossible("micro_batch, seq and slots start at 1");
  const auto& replica = shape.replica;
  if (replica.rank < 0 || replica.rank >= replica.ranks || (replica.ranks > 1 && !shape.training))
    return impossible(fmt::format("replica {} of {}", replica.rank, replica.ranks));
  if (shape.seq > model.max_positions)
    return error{errc::bad_config,
                 fmt::format("sequences of {} tokens, but the model has {} positions", shape.seq,
                             model.max_positions),
                 "lower train.seq_len, or raise model.max_seq_len"};
  if (shape.compute == dtype::i32) return impossible("compute type i32");
  const auto named = static_cast<int64_t>(shape.activations.size());
  if (named != 0 && named != shape.layers())
    return impossible(fmt::format("activations of {} of {} layers", named, shape.layers()));
  return {};
}

stage_shape whole_model(const model_config& model, int64_t micro_batch, int64_t seq,
                        dtype compute) {
  stage_shape shape;
  shape.last_layer = model.layers;
  shape.micro_batch = micro_batch;
  shape.seq = seq;
  shape.compute = compute;
  return shape;
}

std::vector<stage_shape> split_stages(const model_config& model, int64_t stages, int64_t seq) {
  const double layer = static_cast<double>(model.matrix_parameters() - model.vocab * model.hidden) /
                           static_cast<double>(model.layers) +
                       2.0 * static_cast<double>(model.attention_width() * seq);
  const double head = static_cast<double>(model.vocab * model.hidden) / layer;  // in layers
  // The last stage takes `tail` layers; the others share the rest as evenly as can be, early ones
  // first. The best tail has the lowest maximum; of equals, the longest.
  int64_t best_tail = 1;
  double best = std::numeric_limits<double>::infinity();
  for (int64_t tail = 1; tail <= model.layers - (stages - 1); ++tail) {
    const int64_t rest = model.layers - tail;
    if (stages == 1 && rest > 0) continue;
    const double others = stages > 1 ? static_cast<double>((rest + stages - 2) / (stages - 1)) : 0;
    const double slowest = std::max(others, static_cast<double>(tail) + head);
    if (slowest <= best) best = slowest, best_tail = tail;
  }
  const int64_t rest = model.layers - best_tail;
  const int64_t others = std::max<int64_t>(1, stages - 1);
  std::vector<int64_t> layers;
  for (int64_t i = 0; i + 1 < stages; ++i)
    layers.push_back(rest / others + (i < rest % others ? 1 : 0));
  layers.push_back(best_tail);
  return cut_stages(layers);
}

std::vector<stage_shape> cut_stages(const std::vector<int64_t>& layers) {
  std::vector<stage_shape> out(layers.size());
  int64_t next = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    auto& shape = out[i];
    shape.first_layer = next;
    next += layers[i];
    shape.last_layer = next;
    shape.has_embedding = i == 0;
    shape.has_head = i + 1 == layers.size();
  }
  return out;
}

std::vector<chunk_info> stage_chunks(const model_config& model, const stage_shape& shape) {
  const chunk_builder build(model, shape.decay);
  std::vector<chunk_info> chunks;
  const std::string table = token_table_name(model.family);
  if (shape.has_embedding) {
    chunks.push_back(build.one_table("embedding", table, model.vocab));
    if (model.family == model_family::gpt2)
      chunks.push_back(build.one_table("positions", position_table_name(), model.max_positions));
  }
  for (int64_t layer = shape.first_layer; layer < shape.last_layer; ++layer)
    chunks.push_back(build.layer(layer));
  if (shape.has_head) {
    chunks.push_back(build.head());
    if (model.tied && !shape.has_embedding) {
      chunks.push_back(build.one_table("embedding", table, model.vocab));
      chunks.back().tied_copy = true;
    }
  }
  return chunks;
}

}  // namespace troupe::gpu
