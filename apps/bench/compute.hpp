// The benchmarks of computing: `troupe bench peak`, `troupe bench ops` and `troupe bench gpu`.
#pragma once

#include "apps/shell.hpp"

namespace troupe::apps {

/// `troupe bench peak`: the machine's ceiling, per type and number of threads.
void add_bench_peak(shell& sh, command* bench);

/// `troupe bench ops`: each operation of a training step at the shapes of known models.
void add_bench_ops(shell& sh, command* bench);

/// `troupe bench gpu`: ceilings, operations and tests of one device within a few minutes.
void add_bench_gpu(shell& sh, command* bench);

}  // namespace troupe::apps
