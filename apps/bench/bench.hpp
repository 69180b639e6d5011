// `troupe bench`: what this machine does, measured against a ceiling in the same run.
#pragma once

#include <span>

#include "apps/bench/checkpoint_ways.hpp"
#include "apps/bench/recovery_round.hpp"
#include "apps/shell.hpp"

namespace troupe::apps {

/// `troupe bench peak`: the machine's ceiling, per type and number of threads.
void add_bench_peak(shell& sh, command* bench);

/// `troupe bench ops`: each operation of a training step at the shapes of known models.
void add_bench_ops(shell& sh, command* bench);

/// `troupe bench gpu`: ceilings, operations and tests of one device within a few minutes.
void add_bench_gpu(shell& sh, command* bench);

/// `troupe bench train`: how fast one process trains, and where the time goes.
void add_bench_train(shell& sh, command* bench);

/// `troupe bench messages`: rate and latency of msg<T> beside bare CAF with the same payloads.
void add_bench_messages(shell& sh, command* bench);

/// `troupe bench checkpoint`: what a checkpoint in every iteration costs; in `rivals`, too.
void add_bench_checkpoint(shell& sh, command* bench,
                          std::span<const ckpt_bench::way_kind> rivals = {});

/// `troupe bench recovery`: how long a job is away that loses a node; that of `rivals`, too.
void add_bench_recovery(shell& sh, command* bench,
                        std::span<const recovery_bench::way> rivals = {});

/// `troupe bench swap`: training whose state lives on a drive, in several ways and in memory.
void add_bench_swap(shell& sh, command* bench);

/// `troupe bench power`: what power budgets cost, and how well jobs keep them.
void add_bench_power(shell& sh, command* bench);

/// `troupe bench predict`: how well step times are foretold by what is learned of earlier ones.
void add_bench_predict(shell& sh, command* bench);

/// `troupe bench`: all of the benchmarks, a subcommand each.
void add_bench(shell& sh);

}  // namespace troupe::apps
