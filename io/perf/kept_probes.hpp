// What a machine was measured to do, kept among its facts for the next program: so that a restart
// does not pay again.
//
// Invariants
//   HWK-1  What is kept is used only for the same start of the machine, GPUs, threads and disk, and
//     of this program (FACT-1): clocks, limits and neighbours may be others after a restart. Where
//     the start is not known nothing is used.
//   HWK-2  What was measured quickly does not stand for what was asked for in full.
//   HWK-3  No number of a file that is not finite and above 0 is believed; a file that was damaged
//     is as absent, by its sum.
//   HWK-4  Of those who lock, one measures a machine at a time: two would halve what both find.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/file.hpp"
#include "io/machine/facts.hpp"
#include "io/perf/hw_profile.hpp"

namespace troupe::io::perf {

/// What measurements belong to (HWK-1).
struct probe_key {
  std::string boot_id;
  std::vector<std::string> gpus;  ///< UUIDs, in their order
  int threads = 0;
  std::string disk;  ///< "254:0"; empty: none
  bool full = false;
  /// Of processors and memory alone: kept beside what is measured of the whole, and in its place
  /// for nobody else.
  bool host_only = false;
};

/// A profile with the group probe alone.
std::optional<hw_profile> find_probes(const fact_store& store, const probe_key& key,
                                      std::chrono::hours max_age);

/// Keeps the group probe of a profile.
void keep_probes(const fact_store& store, const probe_key& key, const hw_profile& measured);

/// Another process measures this machine, for longer than was waited: the lock's file.
inline constexpr error_kind<std::string_view> probes_busy{
    "probes_busy", errc::unavailable, "another process measures this machine and holds {}",
    "try again when it has ended"};

/// The right to measure (HWK-4), for as long as the descriptor is open; one that owns nothing where
/// no file can be locked. Errors: probes_busy.
result<unique_fd> lock_probes(const fact_store& store, std::chrono::milliseconds patience);

}  // namespace troupe::io::perf
