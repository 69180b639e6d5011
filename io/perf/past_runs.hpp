// What runs on a machine took, kept for those that come: a line for each run that has ended.
//
//   line := JSON of a past_run ' ' crc32c(that JSON), 8 hexadecimal digits '\n'
//
// Two jobs may end at once (summed_lines.hpp). A line that is torn, damaged or of a later version
// is left out and counted, nothing else of the file is; whoever learns from it does with the
// others.
//
// What comes of it is an estimate for the next run, with an interval and what it rests on: what the
// same work took on such machines. What other work lets expect of it is apps/past_steps.hpp's. And
// the ledger: what was expected of runs before they began, against what came.
//
// How much runs of a work differ is known from few of them only roughly, and Student's t of two or
// three makes of that an interval that says nothing. So there are pseudo-runs until a work has some
// runs of its own: what is lacking to them is taken to differ as runs of other work on this machine
// do, by how far each was off the one before it of its work; where there are too few of these, as
// single steps let expect. They make the interval narrower where two runs happen to differ by much,
// and wider where they happen to be alike.
//
// Invariants
//   PST-1  A run is added whole or not at all; who adds at the same time does so before or after.
//   PST-2  At most `most_past_runs` lines are kept, the newest: adding one beyond half more drops
//     the oldest.
//   PST-3  No number of a file that is not finite, or out of range, is believed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::io::perf {

inline constexpr size_t most_past_runs = 10'000;
/// Of a line.
inline constexpr size_t max_past_run_bytes = 4096;

/// A run that made steps.
struct past_run {
  double unix_s = 0;  ///< when it ended
  std::string job;
  std::string machine;           ///< of which kind those were, and how many; equal: as quick
  std::string work;              ///< model, shape and layout; equal: steps of the same work
  double flops = 0;              ///< of a step
  double expected_s = 0;         ///< of a step, told before it began; 0: nothing was
  uint64_t steps = 0;            ///< that count: undisturbed ones
  double median_s = 0;           ///< of these, of a step
  double low_s = 0, high_s = 0;  ///< between which nine in ten of them were
  /// What that work is in numbers above 0, as many for all work; none: an earlier program's.
  std::vector<double> shape = {};
  bool operator==(const past_run&) const = default;
};

struct past_runs {
  std::vector<past_run> runs;  ///< the oldest first
  size_t left_out = 0;         ///< lines that could not be read (PST-3)
};

/// A line without its end, and back. Nothing for what is damaged.
std::string past_run_line(const past_run& run);
std::optional<past_run> parse_past_run(std::string_view line);

/// Nothing where the file is not there. Errors: io, permission; bad_data.
result<past_runs> read_past_runs(const std::filesystem::path& file);

/// Makes the file and its folder where they are not there. Waits for whoever adds meanwhile, for a
/// second at most. Errors: io, permission; unavailable; bad_data for a run that could not be read
/// back, and for a file that is none of ours: it stays as it is.
status add_past_run(const std::filesystem::path& file, const past_run& run);

/// What an estimate rests on: what the same work took, or other work.
enum class past_basis : uint8_t { same_work, other_work };

struct past_estimate {
  double step_s = 0, least_s = 0, most_s = 0;  ///< the interval: 19 of 20 runs
  past_basis basis = past_basis::same_work;
  size_t runs = 0;     ///< that it rests on
  uint64_t steps = 0;  ///< of these
};

/// Of runs of that work on machines of that kind. Nothing where there was none.
std::optional<past_estimate> estimate_step(std::span<const past_run> runs, std::string_view machine,
                                           std::string_view work);

/// How far expectations were off what came, of runs on machines of that kind.
struct past_ledger {
  size_t runs = 0;
  double median_off = 0, most_off = 0;  ///< |expected / came - 1|
};
past_ledger ledger_of(std::span<const past_run> runs, std::string_view machine);

}  // namespace troupe::io::perf
