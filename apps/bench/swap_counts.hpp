// Bytes that a way's engine says it has moved, against those that the kernel has seen this process
// move (SWB-3).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::swap_bench {

/// That the two may differ by of the larger one...
inline constexpr double counted_share = 0.02;
/// ... and what else a process reads meanwhile, bytes: pages of its program, for one.
inline constexpr uint64_t counted_slack_bytes = uint64_t{1} << 20;

/// Of a process so far, bytes that its reads and writes have asked of drives.
struct kernel_counts {
  uint64_t read_bytes = 0, written_bytes = 0;
};

/// From the text of /proc/PID/io. Errors: bad_data where a count is missing or no number.
result<kernel_counts> parse_kernel_counts(std::string_view text);

/// Of this process. Errors: bad_data where /proc/self/io cannot be read or lacks a count.
result<kernel_counts> kernel_counts_now();

/// Of the same steps.
struct moved_counts {
  uint64_t engine_read_bytes = 0, engine_written_bytes = 0;
  uint64_t kernel_read_bytes = 0, kernel_written_bytes = 0;
};

inline constexpr error_kind<std::string_view, std::string_view, uint64_t, uint64_t> counts_differ{
    "counts_differ", errc::training,
    "{0} has {1} {2} bytes by its own count and {3} by the kernel's (/proc/self/io)",
    "they are to agree within 2 %: does something else of this process use a drive?"};

/// Errors: counts_differ.
status compare_counts(std::string_view way, const moved_counts& counts);

}  // namespace troupe::apps::swap_bench
