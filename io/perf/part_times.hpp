// What parts of steps took, kept by a job for its next starts, and for other jobs that are told of
// the same file.
//
//   line := JSON of a part_time ' ' crc32c(that JSON), 8 hexadecimal digits '\n'
//
// Jobs may add at once (summed_lines.hpp). A line that is torn, damaged or of a later version is
// left out and counted. A line of an earlier release has no machine: whichever bears the name; and
// no run, and does not say of which work it is.
//
// Invariants
//   PTM-1  No number of a file that is not finite, or out of range, is believed.
//   PTM-2  A file that is none of this program's is put aside under another name, not lost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"
#include "io/perf/machine_print.hpp"

namespace troupe::io::perf {

/// The newest are kept.
inline constexpr size_t most_part_times = 20'000;
/// Of a line.
inline constexpr size_t max_part_time_bytes = 2048;

/// Of a name: what is behind is left out.
inline constexpr size_t part_name_bytes = 256;

/// What a part took, of some configuration on a node.
struct part_time {
  std::string part;              ///< "backward"; "step": all of it
  std::string node;              ///< empty: of all nodes together
  std::vector<double> features;  ///< above 0
  double seconds = 0;
  uint64_t samples = 0;  ///< of which this is the mean
  machine_print machine = {};  ///< the node's; of all nodes together what they are
  uint64_t run = 0;            ///< equal of what one start of a job has kept; 0: not known
  uint64_t work_sum = 0;       ///< equal of equal work, beside its features; 0: not known
  bool operator==(const part_time&) const = default;
};

struct part_times {
  std::vector<part_time> times;  ///< the oldest first
  size_t left_out = 0;           ///< lines that could not be read (PTM-1)
};

/// A line without its end, and back. Nothing for what is damaged.
std::string part_time_line(const part_time& time);
std::optional<part_time> parse_part_time(std::string_view line);

/// Nothing where the file is not there. Errors: io, permission; no_summed_lines.
result<part_times> read_part_times(const std::filesystem::path& file);

/// Whether times can be kept there: the file is not there, or is one of them. Errors: the same.
status check_part_times(const std::filesystem::path& file);

/// Makes the file and its folder where they are not there. Errors: io, permission;
/// summed_lines_busy; no_summed_lines.
status add_part_times(const std::filesystem::path& file, std::span<const part_time> times);

/// Takes a node's times out of it; how many. Errors: io, permission; summed_lines_busy;
/// no_summed_lines.
result<size_t> forget_part_times(const std::filesystem::path& file, std::string_view node);

/// Gives the file another name, "NAME.damaged" or one with a number more; that name. Errors: io,
/// permission.
result<std::filesystem::path> put_part_times_aside(const std::filesystem::path& file);

}  // namespace troupe::io::perf
