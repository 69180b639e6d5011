// Where a long text may be cut so that the ids of its pieces, in a row, are the ids of the text:
// what the corpus maker's pieces and the bound on what it holds rest on.
//
// Invariants
//   TXC-1 A cut depends on the few bytes around it alone: it is the same however the text is read.
//   TXC-2 encode(a + b) == encode(a) + encode_rest(b) at each cut, for every tokenizer that says
//         so; and so of a text that is itself the rest of one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::io {

/// Cuts by what a tokenizer splits texts by.
///
/// GPT-2's pattern takes all white space but its last character (which may be of the next word), so
/// that a line end between two others is a piece, and the last of several begins one; not so where
/// an added token follows, which ends the text of the pattern. Llama 3's and Qwen 2's take white
/// space up to its last line end as one piece, whatever follows. NFC and NFD change nothing across
/// a line end, and make no white space. A vocabulary of words that begin with a space says by its
/// tokens where none goes on (word_cuts.hpp).
enum class text_cuts : uint8_t {
  nowhere,
  lone_lines,       ///< behind a line end between two characters that are no white space
  last_lines,       ///< there, and before a line end that is the last of several white spaces,
                    ///< with a letter, a digit or what is not ASCII behind it
  behind_lines,     ///< behind a line end before what is no white space
  before_words,     ///< before a space behind a letter, a digit or what is not ASCII
  words_and_lines,  ///< both of these
  anywhere,
};

/// So many bytes behind a place tell whether it is a cut; a character has no more.
constexpr size_t cut_context_bytes = 8;

/// The first cut whose line end or space stands at `from` (at least 1) or behind it; nothing where
/// none is seen. It is within the text, and tells the same of the text with more behind it.
std::optional<size_t> next_cut(std::string_view text, size_t from, text_cuts how) noexcept;

}  // namespace troupe::io
