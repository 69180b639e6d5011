// The softmax and its cross-entropy gradient, one row of logits at a time.
#include "gpu/host/kernels/kernels.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {
namespace {

/// gradient = factor * e^(logits - top), less `scale` at the target.
template <class T>
void write_gradient(const float* logits, int64_t vocab, float top, float factor, int32_t target,
                    float scale, T* gradient) {
  const vf at_target = splat(logits[target]);  // in place: what follows overwrites it
  for_vectors(vocab, [&](int64_t v, int n) {
    store_some(gradient + v, factor * exp(load_some(logits + v, n) - top), n);
  });
  store(gradient + target, factor * exp(at_target - top) - scale, 1);
}

}  // namespace

double softmax_row(const float* logits, int64_t vocab, int32_t target, float scale, void* gradient,
                   dtype type) {
  if (target < 0) {
    if (gradient != nullptr) {
      __builtin_memset(gradient, 0, static_cast<size_t>(vocab) * size_of(type));
    }
    return 0;
  }
  vf top = splat(logits[0]);
  for_vectors(vocab, [&](int64_t v, int n) {
    const vf x = load_some(logits + v, n);
    top = max(top, n == W ? x : blend_first(x, top, n));
  });
  const float highest = max(top);
  double total = 0;
  for (int64_t begin = 0; begin < vocab; begin += 4096) {  // long sums stay accurate
    const int64_t count = vocab - begin < 4096 ? vocab - begin : 4096;
    vf part{};
    for_vectors(count, [&](int64_t v, int n) {
      const vf e = exp(load_some(logits + begin + v, n) - highest);
      part += n == W ? e : first_lanes(e, n);
    });
    total += static_cast<double>(sum(part));
  }
  const double lse = static_cast<double>(highest) + __builtin_log(total);
  const double loss = lse - static_cast<double>(logits[target]);
  if (gradient == nullptr) return loss;
  const auto factor = static_cast<float>(static_cast<double>(scale) / total);
  if (type == dtype::bf16) {
    write_gradient(logits, vocab, highest, factor, target, scale,
                   static_cast<bf16_bits*>(gradient));
  } else {
    write_gradient(logits, vocab, highest, factor, target, scale, static_cast<float*>(gradient));
  }
  return loss;
}

}  // namespace troupe::gpu::host::TROUPE_VARIANT
