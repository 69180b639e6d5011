// `troupe bench`: registers every benchmark; a new one is a line here.
#include "apps/bench/bench.hpp"

namespace troupe::apps {

void add_bench(shell& sh) {
  auto* bench = sh.app.add_subcommand("bench", "Measure this machine");
  bench->require_subcommand(1);
  add_bench_peak(sh, bench);
  add_bench_ops(sh, bench);
  add_bench_gpu(sh, bench);
  add_bench_train(sh, bench);
  add_bench_messages(sh, bench);
  add_bench_checkpoint(sh, bench);
  add_bench_recovery(sh, bench);
  add_bench_swap(sh, bench);
  add_bench_power(sh, bench);
  add_bench_predict(sh, bench);
}

}  // namespace troupe::apps
