// A copy of a complete checkpoint in another folder: a second tier. Passive: each advance() moves
// one slot, so that its owner can do other things between two, keep to a bandwidth, or stop.
//
//   <dir>/step-N.eE.partial/   the files as in the source, then MANIFEST, each synced
//   <dir>/step-N/              by publish() of save.hpp, as every checkpoint
//
// Files of the source that its manifest does not name (PINNED) are not copied.
//
// Invariants
// CY-1 Every byte of a copy was right by the source's manifest and footers when it was read: a
//      damaged checkpoint is not copied, and the place is named.
// CY-2 A folder step-N is a whole copy, and durable when advance() says so (SV-1, SV-2).
// CY-3 A copy that ends otherwise leaves no folder behind; where its process dies, a partial one,
//      which the next start removes.
// CY-4 A source that is removed or replaced meanwhile is told apart (not_found) from a damaged one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/base/result.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/checkpoint/source.hpp"
#include "io/disk/disk.hpp"

namespace troupe::io::checkpoint {

/// How far a copy is; each grows only.
struct copy_progress {
  uint64_t total = 0;    ///< bytes of all files
  uint64_t written = 0;  ///< the disk has taken them
  uint64_t durable = 0;  ///< of files that are synced
};

class copier {
 public:
  /// Reads the manifest and makes the partial folder in `dir`, which exists; what an attempt
  /// before left of it is removed. The disk outlives the copier. Errors: not_found (CY-4);
  /// bad_data; io.
  static result<std::unique_ptr<copier>> begin(disk& to, std::shared_ptr<const file_source> from,
                                               const std::filesystem::path& dir);
  copier(const copier&) = delete;
  copier& operator=(const copier&) = delete;
  /// CY-3. Blocks.
  ~copier();

  /// Moves the next slot, or commits the copy after the last; the bytes moved. Blocks for that
  /// long. Errors: not_found (CY-4), bad_data (CY-1), io, timeout, no_memory; after one there is
  /// nothing to do but to destroy the copier.
  result<uint64_t> advance();

  /// The copy is complete and durable (CY-2).
  bool finished() const noexcept { return finished_; }
  /// The complete folder, there once finished.
  const std::filesystem::path& folder() const noexcept { return folder_; }
  const manifest_head& head() const noexcept { return reader_.content().head; }
  copy_progress progress() const noexcept { return progress_; }

 private:
  copier(disk& to, std::shared_ptr<const file_source> from, reader opened, std::string manifest,
         const std::filesystem::path& dir);
  result<uint64_t> move(const reader::unit& u);
  status open(uint32_t file);
  status write(const reader::unit& u, io_buffer bytes);
  status sync_and_close();
  status take_answers();
  status commit();
  error of_source(const error& e) const;

  disk& disk_;
  std::shared_ptr<const file_source> from_;
  reader reader_;
  std::string manifest_;  ///< the file's bytes
  std::vector<reader::unit> units_;
  size_t next_ = 0;
  std::filesystem::path folder_, partial_;
  file_id file_ = file_id::none;
  size_t under_way_ = 0;  ///< operations on that file
  status health_;
  copy_progress progress_;
  bool finished_ = false;
};

/// Whether `dir` of `files` holds a copy of `from`: the same manifest, and every file with its
/// length.
bool holds_copy(file_system& files, const std::filesystem::path& dir, const file_source& from);

}  // namespace troupe::io::checkpoint
