// A matrix product whose bits are known, through the kernels that training uses: what tells a
// processor or a GPU that computes wrongly from one that does not.
//
// Why whole numbers: products and sums of theirs are exact in float32, so that every order and
// every instruction set must give the same bits, those of a plain loop over integers. They leave
// most of a significand empty. So a second product of full ones is made, whose bits depend on the
// kernel but not on which core ran it.
//
// Invariants
//   KNP-1  The wanted values are computed once, by integers, before anything is checked.
//   KNP-2  No sum reaches 2^24: each intermediate value of any order is exact.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpu/device.hpp"

namespace troupe::gpu {

class known_product {
 public:
  /// y[T,O] = x[T,I] w[O,I].
  static constexpr int64_t tokens = 96, out = 96, in = 512;

  /// What one product came to.
  struct answer {
    uint64_t wrong = 0;  ///< elements that are not the known ones
    uint64_t hash = 0;   ///< of the second product; 0 on a device
  };

  /// Changes what a device computed, for tests.
  using spoiler = std::function<void(std::span<float> product)>;

  known_product();

  /// Float32 and bfloat16, on the calling thread, with this machine's kernels.
  answer on_this_thread(const spoiler& spoil = {});

  /// Float32 and bfloat16, as a layer of a model is computed. Blocks. Errors: the device's.
  result<answer> on_device(device& owner, const spoiler& spoil = {}) const;

 private:
  uint64_t wrong_in(std::span<const float> product) const;
  uint64_t wrong_in(std::span<const uint16_t> product) const;

  std::vector<float> x_, w_, wanted_;         // whole numbers
  std::vector<uint16_t> x_bf16_, w_bf16_;     // the same ones
  std::vector<uint16_t> wanted_bf16_;
  std::vector<float> full_x_, full_w_;
  std::vector<float> product_;
  std::vector<std::byte> scratch_;
};

/// Which of these hashes are of a minority: their places. All of them where no hash is more than
/// half of all.
std::vector<size_t> minority(std::span<const uint64_t> hashes);

}  // namespace troupe::gpu
