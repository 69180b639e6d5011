// Text to token files: what `troupe data prepare` does, and the loader's cache of it.
//
// Every document's ids are within the tokenizer's frame (BOS, where its files say so) and followed
// by its end-of-text id; where it has none, documents are parted by an empty line ("\n\n") that is
// tokenised like text. Long documents are cut into
// pieces of about 256 KiB where the tokenizer says that cutting changes nothing (TXC-2);
// several threads tokenise the pieces. What is held is bounded however long the text is.
//
// A corpus of shards is token files of about `shard_tokens` in a row: STEM-00000.bin,
// STEM-00001.bin, ..., and .STEM.json that says what they are made of, how far each goes and
// whether all are there. Who is cut off goes on behind the last whole shard.
//
// Invariants:
// CRP-1 The tokens depend on documents and tokenizer alone, not on threads, parts or timing, nor on
//       where a preparing was cut off.
// CRP-2 A file appears under its name only when it is whole and on disk.
// CRP-3 A cached file is used only for the same bytes of text, tokenizer and rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/data/text_source.hpp"
#include "io/tokenizer/tokenizer.hpp"

namespace troupe::io {

/// How far preparing has come.
struct corpus_progress {
  uint64_t documents_done = 0;
  uint64_t text_bytes = 0;        ///< of text tokenised
  uint64_t file_bytes_done = 0;   ///< of the files, as they are packed, that were read
  uint64_t file_bytes = 0;        ///< of all files
  uint64_t file_bytes_found = 0;  ///< of what a preparing before had done
  uint64_t file_bytes_known = 0;  ///< read to know whether a preparing before was of this text
  uint64_t tokens = 0;            ///< written so far
  uint64_t pieces = 0;            ///< tokenised so far
};

struct corpus_options {
  unsigned threads = 0;          ///< 0 = as many as the machine has, at most 16
  size_t piece_bytes = 1 << 18;  ///< a piece is cut after about so many; at least 1
  uint64_t shard_tokens = uint64_t{1} << 28;  ///< a shard ends behind so many
  /// Called by the calling thread, as often as it has tokenised a piece itself, and before that as
  /// it has read some of the text to know it: so long a cancelled preparing goes on. False cancels.
  std::function<bool(const corpus_progress&)> progress;
};

/// Tokenises all documents into `out`, llm.c's format. Gives the final progress. Errors: cancelled;
/// bad_data naming the document.
result<corpus_progress> prepare_corpus(const text_source& source, const tokenizer& by,
                                       const std::filesystem::path& out,
                                       const corpus_options& options = {});

/// Refuses what preparing would refuse after reading it: plain text of more than
/// max_document_bytes that is not cut within as many from its beginning. Of a file as it is packed
/// a quarter of it is enough to look. Errors: text_too_long; those of reading.
status check_cuts(const text_source& source, const tokenizer& by);

/// Reads the beginning of each plain text, of the first so many, so that it is known before a long
/// reading begins that it is in another encoding than a tokenizer takes. Errors: text_not_utf8,
/// naming the file; those of reading.
status check_first_texts(const text_source& source, const tokenizer& by, size_t files = 32);

/// What a corpus of shards came to.
struct corpus_shards {
  std::vector<std::filesystem::path> files;
  corpus_progress done;
  uint64_t found = 0;  ///< shards that were there already
};

/// Files of that name which are of something else.
inline constexpr error_kind<std::string_view> other_shards{
    "other_shards", errc::permission, "{} is of other text or another tokenizer",
    "name another folder, or remove what is in it"};

/// The same into shards named `stem` in `folder` (made when absent), going on with what is there.
/// Errors: as above; other_shards.
result<corpus_shards> prepare_shards(const text_source& source, const tokenizer& by,
                                     const std::filesystem::path& folder, const std::string& stem,
                                     const corpus_options& options = {});

/// How many tokens prepare_corpus would write. One document after the other, by this thread alone:
/// for short texts.
result<uint64_t> count_tokens(const text_source& source, const tokenizer& by);

/// The prepared shards of the source in `folder`, `<16 hex digits>-00000.bin` and so on.
result<std::vector<std::filesystem::path>> cached_corpus(const text_source& source,
                                                         const tokenizer& by,
                                                         const std::filesystem::path& folder,
                                                         const corpus_options& options = {});

}  // namespace troupe::io
