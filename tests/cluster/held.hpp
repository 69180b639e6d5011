// A program that is interrupted at a known point: where it is about to open a certain file.
//
// Why not by timing: what works for milliseconds is over before a test can strike, on some machine
// always, and a test of interruptions in which nothing was interrupted shows nothing. So the kernel
// holds it there (ptrace), the signal comes, and it is let go.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "tests/cluster/program.hpp"

namespace troupe::cluster_test {

/// Runs `p` until a thread of it is about to open a file whose path contains `part`; there SIGINT
/// comes. False where it was past that point, or ended before; after `limit` it is killed, which is
/// such an end. None where the kernel lets nobody trace its own processes.
std::optional<bool> interrupt_at_open(const program& p, std::string_view part,
                                      std::chrono::milliseconds limit = patience);

}  // namespace troupe::cluster_test
