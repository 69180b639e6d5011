// What a device reaches in a large matrix product: the ceiling that training is compared with.
//
// Why: "% of peak" is only honest against a ceiling taken on the same device. On the host that is
// the multiply-adds of its registers (apps/ceiling.hpp); a GPU's is the best that its library
// reaches on a square product, taken in turn with what is measured.
#pragma once

#include <memory>
#include <vector>

#include "apps/ceiling.hpp"
#include "gpu/device.hpp"

namespace troupe::apps {

class product_peak {
 public:
  /// For `owner` and the type; `threads` matter to the host. Allocates three matrices of `side`
  /// squared elsewhere. Fails as they do.
  static result<product_peak> make(gpu::device& owner, gpu::dtype type, int threads,
                                   int64_t side = 8192);

  /// Takes one more sample. Blocks for some milliseconds.
  status sample();
  /// Floating-point operations a second: the best of the samples.
  double flops() const { return registers_ ? registers_->flops() : best_; }

 private:
  status fill();

  std::unique_ptr<ceiling> registers_;  // the host's
  gpu::device* owner_ = nullptr;        // any other device's
  std::unique_ptr<gpu::stream> stream_;
  std::vector<gpu::buffer> matrices_;
  gpu::dtype type_ = gpu::dtype::f32;
  int64_t side_ = 0;
  double best_ = 0;
};

}  // namespace troupe::apps
