// What sets a slow node's machine apart from those that it is held against, in words with values:
// "its GPU runs at 1,410 MHz, the others at 1,980".
//
// Why: a name says that something is wrong, a value lets a person see what, beside what it should
// be. Each is held against the median of the others, as far apart as machines of one kind are not.
//
// Pure.
//
// Invariants
//   MVL-1  A value that is not told, or that no machine has, says nothing, of whichever side it is.
//   MVL-2  Only what makes a node slower is told, and of it the first `values_told`.
//   MVL-3  Of GPUs it speaks only where a node has a rank for each: which of them computes is not
//     told, and one without work is slow by itself.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "messages/schemas/health_generated.h"

namespace troupe::health {

/// What machines of a kind are alike in, and what their ranks have of them. Of a node's GPUs the
/// slowest, the warmest, and the one with the least limit.
struct machine_values {
  std::optional<double> gpu_mhz = {}, gpu_limit_w = {}, gpu_c = {};
  std::optional<double> threads = {};  ///< that each of its ranks computes with
  std::optional<double> cpus =
      {};  ///< that its process may use, by its binding and its group's quota
  std::optional<double> cpu_mhz = {}, disk_sync_ms = {};
};

inline constexpr size_t values_told = 3;

/// Of a heartbeat of a node that tells of its machine.
machine_values values_in(const fbs::Vitals& said);

/// Empty: nothing does, or there are no others.
std::string differing_values(const machine_values& own, std::span<const machine_values> others);

/// "its 2 ranks have 8 threads each on 2 processors": what needs no other machine to be wrong.
/// Empty: they have no more threads than processors.
std::string crowded_threads(const machine_values& own, size_t ranks);

}  // namespace troupe::health
