// Picks the next token from logits: repetition penalty (Keskar et al. 2019), then temperature,
// top-k, top-p (nucleus sampling, Holtzman et al. 2020), seeded.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace troupe::gpu {

/// How to pick. The defaults are the plain softmax.
struct sampling_options {
  double temperature = 1.0;  ///< 0: always the likeliest
  int64_t top_k = 0;         ///< only the k likeliest; 0: all
  double top_p = 1.0;        ///< only the likeliest that together reach p; 1: all
  double repetition_penalty = 1.0;  ///< above 0; above 1: seen tokens are less likely; 1: off
  uint64_t seed = 1234;
};

/// The same options, tokens seen and logits give the same tokens.
class sampler {
 public:
  explicit sampler(const sampling_options& options) : options_(options), state_(options.seed) {}

  /// A token of the prompt, or one that was picked: from now on its repetition is penalised.
  void saw(int32_t token);

  /// An index of `logits`; ties go to the lower index. Logits that are not numbers are never
  /// picked.
  int32_t pick(std::span<const float> logits);

 private:
  double uniform();
  float penalised(float logit, size_t token) const;

  sampling_options options_;
  uint64_t state_;
  std::vector<bool> seen_;  ///< by token; those behind its end were not seen
  std::vector<std::pair<float, int32_t>> ranked_;
};

}  // namespace troupe::gpu
