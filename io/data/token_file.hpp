// Ready-made token files (.bin), mapped and checked: llm.c's, nanoGPT's and Megatron's.
//
// Formats, all little-endian:
//   llm.c    256 int32 (magic, version, number of tokens n, rest ignored), then n tokens.
//            magic 20240520 version 1: uint16. magic 20240801 version 7: uint32. n < 2^31.
//   nanoGPT  uint16 tokens, no header.
//   Megatron NAME.bin: tokens, no header. NAME.idx: io/data/megatron_index.
//
// Invariants of a file that opened:
// TOK-1 The tokens lie inside the file: n * width equals the bytes after the header exactly.
// TOK-2 Reads inside [0, size()) never fail; others are bugs of the caller (assert).
// TOK-3 It is of no other format that we know (io/data/data_kind). Bare uint16 tokens have no mark:
//       they are taken for such by their name ".bin" or on demand only, and doubts() says where
//       they look like something else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"
#include "io/file.hpp"

namespace troupe::io {

/// Tokens of one file of llm.c's format, at most.
constexpr uint64_t max_llmc_tokens = (uint64_t{1} << 31) - 1;

/// How a .bin file is laid out. automatic: llm.c when one of its magics stands first, Megatron's
/// where such an .idx is beside it, else nanoGPT.
enum class token_format : uint8_t { automatic, llmc, nanogpt };

/// How a token is stored.
enum class token_type : uint8_t { u8, i8, i16, i32, i64, u16, u32 };

/// Bytes of one token.
int bytes_of(token_type type) noexcept;

/// One mapped file of tokens.
class token_file {
 public:
  /// Of Megatron's either file may be named, or both without an ending. Errors: bad_data with what
  /// is wrong (size, version, unknown magic when llmc is demanded).
  static result<token_file> open(const std::filesystem::path& path,
                                 token_format format = token_format::automatic);

  /// Number of tokens.
  uint64_t size() const noexcept { return size_; }
  /// Bytes of one token: 1, 2, 4 or 8.
  int token_bytes() const noexcept { return bytes_of(type_); }
  /// "llmc", "nanogpt" or "megatron".
  std::string_view format_name() const noexcept;
  /// Of Megatron's: how many documents its index lists; 0 of others.
  uint64_t documents() const noexcept { return documents_; }
  const std::filesystem::path& path() const noexcept { return map_->path(); }

  /// Token i, i < size(); one that is no uint32 as the largest of them, which no vocabulary has.
  uint32_t token(uint64_t i) const noexcept;
  /// out[j] = token(first + j), j < count; first + count <= size().
  void copy(uint64_t first, uint64_t count, int32_t* out) const noexcept;

  /// Reads every token: error bad_data when one is >= vocab. None stays in the process' memory, as
  /// one that a batch takes does.
  status check_vocabulary(uint32_t vocab) const;
  /// The same, and how many of them are `counted`.
  result<uint64_t> check_and_count(uint32_t vocab, int32_t counted) const;

  /// Why the file may not hold what it is read as, a sentence each (TOK-3); looks at its first
  /// tokens. Empty: nothing seems wrong.
  std::vector<std::string> doubts() const;

 private:
  token_file(std::shared_ptr<const mapped_file> map, const std::byte* tokens, uint64_t size,
             token_type type)
      : map_(std::move(map)), tokens_(tokens), size_(size), type_(type) {}
  static result<token_file> open_megatron(const std::filesystem::path& index);
  void doubt_documents(std::vector<std::string>& doubts) const;

  std::shared_ptr<const mapped_file> map_;
  const std::byte* tokens_;
  uint64_t size_;
  token_type type_;
  uint64_t documents_ = 0;
  std::optional<uint64_t>
      parted_;  ///< of Megatron's: documents that end in the commonest last token
};

/// Several files read as one: the tokens of the first, then of the second, and so on. Names stand
/// for files as in data_files.hpp; of a folder what is no token file is passed over.
class token_files {
 public:
  /// Errors: no_file_matches, several_splits; bad_data where a folder has no token file; those of
  /// token_file::open.
  static result<token_files> open(std::span<const std::filesystem::path> paths,
                                  token_format format = token_format::automatic);

  uint64_t size() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  void copy(uint64_t first, uint64_t count, int32_t* out) const noexcept;
  status check_vocabulary(uint32_t vocab) const;
  result<uint64_t> check_and_count(uint32_t vocab, int32_t counted) const;
  std::span<const token_file> files() const noexcept { return files_; }
  /// Files inside folders that hold no tokens.
  std::span<const std::filesystem::path> passed_over() const noexcept { return passed_over_; }

 private:
  status add(const std::filesystem::path& path, token_format format);
  status add_folder(const std::filesystem::path& folder,
                    const std::vector<std::filesystem::path>& found, token_format format);
  size_t file_of(uint64_t i) const noexcept;

  std::vector<token_file> files_;
  std::vector<uint64_t> ends_;  ///< running sums of sizes
  std::vector<std::filesystem::path> passed_over_;
};

/// Whether the file begins like llm.c's (a magic of ours to read); false also when unreadable.
bool looks_like_token_file(const std::filesystem::path& path) noexcept;

/// Writes llm.c's format: uint16 when every id of the vocabulary fits, else uint32. The file
/// appears under its name only on finish().
class token_file_writer {
 public:
  static result<token_file_writer> create(const std::filesystem::path& path, uint32_t vocab);

  /// Appends ids. Errors: bug for an id outside the vocabulary; bad_data at 2^31 tokens; io.
  status append(std::span<const int32_t> ids);

  /// Tokens appended so far.
  uint64_t size() const noexcept { return count_; }

  /// Puts the count into the header and makes the file durable under its name.
  status finish();

 private:
  token_file_writer(atomic_file file, uint32_t vocab)
      : file_(std::move(file)), vocab_(vocab), width_(vocab <= 65536 ? 2 : 4) {}

  atomic_file file_;
  uint32_t vocab_;
  int width_;
  uint64_t count_ = 0;
};

}  // namespace troupe::io
