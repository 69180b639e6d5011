// What clocks cost: measured time and energy of each stage's forward and backward, by clock.
//
//   stage,instruction,frequency,time,energy
//   0,forward,1410,0.0501,23.8
//
// Frequencies are MHz, times seconds, energies joules of one micro-batch. Lines begin with the
// heading above; blank lines and those that begin with # are passed over, but for one that says of
// what micro-batches the rows are; the order of rows is free.
//
//   # micro_batch = 2, seq_len = 1024
//
// Invariants
//   PCL-1  What is refused is named with its line, what was expected and what was found.
//   PCL-2  A profile that was read has 1 to `most_stages` stages from 0 on without a gap, each with
//     a forward and a backward of 1 to `most_clocks` clocks, fastest clock first, none twice; every
//     row draws `least_w` to `most_w` watts on average. It survives its own text.
//   PCL-3  What a micro-batch is stands there once at most, whole; a file without that line is read
//     as one of any micro-batches, as those are that were written before there was one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::power {

inline constexpr error_kind<size_t, std::string> bad_profile{
    "bad_profile", errc::bad_data, "line {}: {}",
    "a line is stage,instruction,frequency,time,energy: 0,forward,1410,0.0501,23.8 (MHz, s, J)"};

/// What a stage does with a micro-batch.
enum class instruction : uint8_t { forward, backward };
inline constexpr size_t instructions = 2;
std::string_view to_string(instruction which);

/// One instruction at one clock.
struct clock_row {
  int frequency_mhz = 0;
  double time_s = 0;
  double energy_j = 0;
  bool operator==(const clock_row&) const = default;
};

/// What a stage does at once.
struct micro_batch_size {
  int64_t rows = 0, tokens = 0;  ///< sequences, and tokens of each
  bool operator==(const micro_batch_size&) const = default;
};

struct clock_profile {
  static constexpr size_t most_bytes = 8 << 20;
  static constexpr int most_stages = 256;
  static constexpr size_t most_clocks = 1024;
  static constexpr int mhz_ceiling = 100'000;
  static constexpr double s_ceiling = 1e5;
  static constexpr int64_t size_ceiling = 1'000'000'000;
  static constexpr double least_w = 1, most_w = 20'000;

  /// By stage, then by instruction; fastest clock first.
  std::vector<std::array<std::vector<clock_row>, instructions>> stages;
  /// Of which its rows are; none: it says nothing of that. PCL-3
  std::optional<micro_batch_size> of = {};

  const std::vector<clock_row>& rows(int stage, instruction which) const {
    return stages[static_cast<size_t>(stage)][static_cast<size_t>(which)];
  }
  /// As a file.
  std::string text() const;
};

/// A file's text. Errors: bad_profile.
result<clock_profile> parse_profile(std::string_view text);

}  // namespace troupe::power
