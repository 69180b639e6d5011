// The journal of a row's policy (power.jsonl): what it was asked and what it decided.
//
// A line of JSON each: first the terms, from which the rules follow, then each decision that
// changed something, with the state before it, the reading, and the state after it. So every line
// can be decided again by itself, on another day, by another version: a replay says whether the
// policy would still do the same there, and if not, where it first differs. Ticks that changed
// nothing are not kept: whether another version would have changed something then is not seen.
//
// Invariants
//   RJN-1  Numbers are written so that they are read back as they were, bit by bit.
//   RJN-2  What is no journal is refused with its line; a line has at most `most_line_bytes`.
//   RJN-3  A decision that is missing before a line is seen: levels, brakes and their times follow
//     each other from a row where nothing has been commanded yet. What is missing at the end is
//     not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "actors/power/row_policy.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::power {

inline constexpr error_kind<size_t, std::string> bad_row_journal{
    "bad_row_journal", errc::bad_data, "line {}: {}",
    "a journal is what troupe power sim --journal or power replay --journal writes"};

/// From which the rules follow.
struct row_terms {
  row_rule rule = row_rule::polca;
  row_thresholds thresholds;
  int64_t actuation_ns = 0, tick_ns = 0;
  int release_groups = 1;

  row_rules rules() const;
};

struct row_record {
  int64_t now_ns = 0;
  row_state before;
  row_sample sample;
  row_decision decided;

  /// Whether something was commanded, or a brake came to be what it is.
  bool is_worth_keeping() const;
};

std::string to_line(const row_terms& terms);
std::string to_line(const row_record& r);

struct row_difference {
  size_t line = 0;
  std::string expected, found;  ///< as lines; equal but for what differs
};

/// What a replay came to.
struct row_replay {
  row_terms terms;
  size_t decisions = 0;  ///< that are kept, and decided again
  uint32_t brakes = 0;
  std::optional<row_difference> first_difference;
};

class row_journal {
 public:
  static constexpr size_t most_line_bytes = 4096;

  /// Decides every line again, until one differs. Error: bad_row_journal.
  static result<row_replay> replay(std::string_view text);
};

}  // namespace troupe::power
