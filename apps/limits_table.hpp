// Every bound of the program in one place: what is bounded, by how much, and what happens there.
//
// Why: nothing that a stranger, a file or a long run can fill grows without bound; an operator must
// be able to look up where the bounds are before meeting one.
//
// Invariants
//   LIM-1  Every constant of the code that bounds something stands in this table with its value (or
//          in the list of the house's test with the reason why it is none of these).
//   LIM-2  Every row names a test that reaches the bound.
//   LIM-3  docs/limits.md is what limits_markdown() says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe::apps {

/// One bound.
struct limit_row {
  std::string_view area;  ///< rows of one area follow each other
  std::string_view what;
  uint64_t value;
  std::string_view unit;        ///< of `value`
  std::string_view then;        ///< what happens at it
  std::string_view file, name;  ///< where the constant stands
  std::string_view test;        ///< the test case that reaches it
};

/// All of them, but for those of single keys of a configuration, which are its properties'.
std::span<const limit_row> limit_rows();

/// docs/limits.md.
std::string limits_markdown();
/// {"limits":[{"area":...,"what":...,"value":...,"unit":...,"then":...},...]}.
std::string limits_json();

}  // namespace troupe::apps
