// The file in which the head of a cluster keeps what it decides, so that the next head finds it:
// appended to, read from its beginning, made shorter from time to time. Its bytes: records.hpp.
//
// Why: a head may be killed between any two instructions, and its machine may lose power. What it
// told others that it had decided must be there when another begins in its place.
//
// It is written in a folder that its writer holds (io/folder/lock.hpp): nobody else writes there.
//
// Invariants
// JRN-4 A record that was appended durably is in every later reading, whatever ends the process or
//       the machine, until compact() has put others in its place.
// JRN-5 An append that fails leaves the file as it was: it is cut back. Where it cannot be, or
//       where a sync failed (then nobody knows what the disk has: the record, or none, never half),
//       the journal is closed: it takes no record until compact() has made a new file, and each
//       append says so.
// JRN-6 The name leads to a whole journal at every moment, the old one or the new one: a new file
//       is written under NAME.partial, synced and renamed, and then its folder is synced.
// JRN-7 What open() has found is durable before it is given: whoever acts upon it will not be the
//       last who has read it.
// JRN-8 After an append there is disk of its own behind the end for the longest record, where the
//       file system can set it aside: a full disk does not keep the next decision out.
// JRN-9 A file that was moved or removed takes no record: nobody would find it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/disk/file_system.hpp"
#include "io/journal/records.hpp"

namespace troupe::io {

/// The journal's name in a job's folder.
inline constexpr std::string_view journal_file = "journal";

/// A journal was to be made, and is there.
inline constexpr error_kind<std::string_view> journal_exists{
    "journal_exists", errc::io, "{} is there already", "open it, or move it away"};
/// There is no place for the record: bytes that the journal has with it, and may have.
inline constexpr error_kind<std::string_view, uint64_t, uint64_t> journal_full{
    "journal_full", errc::no_memory, "{} would have {} bytes, it has at most {}",
    "it takes records again when it is compacted"};
/// No record is taken any more, and why (JRN-5, JRN-9).
inline constexpr error_kind<std::string_view, std::string_view> journal_closed{
    "journal_closed", errc::io, "{} takes no record any more: {}",
    "it takes records again when it is compacted, or opened by the next process"};

/// By one thread at a time. Its calls block: not for an actor's shared thread. It goes before the
/// file system it is in.
class journal {
 public:
  using path = std::filesystem::path;
  /// Disk set aside at a time, of which at least half is left behind each append (JRN-8).
  static constexpr uint64_t room_bytes = uint64_t{1} << 20;
  static_assert(room_bytes / 2 >= max_record_bytes + record_head_bytes);

  struct options {
    /// A journal of fewer bytes is not worth a compaction.
    uint64_t compact_bytes = uint64_t{1} << 20;
  };
  struct opened;

  /// A new journal without records, durable with its name, readable by its owner alone (mode 0600).
  /// Errors: journal_exists; not_a_journal for a NAME.partial that is none of ours; permission, io.
  static result<journal> create(file_system& files, const path& name, const options& how);
  static result<journal> create(file_system& files, const path& name) {
    return create(files, name, {});
  }
  /// What is there; its torn tail is cut off, and the next record goes behind the last whole one.
  /// Errors: those of read_journal(); permission, io.
  static result<opened> open(file_system& files, const path& name, const options& how);
  static result<opened> open(file_system& files, const path& name);

  /// Appends a record. `sync` yes: it, and all before it, is durable when this returns. Errors:
  /// record_too_long, journal_full, what the system says: then it is not in the journal (JRN-5);
  /// journal_closed, then and from then on.
  status append(uint8_t kind, std::span<const std::byte> payload, durable sync);

  /// Puts a journal of these records in the place of this one, durably: they say all that is still
  /// to be known of those that go. Errors: record_too_long, journal_full, not_a_journal (as
  /// create), what the system says: then all is as it was; journal_closed where nobody knows
  /// whether the old or the new one is found after a power cut.
  status compact(std::span<const journal_record> snapshot);
  /// Whether it is long enough, and twice as long as after the last compaction.
  bool is_long() const noexcept;

  uint64_t bytes() const noexcept { return end_; }
  /// Bytes that can still be appended whatever else fills the disk; 0 also where the file system
  /// sets nothing aside.
  uint64_t room() const noexcept { return room_end_ > end_ ? room_end_ - end_ : 0; }
  /// journal_closed, or success.
  status health() const;
  const path& name() const noexcept { return name_; }

 private:
  journal(file_system& files, path name, const options& how)
      : files_(&files), name_(std::move(name)), options_(how) {}
  path partial() const;
  result<std::unique_ptr<log_file>> open_partial();
  result<std::unique_ptr<log_file>> write_new(std::span<const journal_record> records);
  status sync_name();
  void keep_room(uint64_t bytes);
  error close(const error& why);
  error take_back(const error& why);

  file_system* files_;
  path name_;
  options options_;
  std::unique_ptr<log_file> file_;
  uint64_t end_ = 0;        ///< where the next record goes
  uint32_t sum_ = 0;        ///< of the last record
  uint64_t room_end_ = 0;   ///< up to which disk is set aside
  uint64_t compacted_ = 0;  ///< bytes after the last compaction
  std::optional<error> closed_;
};

struct journal::opened {
  journal writer;
  journal_contents found;
};

/// What a journal says, which may be written meanwhile; nothing is changed. Errors: not_found,
/// permission, io; not_a_journal, newer_journal, journal_too_long.
result<journal_contents> read_journal(file_system& files, const std::filesystem::path& name);

}  // namespace troupe::io
