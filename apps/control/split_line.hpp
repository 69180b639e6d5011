// A line of the console in its words, as a shell parts them.
//
// Why a shell's rules: what README and the help of verbs show is typed at a shell and in the
// console alike. One thing is more convenient: JSON that begins a word needs no quotes around it.
//
// Invariants
//   SPT-1  Blanks part words. Within '...' all stands for itself; within "..." a backslash makes
//     " and \ and $ and ` stand for themselves, outside of quotes any character. Quotes may stand
//     within a word, whose parts they are then.
//   SPT-2  A word that begins with { or [ goes on to the bracket that closes it, unchanged: it is
//     JSON, whose strings have quotes and backslashes of their own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::apps {

/// A line that ends within a quote or a bracket: what of it is open.
inline constexpr error_kind<std::string_view, std::string_view> unclosed{
    "unclosed", errc::usage, "the line ends within {0}", "expected: a closing {1}"};

/// Errors: unclosed.
result<std::vector<std::string>> split_words(std::string_view line);

/// A line that is still typed: what is open at its end closes there.
struct unended_line {
  std::vector<std::string> words;
  bool within = false;  ///< the last of them may go on: no blank has ended it
  char open = 0;        ///< what closes what is open at the end; 0: nothing is
  bool json = false;    ///< and it is JSON (SPT-2) that is open
};
unended_line words_so_far(std::string_view line);

}  // namespace troupe::apps
