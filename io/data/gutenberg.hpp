// The books in a text file of Project Gutenberg, without the licence around them. Pure.
//
// Invariants
// GUT-1 Only Project Gutenberg's own lines begin and end a book: "*** START OF THE (or THIS)
//       PROJECT GUTENBERG EBOOK" and the same with END. A line "End of (the) Project Gutenberg"
//       ends it, too, where the END line follows within 1 KiB.
// GUT-2 A text without a START line is one book, whole.
// GUT-3 Every book of a file is kept: one without an END line goes on to the next START line, or to
//       the end.
#pragma once

#include <string_view>
#include <vector>

namespace troupe::io {

/// The books in order, as parts of `text`; line ends may be "\n", "\r\n" or "\r".
std::vector<std::string_view> gutenberg_books(std::string_view text);

}  // namespace troupe::io
