// Text of others as a terminal, a log or a status may show it.
//
// Why one place: a name in a certificate, a reason in a message or a line of a book may hold escape
// sequences that rewrite a terminal, line ends that forge lines of a log, or marks that turn the
// direction of writing. What is shown passes here once, whoever said it.
//
// Invariants
//   PRT-1  What comes out is valid UTF-8 without control characters and without marks that hide or
//     turn text; a line is a line.
//   PRT-2  What came out stays what it is when it passes again: a text may travel through processes
//     that each escape it.
//   PRT-3  What was valid JSON still is, with the same meaning.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

/// Characters of the longest line that is shown.
inline constexpr size_t printable_limit = 4096;

/// The text on one line of at most `most` characters: what may not pass becomes \n, \r, \t, \u001b
/// or, where it is no UTF-8, \xff; what is too long ends with "...".
std::string printable(std::string_view text, size_t most = printable_limit);

/// The same for a text of our own with lines and columns: line ends and tabs stay, nothing is cut.
std::string printable_lines(std::string_view text);

}  // namespace troupe
