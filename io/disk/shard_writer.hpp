// One rank's file of a checkpoint, written while it is still being captured: the packed stream of
// its state goes slot by slot through the ring to the disk; then a tail (the footer that describes
// it, made elsewhere), then one fdatasync. A state machine: it never waits and has no thread or
// clock; its owner, who owns the disk too, hands it filled slots and the disk's completions.
//
//   file := piece 0 | piece 1 | ... | last piece, zeros to a block | zeros, tail (ends the file)
//
// Each piece is slot_bytes long, the last may be shorter; piece i lies at i * slot_bytes.
//
// Invariants
//   SW-1  Each byte's CRC32C is computed once, over the piece in its slot, before the disk gets it:
//         what the file is checked against later is what was captured, not what was written.
//   SW-2  Durable means: every write and the fdatasync after all of them succeeded. Nothing else.
//   SW-3  After any error the writer is dead: nothing more is written or synced, `done` is called
//         once with the first error, every slot goes back to the ring (with its completion, if the
//         disk has it). The file stays as it is: whoever made its folder removes it.
//   SW-4  The stream has the length announced, every piece comes exactly once, in any order.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "io/disk/disk.hpp"
#include "io/disk/slots.hpp"

namespace troupe::io {

/// What Status shows of a file on its way; each grows only.
struct shard_progress {
  uint64_t total = 0;     ///< bytes of the stream
  uint64_t captured = 0;  ///< handed over in slots
  uint64_t written = 0;   ///< the disk said so
  uint64_t durable = 0;   ///< total once the fdatasync succeeded, 0 before
};

class shard_writer {
 public:
  enum class state : uint8_t { open, tail, syncing, durable, dead };

  struct options {
    std::filesystem::path name;
    size_t slot_bytes = 0;      ///< of the ring
    uint64_t stream_bytes = 0;  ///< 0: a tail alone
    bool direct = true;
    open_mode mode = open_mode::create;
    /// Called once: success = durable. From within filled, append_tail, take or give_up, so it must
    /// not destroy the writer.
    std::function<void(const status&)> done = {};
  };

  /// Makes the file and reserves its space. The disk outlives the writer. Errors: bad_config, those
  /// of disk::open.
  static result<std::unique_ptr<shard_writer>> create(disk& to, options how);

  shard_writer(const shard_writer&) = delete;
  shard_writer& operator=(const shard_writer&) = delete;
  /// Gives up what is not durable, without calling `done`.
  ~shard_writer();

  /// Piece `piece` of the stream is in the slot's first `bytes` bytes (slot state filling). The
  /// error that made the writer dead, else success. bug: a wrong length, a piece twice, after the
  /// tail.
  status filled(slot lease, uint64_t piece, size_t bytes);
  /// The last bytes of the file, at least 1; all pieces were handed over. Then the file is synced
  /// and closed as soon as everything is written.
  status append_tail(std::span<const std::byte> bytes);
  /// A completion of the disk: true when it was this file's, and is used up.
  bool take(completion& answer);
  /// The owner's reason to stop: a deadline, a newer epoch (SW-3).
  void give_up(const error& why);

  state now() const noexcept { return state_.load(); }
  file_id file() const noexcept { return file_; }
  /// CRC32C of each piece in order; whole once all pieces were handed over.
  const std::vector<uint32_t>& crcs() const noexcept { return crcs_; }
  uint64_t pieces() const noexcept { return crcs_.size(); }
  /// The length of the whole file; known after append_tail.
  uint64_t file_bytes() const noexcept { return file_bytes_; }
  /// From any thread.
  shard_progress progress() const noexcept;

 private:
  shard_writer(disk& to, options how, file_id file);
  size_t piece_bytes(uint64_t piece) const;
  status use(slot lease, uint64_t piece, size_t bytes);
  void sync_when_written();
  void report(const status& outcome);
  void die(const error& why);

  disk& disk_;
  options how_;
  file_id file_;
  std::atomic<state> state_{state::open};
  status health_;
  bool reported_ = false;
  std::vector<uint32_t> crcs_;
  std::vector<bool> seen_;
  uint64_t handed_over_ = 0;  ///< pieces
  size_t writing_ = 0;        ///< operations with the disk
  uint64_t file_bytes_ = 0;
  std::atomic<uint64_t> captured_{0}, written_{0}, durable_{0};
};

}  // namespace troupe::io
