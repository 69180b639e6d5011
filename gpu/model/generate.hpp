// Generation: a prompt in, tokens out, one at a time, with cached keys and values.
//
// Why not the stage model: a new token needs one row through the layers, not a window of them. The
// layers are the same (layer.hpp); only attention differs, because its keys come from the cache
// (ops::attention_cached), which is in the device's memory. It holds the packed q, k, v rows of
// every position, so the qkv product writes straight into it.
//
// Invariants
// GEN-1 The same weights, prompt, options and number of threads give the same tokens.
// GEN-2 When the context is full, generation goes on from the last half of it.
// GEN-3 Of what the repetition penalty is for, all of the prompt and all that was picked is
//   remembered, also where the context holds it no longer.
// GEN-4 On every device a token costs the products of its own row and one query over the cached
//   keys and values: nothing of the text before it is computed again, and no memory is added.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/model/layer.hpp"
#include "gpu/model/sampler.hpp"
#include "gpu/model/stage_weights.hpp"
#include "gpu/store/store.hpp"
#include "io/base/model_config.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu {

struct generate_options {
  int64_t max_tokens = 64;
  sampling_options sampling{};
  std::vector<int32_t> stop_tokens{};  ///< generation ends after one of these, which is left out
  int64_t vocab = 0;  ///< only tokens below it are picked: those a tokenizer knows; 0: all
};

class generator {
 public:
  /// `store` holds a whole model and outlives the generator; nobody writes its weights meanwhile.
  /// `context` tokens are remembered at most (0: the model's positions). `threads` 0: all.
  static result<std::unique_ptr<generator>> make(parameter_store& store, const model_config& model,
                                                 int64_t context = 0, int threads = 0);

  /// Continues `prompt` (at least one token; of a longer one than the context the end counts).
  /// `on_token`, if given, sees each token as it is picked and may end generation by false. Blocks.
  /// bad_data for a token outside the vocabulary.
  result<std::vector<int32_t>> run(const std::vector<int32_t>& prompt,
                                   const generate_options& options,
                                   const std::function<bool(int32_t)>& on_token = {});

  /// Logits [V] of the token that follows `tokens`, which come after `cached` tokens already seen.
  result<std::vector<float>> next_logits(const int32_t* tokens, int64_t count, int64_t cached);

 private:
  generator(parameter_store& store, const model_config& model, int64_t context)
      : store_(store), model_(model), context_(context) {}

  status set_up(int threads);
  void forward(const int32_t* tokens, int64_t count, int64_t cached);
  void attend(const layer_activations& acts, size_t layer, int64_t count, int64_t cached);
  void* row(void* base, int64_t index, int64_t width) const;
  dtype type() const { return store_.options().compute; }

  parameter_store& store_;
  const model_config model_;
  const int64_t context_;
  std::unique_ptr<stream> stream_;
  std::vector<layer_parameters> layers_;
  matrix_parameters table_, positions_, norm_, norm_bias_, head_;
  buffer arena_;
  buffer rope_;                ///< cosines, then sines, [context, D/2] each
  buffer tokens_;              ///< [context] int32
  std::vector<buffer> cache_;  ///< per layer [context, (H+2K)*D]
  buffer ends_;                ///< two [context, C] between layers, one [C] normed, [V] logits
  layer_activations acts_;
};

}  // namespace troupe::gpu
