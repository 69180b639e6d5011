// A file of lines, each with its sum, that several processes add to.
//
//   line := TEXT ' ' crc32c(TEXT), 8 hexadecimal digits '\n'
//
// Why lines: who adds at the same time adds behind, and what a crash tears is one line. A line that
// is torn or damaged is left out by whoever reads, nothing else of the file is.
//
// Invariants
//   SML-1  What is added is added whole or not at all; who adds at the same time does so before or
//     after.
//   SML-2  The newest `kept` lines stay: adding beyond half more drops the oldest.
//   SML-3  A file that is none of ours stays as it is.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io::perf {

/// Another kind of file has its name.
inline constexpr error_kind<std::string_view> no_summed_lines{
    "no_summed_lines", errc::bad_data, "no line of {} is one of this program's: each has a sum"};

/// Somebody has had it for a second: whoever adds to it has been stopped, or hangs.
inline constexpr error_kind<std::string_view> summed_lines_busy{
    "summed_lines_busy", errc::unavailable, "{} is locked by another process"};

/// What a file may hold.
struct summed_file {
  size_t kept = 0;        ///< lines (SML-2)
  size_t line_bytes = 0;  ///< of a line, with its sum
};

/// The line of a text without a line's end, and back; empty for what has no right sum, or is longer
/// than that.
std::string summed_line(std::string_view text);
std::string_view summed_text(std::string_view line, size_t line_bytes);

/// All lines, also those without a right sum; none where the file is not there. Errors: io,
/// permission; no_summed_lines.
result<std::vector<std::string>> read_summed_lines(const std::filesystem::path& file,
                                                   const summed_file& of);

/// Takes lines out of the file, if it is there; how many. Waits for whoever adds meanwhile, for a
/// second at most. Errors: io, permission; summed_lines_busy; no_summed_lines.
result<size_t> drop_summed_lines(const std::filesystem::path& file, const summed_file& of,
                                 const std::function<bool(std::string_view)>& is_dropped);

/// Makes the file and its folder where they are not there. Waits for whoever adds meanwhile, for a
/// second at most. Errors: io, permission; summed_lines_busy; no_summed_lines.
status add_summed_lines(const std::filesystem::path& file, const summed_file& of,
                        std::span<const std::string> lines);

}  // namespace troupe::io::perf
