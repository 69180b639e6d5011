// The cached forward pass and the loop around it.
#include "gpu/model/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "gpu/model/rope_table.hpp"
#include "gpu/model/stage_memory.hpp"
#include "gpu/model/tensor_names.hpp"
#include "io/formats/safetensors.hpp"

namespace troupe::gpu {

result<std::unique_ptr<generator>> generator::make(parameter_store& store,
                                                   const model_config& model, int64_t context,
                                                   int threads) {
  TROUPE_CHECK(model.check());
  if (context <= 0 || context > model.max_positions) context = model.max_positions;
  std::unique_ptr<generator> out(new generator(store, model, context));
  TROUPE_CHECK(out->set_up(threads));
  return out;
}

status generator::set_up(int threads) {
  device& owner = store_.owner();
  if (threads <= 0) threads = owner.facts().threads;
  TROUPE_TRY(made, owner.make_stream({.name = "generate", .threads = threads}));
  stream_ = std::move(made);
  table_ = find_matrix(store_, token_table_name(model_.family));
  norm_ = find_matrix(store_, final_norm_name(model_.family, false));
  if (model_.family == model_family::gpt2) {
    positions_ = find_matrix(store_, position_table_name());
    norm_bias_ = find_matrix(store_, final_norm_name(model_.family, true));
  }
  head_ = find_head(store_, model_);
  auto allocate = [&](buffer& where, int64_t elements, size_t bytes) -> status {
    auto memory = owner.allocate(static_cast<size_t>(elements) * bytes);
    if (!memory) return memory.error().within("generation");
    where = std::move(*memory);
    return {};
  };
  const size_t bytes = size_of(type());
  for (int64_t i = 0; i < model_.layers; ++i) {
    layers_.push_back(find_layer(store_, model_, i));
    cache_.emplace_back();
    TROUPE_CHECK(allocate(cache_.back(), context_ * model_.qkv_width(), bytes));
  }
  const auto arena = lay_out_layer(model_, 1, context_, type(), nullptr, acts_);
  TROUPE_CHECK(allocate(arena_, static_cast<int64_t>(arena), 1));
  lay_out_layer(model_, 1, context_, type(), arena_.data(), acts_);
  TROUPE_CHECK(allocate(tokens_, context_, sizeof(int32_t)));
  TROUPE_CHECK(allocate(ends_, (2 * context_ + 1) * model_.hidden + model_.vocab + 64, bytes));
  if (model_.family != model_family::llama) return {};
  const rope_table table = make_rope_table(model_, context_);
  const size_t half = table.cosine.size() * sizeof(float);
  TROUPE_CHECK(allocate(rope_, static_cast<int64_t>(half), 2));
  stream_->copy(rope_.data(), table.cosine.data(), half);
  stream_->copy(rope_.as<std::byte>() + half, table.sine.data(), half);
  return stream_->synchronize();
}

void* generator::row(void* base, int64_t index, int64_t width) const {
  return static_cast<std::byte*>(base) + static_cast<size_t>(index * width) * size_of(type());
}

void generator::attend(const layer_activations& acts, size_t layer, int64_t count, int64_t cached) {
  gpu::ops& ops = store_.owner().ops();
  const void* rows = cache_[layer].data();
  if (cached == 0)  // many queries: what is made for them
    return ops.attention_forward(*stream_, {.batch = 1,
                                            .seq = count,
                                            .heads = model_.heads,
                                            .kv_heads = model_.kv_heads,
                                            .head_width = model_.head_width,
                                            .window = model_.sliding_window,
                                            .type = type(),
                                            .qkv = rows,
                                            .out = acts.attended,
                                            .lse = acts.lse});
  ops.attention_cached(*stream_, {.seq = cached + count,
                                  .queries = count,
                                  .heads = model_.heads,
                                  .kv_heads = model_.kv_heads,
                                  .head_width = model_.head_width,
                                  .window = model_.sliding_window,
                                  .type = type(),
                                  .qkv = rows,
                                  .out = acts.attended});
}

void generator::forward(const int32_t* tokens, int64_t count, int64_t cached) {
  gpu::ops& ops = store_.owner().ops();
  void* x = ends_.data();
  void* y = row(x, context_, model_.hidden);
  stream_->copy(tokens_.data(), tokens, static_cast<size_t>(count) * sizeof(int32_t));
  // The table's row of the first new position stands where position 0 does.
  const void* positions = nullptr;
  if (positions_.weight)
    positions = row(const_cast<void*>(positions_.weight), cached, model_.hidden);
  ops.embedding_forward(*stream_, {1, count, model_.hidden, model_.vocab, type(),
                                   tokens_.as<int32_t>(), table_.weight, positions, x});
  const float* cosine = rope_.as<float>();
  for (size_t i = 0; i < layers_.size(); ++i) {
    layer_pass pass;
    pass.s = stream_.get();
    pass.ops = &ops;
    pass.model = &model_;
    pass.type = type();
    pass.batch = 1;
    pass.seq = count;
    pass.first_position = cached;
    pass.cosine = cosine;
    pass.sine = cosine ? cosine + context_ * model_.head_width / 2 : nullptr;
    pass.weight_version = store_.weight_version(layers_[i].chunk);
    layer_activations acts = acts_;
    acts.qkv = row(cache_[i].data(), cached, model_.qkv_width());
    forward_layer(pass, layers_[i].weights, x, acts, y,
                  [&](const layer_activations& a) { attend(a, i, count, cached); });
    std::swap(x, y);
  }
  norm_forward_args n{};
  n.kind = model_.norm();
  n.tokens = 1;
  n.width = model_.hidden;
  n.type = type();
  n.eps = static_cast<float>(model_.norm_eps);
  n.x = row(x, count - 1, model_.hidden);
  n.weight = norm_.weight;
  n.bias = norm_bias_.weight;
  n.y = row(ends_.data(), 2 * context_, model_.hidden);
  n.mean = acts_.mean1;
  n.rstd = acts_.rstd1;
  ops.norm_forward(*stream_, n);
  ops.linear_forward(*stream_,
                     {1, model_.hidden, model_.vocab, type(), n.y, head_.weight, nullptr, nullptr,
                      row(n.y, 1, model_.hidden), store_.weight_version(head_.chunk)});
}

result<std::vector<float>> generator::next_logits(const int32_t* tokens, int64_t count,
                                                  int64_t cached) {
  assert(count >= 1 && cached >= 0 && cached + count <= context_);
  forward(tokens, count, cached);
  const auto vocab = static_cast<size_t>(model_.vocab);
  const void* logits = row(ends_.data(), 2 * context_ + 1, model_.hidden);
  std::vector<float> out(vocab);
  if (type() == dtype::f32) {
    stream_->copy(out.data(), logits, vocab * sizeof(float));
    TROUPE_CHECK(stream_->synchronize());
    return out;
  }
  std::vector<uint16_t> bits(vocab);
  stream_->copy(bits.data(), logits, vocab * sizeof(uint16_t));
  TROUPE_CHECK(stream_->synchronize());
  std::transform(bits.begin(), bits.end(), out.begin(), io::bf16_to_f32);
  return out;
}

result<std::vector<int32_t>> generator::run(const std::vector<int32_t>& prompt,
                                            const generate_options& options,
                                            const std::function<bool(int32_t)>& on_token) {
  if (prompt.empty())
    return error{errc::usage, "an empty prompt", "give at least one token to go on from"};
  for (int32_t token : prompt)
    if (token < 0 || token >= model_.vocab)
      return error{errc::bad_data, fmt::format("token {} of the prompt is outside the model's "
                                               "vocabulary of {}",
                                               token, model_.vocab)};
  sampler pick(options.sampling);
  for (int32_t token : prompt) pick.saw(token);
  const auto longest = static_cast<size_t>(std::max<int64_t>(1, context_ - 1));
  std::vector<int32_t> seen(
      prompt.size() > longest ? prompt.end() - static_cast<ptrdiff_t>(longest) : prompt.begin(),
      prompt.end());
  std::vector<int32_t> out;
  size_t cached = 0;
  while (static_cast<int64_t>(out.size()) < options.max_tokens) {
    if (static_cast<int64_t>(seen.size()) > context_) {  // GEN-2
      seen.erase(seen.begin(), seen.end() - std::max<ptrdiff_t>(1, context_ / 2));
      cached = 0;
    }
    TROUPE_TRY(logits, next_logits(seen.data() + cached, static_cast<int64_t>(seen.size() - cached),
                                   static_cast<int64_t>(cached)));
    cached = seen.size();
    if (options.vocab > 0 && options.vocab < std::ssize(logits))
      logits.resize(static_cast<size_t>(options.vocab));
    const int32_t token = pick.pick(logits);
    const auto& stops = options.stop_tokens;
    if (std::find(stops.begin(), stops.end(), token) != stops.end()) break;
    out.push_back(token);
    seen.push_back(token);
    pick.saw(token);
    if (on_token && !on_token(token)) break;
  }
  return out;
}

}  // namespace troupe::gpu
