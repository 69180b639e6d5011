// Pieces of a rank's file read back straight into slots, several at once, each checked before
// anyone sees it. A state machine as shard_writer: it never waits; its owner, who owns the disk
// too, calls pump() when slots or completions may have come.
//
// Invariants
//   SR-1  A piece is delivered only if its CRC32C is the one expected; else the reader is dead,
//         with the file, piece and byte range in its error.
//   SR-2  After any error nothing more is delivered; `done` is called once.
//   SR-3  At most `depth` reads are under way: a ring shared with writers is not taken whole.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/disk/disk.hpp"
#include "io/disk/slots.hpp"

namespace troupe::io {

/// One piece to read: bytes [offset, offset + bytes) of the file, offset a multiple of disk_block.
/// The file must hold the bytes up to the next block, as shard_writer's do.
struct shard_piece {
  uint64_t piece = 0;  ///< the caller's number of it
  uint64_t offset = 0;
  size_t bytes = 0;  ///< at most one slot
  uint32_t crc = 0;  ///< CRC32C of the bytes
};

/// A piece that is not what was written (SR-1): file, piece, first byte, end, and both checksums.
inline constexpr error_kind<std::string_view, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t>
    piece_damaged{"piece_damaged", errc::bad_data,
                  "{} is damaged in piece {}, bytes {} to {}: CRC32C {:08x}, {:08x} was written",
                  "restore another checkpoint; see dmesg for errors of the disk"};

class shard_reader {
 public:
  struct options {
    std::filesystem::path name;
    std::vector<shard_piece> pieces;
    bool direct = true;
    size_t depth = 8;
    /// A verified piece in its slot (state filled), in any order; its error ends the reader.
    std::function<status(const shard_piece&, slot)> deliver;
    /// Called once: success = all delivered. From within pump, take or give_up, so it must not
    /// destroy the reader; nor must `deliver`.
    std::function<void(const status&)> done = {};
  };

  /// Opens the file. The disk outlives the reader. Errors: bad_data (a piece that no slot can
  /// hold), those of disk::open.
  static result<std::unique_ptr<shard_reader>> open(disk& from, std::shared_ptr<slots> ring,
                                                    options how);
  shard_reader(const shard_reader&) = delete;
  shard_reader& operator=(const shard_reader&) = delete;
  ~shard_reader();

  /// Asks for further pieces, as far as there are slots. False when it waits for a slot although
  /// none of its own reads is under way: slots::when_free says when to call again.
  bool pump();
  /// A completion of the disk: true when it was this file's, and is used up.
  bool take(completion& answer);
  void give_up(const error& why);

  bool finished() const noexcept { return finished_; }
  /// Bytes verified and delivered.
  uint64_t delivered() const noexcept { return delivered_; }

 private:
  shard_reader(disk& from, std::shared_ptr<slots> ring, options how, file_id file);
  status use(completion& answer);
  void finish(const status& outcome);

  disk& disk_;
  std::shared_ptr<slots> ring_;
  options how_;
  file_id file_;
  size_t next_ = 0;
  size_t reading_ = 0;
  size_t done_ = 0;
  uint64_t delivered_ = 0;
  bool finished_ = false;
};

}  // namespace troupe::io
