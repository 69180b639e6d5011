// What a device reaches in a large matrix product: the ceiling that training is compared with.
//
// Why: "% of peak" is only honest against a ceiling taken on the same device in the same minute. On
// the host that is the multiply-adds of its registers (gpu/host/peak.hpp); a GPU's is the best
// that its library reaches on a square product, taken in turn with what is measured.
#pragma once

#include <memory>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/host/peak.hpp"

namespace troupe::apps {

class product_peak {
 public:
  /// For `owner` and the type; `threads` and `clock` matter to the host. Allocates three matrices
  /// of `side` squared elsewhere. Fails as they do.
  static result<product_peak> make(gpu::device& owner, gpu::dtype type, int threads,
                                   gpu::time_kind clock, int64_t side = 8192);

  /// Floating-point operations a second, now. Blocks for some milliseconds.
  result<double> sample();

 private:
  status fill();

  std::unique_ptr<gpu::peak_meter> registers_;  // the host's
  gpu::device* owner_ = nullptr;                // any other device's
  std::unique_ptr<gpu::stream> stream_;
  std::vector<gpu::buffer> matrices_;
  gpu::dtype type_ = gpu::dtype::f32;
  int64_t side_ = 0;
};

}  // namespace troupe::apps
