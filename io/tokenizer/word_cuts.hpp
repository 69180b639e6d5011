// Where texts are cut by a vocabulary whose words begin with "▁" (U+2581, which spaces become):
// that of Llama 2, Mistral and what else SentencePiece made. No pattern parts its texts: BPE sees
// them whole, and only the merges say where no token can go on.
//
// BPE begins with characters (or their bytes, as "<0xXX>") and merges neighbours; what it makes of
// a text is what it makes of two parts of it, in a row, where no merge makes a token of both. A
// token of both holds the last character of the one before the first of the other. So it is asked
// of each token that a merge makes whether it has "▁" behind something else, or anything behind a
// line end; a vocabulary that has the like is not cut there.
//
// Invariants
//   WDC-1 What BPE gives of a text are the ids of its words (first_word), one behind the other.
//   WDC-2 No added token goes over a cut, takes white space along, or looks at what is beside it;
//         none ends before a cut: what follows one has a prefix, what follows a cut has none.
#pragma once

#include <string_view>

#include "io/tokenizer/hf_tokenizer.hpp"
#include "io/tokenizer/text_cuts.hpp"

namespace troupe::io {

/// Whether a tokenizer makes spaces "▁", each of them and nothing else, and parts texts by nothing.
bool spaces_are_letters(const hf_parts& parts);

/// Cuts of such a tokenizer: text_cuts::words_and_lines, before_words, behind_lines or nowhere.
text_cuts word_cuts(const bpe_model& model, const added_token_finder& raw,
                    const added_token_finder& normalized);

/// Whether a token of such a vocabulary has "▁" behind something else.
bool goes_on_over_words(std::string_view token);

/// Whether one has anything but line ends behind a line end, or behind its byte ("<0x0A>").
bool goes_on_over_lines(std::string_view token);

/// The first word of a text that is not empty, as BPE sees it: up to a "▁" behind something else,
/// or to what stands behind a line end, as far as there are such cuts.
std::string_view first_word(std::string_view text, text_cuts how) noexcept;

}  // namespace troupe::io
