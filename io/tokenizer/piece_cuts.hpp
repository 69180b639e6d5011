// Where texts are cut by a SentencePiece model (a .model file), which sees them whole: by what its
// pieces say, as word_cuts.hpp reads the merges of a tokenizer.json. Kept apart from the library,
// whose interface tells neither how a text is normalized nor which pieces a user defined.
//
// BPE joins two neighbours where a piece is what both are, the best score first and of the same the
// leftmost: what is on one side of a place that no piece goes over has no part in what is joined on
// the other. So it is of BPE alone. The unigram kind weighs whole texts in sums of floats, which
// are other sums in a part; and where two ways weigh the same, the ids would be others.
//
// Invariants
//   PCC-1 What is cut was made by BPE from text that no rule changes but " " to "▁", nothing is
//         taken from or put behind it, no piece goes over a cut, and none is undone (UNUSED), put
//         apart by two meanings, or of no score.
//   PCC-2 A file that says what is not known here is cut nowhere.
#pragma once

#include <string>
#include <string_view>

#include "io/tokenizer/text_cuts.hpp"

namespace troupe::io {

/// Cuts of a SentencePiece model (the bytes of a .model file): text_cuts::words_and_lines,
/// before_words, behind_lines or nowhere.
text_cuts piece_cuts(std::string_view model);

/// The same model, which puts nothing before a text's first word; nor does it test itself by what
/// it makes of samples. Empty where the file is no sequence of fields.
std::string without_prefix(std::string_view model);

}  // namespace troupe::io
