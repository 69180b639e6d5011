// The residual network of NCPP: a token per feature, attention within each group of features and
// between the groups, a linear layer.
//
//   number      z * w_f + b_f, or its mask where it is absent          token [d]
//   category    a row of its table; row 0 for levels never seen         token [d]
//   block       x += Wo Attn(LN(x));  x += W2 relu(W1 LN(x) + b1) + b2   h heads, each d wide,
//               logits / sqrt(d)
//   group       its block, then the mean over its tokens
//   network     the block between groups over the groups' tokens, the mean over groups [d] (what
//               neighbours are found by), a linear layer to the outputs
//
// Tokens per feature, where NCPP's public code has a convolution over features in an arbitrary
// order. `published` puts three of that code's defects back, as a foil: the block between groups is
// left out of the result, logits are divided by d * d * heads, and the second part of a block is
// one linear layer.
//
// Invariants
// NCP-1 One thread; the same seed and rows give the same bits.
// NCP-2 A new network's linear layer is zero: an untrained one changes nothing of the trunk's
//       predictions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpu/predict/encoder.hpp"

namespace troupe::gpu::predict {

struct network_shape {
  std::vector<int> group_of_number;  ///< by number: 0 .. groups - 1, in the order of their coming
  int groups = 0;                    ///< of numbers
  std::vector<int> levels;           ///< by category
  int outputs = 1, width = 64, hidden = 128, heads = 2;
  bool published = false;
  bool intra = true, inter = true;  ///< has the blocks within groups, the one between them

  bool between_groups() const noexcept { return inter && !published; }
};
/// The shape that a model's features ask for.
network_shape shape_of(const ModelT& m, const io::perf::saved::NetworkT& sizes);

struct training_options {
  uint64_t seed = 0;
  int passes = 40;
  int batch = 32;
  float lr = 1e-3f, weight_decay = 0.05f, clip = 1.0f;
  int warmup = 100;  ///< steps
  /// Chances that a number is masked, and a level taken for unseen, in a pass.
  float forget_number = 0.03f, forget_level = 0.1f;
};

class network {
 public:
  /// A new one, by a seed.
  network(network_shape shape, uint64_t seed);
  /// A saved one: parameters as parameters() gave them.
  network(network_shape shape, std::vector<float> parameters);
  ~network();
  network(network&&) noexcept;
  network& operator=(network&&) noexcept;

  const std::vector<float>& parameters() const noexcept;
  std::vector<float>& parameters() noexcept;

  struct answers {
    std::vector<float> outputs;     ///< [rows, outputs]
    std::vector<float> embeddings;  ///< [rows, width]
  };
  answers ask(const network_rows& rows);

  /// What is attended to, in shares: means over rows, heads and the tokens that ask.
  struct attention {
    std::vector<double> groups;  ///< of numbers, then that of all categories; without a block: none
    std::vector<double> numbers, categories;  ///< each of its group's; without blocks: none
  };
  attention attended(const network_rows& rows);

  /// Mean Huber loss (delta 1) over the picked rows, by their weights, and all outputs; targets
  /// [rows, outputs]; its gradient by parameters goes to gradient(), which it replaces.
  double loss(const network_rows& rows, std::span<const float> targets,
              std::span<const int> picked);
  const std::vector<float>& gradient() const noexcept;
  /// The same loss over all rows, without its gradient.
  double loss_over(const network_rows& rows, std::span<const float> targets);

  /// AdamW with a warm-up and a cosine; `tell` after each pass with its mean loss.
  void train(const network_rows& rows, std::span<const float> targets,
             const training_options& options, const std::function<void(int, double)>& tell);

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::gpu::predict
