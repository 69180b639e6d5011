// A folder's shards of one corpus: token files, and the note beside them that says what they are
// made of and how far they go (corpus.hpp).
//
//   note := {"made_of": "<16 hex digits>", "complete": bool, "shards": [ shard* ]}
//   shard := {"tokens", "pieces", "documents", "text_bytes", "all_tokens"}, all but the first as of
//     the shard's end, from the corpus' begin
//
// Invariants
//   SHD-1  A shard that the note names is whole and on disk: it is noted after its commit.
//   SHD-2  What is found is used as far as its shards are what the note says, one behind the other;
//     nothing behind the first that is not.
//   SHD-3  Files of something else are never replaced.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/data/corpus.hpp"
#include "io/data/token_file.hpp"

namespace troupe::io {

/// Shards that `troupe data prepare` has begun and not finished.
inline constexpr error_kind<std::string_view> shards_incomplete{
    "shards_incomplete", errc::bad_data, "{} is of a corpus that is not whole yet",
    "give the same `troupe data prepare` again: it goes on where it was cut off"};

class corpus_writer {
 public:
  /// Looks at what is there; makes the folder when absent. `made_of`: what the tokens depend on.
  /// Errors: other_shards where the note or, without one, a file is of something else; io.
  static result<corpus_writer> open(const std::filesystem::path& folder, const std::string& stem,
                                    uint64_t made_of, uint32_t vocab, uint64_t shard_tokens);

  bool complete() const noexcept { return complete_; }
  /// As of the end of the last whole shard.
  corpus_progress done() const;
  /// The whole shards.
  std::vector<std::filesystem::path> files() const;

  status append(std::span<const int32_t> ids);
  /// A shard may end here: all that was appended is of whole pieces.
  status may_end(const corpus_progress& done);
  status finish(const corpus_progress& done);

 private:
  struct shard {
    uint64_t tokens = 0;  ///< its own
    corpus_progress end;  ///< of the corpus, where it ends
  };

  corpus_writer(std::filesystem::path folder, std::string stem, uint64_t made_of, uint32_t vocab,
                uint64_t shard_tokens)
      : folder_(std::move(folder)),
        stem_(std::move(stem)),
        made_of_(made_of),
        vocab_(vocab),
        shard_tokens_(shard_tokens) {}

  std::filesystem::path file(size_t shard) const;
  std::filesystem::path note_path() const;
  status read_note();
  status write_note() const;
  status end_shard(const corpus_progress& done, bool last);

  std::filesystem::path folder_;
  std::string stem_;
  uint64_t made_of_;
  uint32_t vocab_;
  uint64_t shard_tokens_;
  bool complete_ = false;
  std::vector<shard> shards_;
  std::optional<token_file_writer> writer_;
};

/// Refuses files that are some shards of a corpus whose note says that there are more to come
///: shards_incomplete.
status check_whole_shards(const std::vector<std::filesystem::path>& files);

}  // namespace troupe::io
