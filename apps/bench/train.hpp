// `troupe bench train`: how fast one process trains, and where the time goes.
#pragma once

#include "apps/shell.hpp"

namespace troupe::apps {

/// Registers `train` under the verb `bench`.
void add_bench_train(shell& sh, command* bench);

}  // namespace troupe::apps
