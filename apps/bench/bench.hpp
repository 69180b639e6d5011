// `troupe bench`: what this machine does, measured against a ceiling in the same run.
#pragma once

#include "apps/shell.hpp"

namespace troupe::apps {

/// `troupe bench messages`: rate and latency of msg<T> beside bare CAF with the same payloads.
void add_bench_messages(shell& sh, command* bench);

/// `troupe bench recorder`: what the flight recorder costs, against the same actors without it.
void add_bench_recorder(shell& sh, command* bench);

/// `troupe bench checkpoint`: what a checkpoint in every iteration costs, in ours and others' ways.
void add_bench_checkpoint(shell& sh, command* bench);

/// `troupe bench`: all of the benchmarks, a subcommand each.
void add_bench(shell& sh);

}  // namespace troupe::apps
