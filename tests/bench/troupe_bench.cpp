// `troupe-bench`, for who develops Troupe: it beside the field's ways to checkpoint, and beside
// CAF's own actors. What a user asks of his machine is answered by `troupe bench`.
#include "apps/bench/bench.hpp"
#include "tests/bench/torchrun.hpp"
#include "tests/bench/ways.hpp"

int main(int argc, char** argv) {
  using namespace troupe::apps;
  shell sh{.app = command("troupe-bench")};
  sh.app.description("Measures Troupe beside what others do.");
  sh.app.require_subcommand(1);
  add_bench_checkpoint(sh, &sh.app, ckpt_bench::rival_ways());
  add_bench_recovery(sh, &sh.app, recovery_bench::rival_ways());
  add_bench_recorder(sh, &sh.app);
  return run(sh, argc, argv);
}
