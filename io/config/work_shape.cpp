// Keys to numbers: see work_shape.hpp.
#include "io/config/work_shape.hpp"

#include <algorithm>

namespace troupe::config {

std::vector<double> work_shape_of(const job& of) {
  const auto& m = of.model;
  const auto above_0 = [](int64_t x) { return static_cast<double>(std::max<int64_t>(x, 1)); };
  return {above_0(m.layers),
          above_0(m.hidden),
          above_0(of.train.batch),
          above_0(of.train.micro_batch),
          above_0(of.train.seq_len),
          above_0(of.parallel.data),
          above_0(of.parallel.pipeline),
          above_0(of.cluster.threads),
          m.dtype == compute_dtype::bf16 ? 2.0 : 4.0,
          of.cluster.device == device_kind::cuda ? 2.0 : 1.0,
          m.recompute ? 2.0 : 1.0,
          of.train.optimizer == optimizer_kind::lamb ? 2.0 : 1.0};
}

}  // namespace troupe::config
