// The clocks a benchmark can use: the wall's, or the processor time of this process or thread.
//
// Why: on a machine shared with other work, time on the wall measures the others as well. With one
// compute thread processor time does not; with several it counts waiting threads too.
#pragma once

#include <cstdint>
#include <ctime>

namespace troupe::gpu {

enum class time_kind : uint8_t {
  wall,
  processor,  ///< of all threads of this process
  thread,     ///< processor time of the calling thread
};

/// Seconds since some moment of the past.
inline double seconds_now(time_kind kind) noexcept {
  timespec t{};
  clock_gettime(kind == time_kind::wall        ? CLOCK_MONOTONIC
                : kind == time_kind::processor ? CLOCK_PROCESS_CPUTIME_ID
                                               : CLOCK_THREAD_CPUTIME_ID,
                &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace troupe::gpu
