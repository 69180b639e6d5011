// The steady clock, read quickly: by the processor's own counter between anchors.
//
// Why: a record needs two times, and the system's clock costs more than the rest of it.
//
// Invariants
//   FCK-1  Within a thread it never runs backwards, and it is within a microsecond of steady_clock:
//     an anchor is used for 10 ms, and the counter's rate is known from the process's whole life.
//   FCK-2  Where the processor has no counter of constant rate it is steady_clock itself.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace troupe {

namespace detail {

/// A moment on both clocks, and what the counter's ticks are worth.
struct clock_anchor {
  uint64_t ticks = 0;
  uint64_t good_for = 0;  ///< ticks
  uint64_t scale = 0;     ///< nanoseconds a tick, times 2^32
  int64_t ns = 0;
  int64_t last_ns = 0;
};

extern thread_local constinit clock_anchor this_thread_clock;

/// Takes a new anchor; the time now.
int64_t anchor_clock() noexcept;

}  // namespace detail

/// Nanoseconds of steady_clock.
inline int64_t fast_now_ns() noexcept {
#if defined(__x86_64__)
  auto& a = detail::this_thread_clock;
  const uint64_t ticks = __rdtsc();
  const uint64_t past = ticks - a.ticks;
  if (past >= a.good_for) return detail::anchor_clock();
  a.last_ns = a.ns + static_cast<int64_t>(static_cast<unsigned __int128>(past) * a.scale >> 32);
  return a.last_ns;
#else
  return detail::anchor_clock();
#endif
}

}  // namespace troupe
