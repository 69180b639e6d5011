// Text to a token file: what `troupe data prepare` does, and the loader's cache of it.
//
// Every document's ids are followed by the tokenizer's end-of-text id; where it has none, documents
// are parted by an empty line ("\n\n") that is tokenised like text. Long documents are cut into
// pieces of about 256 KiB at line ends where the tokenizer says that cutting changes nothing;
// several threads tokenise the pieces.
//
// Invariants:
// CRP-1 The file depends on documents and tokenizer alone, not on threads or timing.
// CRP-2 A file appears under its name only when it is whole and on disk.
// CRP-3 A cached file is used only for the same bytes of text, tokenizer and rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "io/base/result.hpp"
#include "io/data/text_source.hpp"
#include "io/tokenizer/tokenizer.hpp"

namespace troupe::io {

/// How far preparing has come.
struct corpus_progress {
  uint64_t documents_done = 0;
  uint64_t documents = 0;
  uint64_t bytes_done = 0;  ///< of text tokenised
  uint64_t bytes = 0;       ///< of all files; an estimate of the text's length
  uint64_t tokens = 0;      ///< written so far
};

struct corpus_options {
  unsigned threads = 0;          ///< 0 = as many as the machine has, at most 16
  size_t piece_bytes = 1 << 18;  ///< a piece is cut after about so many; at least 1
  /// Called by the calling thread, as often as it has tokenised a piece itself: a piece is how long
  /// a cancelled preparing goes on. False cancels.
  std::function<bool(const corpus_progress&)> progress;
};

/// Tokenises all documents into `out`, llm.c's format. Gives the final progress. Errors: cancelled;
/// bad_data naming the document.
result<corpus_progress> prepare_corpus(const text_source& source, const tokenizer& by,
                                       const std::filesystem::path& out,
                                       const corpus_options& options = {});

/// How many tokens prepare_corpus would write. One document after the other, by this thread alone:
/// for short texts.
result<uint64_t> count_tokens(const text_source& source, const tokenizer& by);

/// The prepared file of the source in `folder` (made when absent): `<16 hex digits>.bin`.
result<std::filesystem::path> cached_corpus(const text_source& source, const tokenizer& by,
                                            const std::filesystem::path& folder,
                                            const corpus_options& options = {});

}  // namespace troupe::io
