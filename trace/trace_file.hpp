// Trace files: what `troupe trace record` collects and what a black box holds.
//
//   file   := magic entry*
//   magic  := "troupe trace 2\n"                        15 bytes; the 2 is the version
//   entry  := length message
//   length := u32, little-endian: the bytes of `message`, 68 to 68 + 1 MiB
//   message := a TraceBatch in its wire form: header, payload, trailer (messages/header.hpp)
//
// Both checksums and the verifier stand over every message, so an entry is either whole and as it
// was written, or refused. There is no index and no end mark: a file that was cut by a crash is a
// shorter file.
//
// Invariants
//   TF-1  Reading is bounded: one entry at a time, at most max_entry_bytes each; no length is
//     believed before it is checked.
//   TF-2  A damaged file is read up to the damage, and what is said of it names the place.
//   TF-3  What finish() has returned from without an error is on the disk.
//   TF-4  Records that leave this file are sound: known kind, finite times within bounds, names of
//     work in range.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/file.hpp"
#include "messages/msg.hpp"
#include "messages/schemas/trace_generated.h"
#include "trace/record.hpp"

namespace troupe::trace {

/// How a trace file begins.
inline constexpr std::string_view file_magic = "troupe trace 2\n";

/// The largest entry behind its length, in bytes.
inline constexpr uint32_t max_entry_bytes =
    static_cast<uint32_t>(sizeof(message_header) + max_message_bytes + trailer_bytes);

/// A file that is no trace, or one that another version wrote.
inline constexpr error_kind<std::string_view> no_trace{"no_trace", errc::bad_data,
                                                       "{} is not a trace file",
                                                       "traces are made by `troupe trace record`"};
inline constexpr error_kind<std::string_view> trace_of_another_version{
    "trace_of_another_version", errc::bad_data, "{} is a trace of another version",
    "read it with the version of troupe that wrote it"};
/// More processes than any cluster has.
inline constexpr error_kind<size_t> too_many_processes{
    "too_many_processes", errc::bad_data, "more than {} processes, which no cluster has"};

/// Appends batches to a new file. Not for two threads at once.
class trace_writer {
 public:
  /// Replaces what is at `path`. Errors: io, permission, not_found.
  static result<trace_writer> create(const std::filesystem::path& path);

  /// Appends one batch; it reaches the file at once, the disk with finish(). Errors: io.
  status append(const msg<fbs::TraceBatch>& batch);

  /// Makes everything durable (TF-3). Errors: io.
  status finish();

  /// Removes the file, of which half is of no use.
  void discard() noexcept;

  /// Bytes written so far.
  uint64_t size() const noexcept { return size_; }
  uint64_t batches() const noexcept { return batches_; }

 private:
  trace_writer(io::unique_fd fd, std::filesystem::path path)
      : fd_(std::move(fd)), path_(std::move(path)) {}

  io::unique_fd fd_;
  std::filesystem::path path_;
  uint64_t size_ = 0, batches_ = 0;
};

/// Reads a file entry by entry.
class trace_reader {
 public:
  /// Errors: not_found, permission, io; bad_data where it is no trace file or one of another
  /// version.
  static result<trace_reader> open(const std::filesystem::path& path);

  /// The next batch; none at the end. Errors: bad_data for the first entry that is damaged or cut
  /// (TF-2), io. After an error every call returns it again.
  result<std::optional<msg<fbs::TraceBatch>>> next();

  /// Bytes from the beginning that hold whole entries, and how many those are.
  uint64_t good_bytes() const noexcept { return good_bytes_; }
  uint64_t batches() const noexcept { return batches_; }

 private:
  explicit trace_reader(std::string name) : name_(std::move(name)) {}

  result<size_t> read(uint8_t* to, size_t wanted);
  status begin();
  error fault(std::string what);

  std::string name_;
  io::unique_fd fd_;
  std::vector<uint8_t> buffer_;
  std::optional<error> broken_;
  uint64_t good_bytes_ = 0, batches_ = 0;
};

// -- batches as plain data ------------------------------------------------------------------------

/// An actor as a batch introduces it.
struct known_actor {
  uint64_t key = 0;
  std::string path, kind;
  uint64_t parent = 0;  ///< key of the actor that spawned it, 0: none
};

/// A message itself, where payloads were recorded.
struct known_message {
  uint32_t actor = 0;    ///< the receiver: the lower half of its key
  int64_t begin_ns = 0;  ///< on the clock of its process
  uint8_t flags = 0;     ///< record_flag
  any_msg message;
};

/// A batch that has been checked (TF-4).
struct checked_batch {
  uint32_t process = 0;
  std::string node, host;
  uint32_t pid = 0;
  int64_t offset_ns = 0;
  int64_t bound_ns = -1;  ///< -1: unknown
  int64_t unix_ns = 0;    ///< what to add to its clock to have Unix time, 0: unknown
  uint64_t sequence = 0, lost = 0, dropped = 0;
  std::vector<trace_record> records;
  std::vector<known_actor> actors;
  std::vector<known_message> messages;
  uint64_t bad_messages = 0;  ///< those that did not decode; left out
};

/// Times of foreign records lie within +-bound (73 years), so that sums of three never overflow.
inline constexpr int64_t time_bound_ns = int64_t{1} << 61;

/// Turns batches into plain data in the order of the file; remembers each process's names of work,
/// which stand in the first batch of it.
class batch_checker {
 public:
  /// The largest number of processes that is believed.
  static constexpr size_t process_limit = 1u << 20;

  /// Errors: bad_data where anything in it is unsound (TF-4); then nothing of it is used.
  result<checked_batch> check(const fbs::TraceBatch& batch);

  /// The names of work of a process, from number 1.
  const std::map<uint32_t, std::vector<std::string>>& works() const noexcept { return works_; }

 private:
  std::map<uint32_t, std::vector<std::string>> works_;
};

/// Everything in one or more files.
struct trace_contents {
  std::vector<checked_batch> batches;
  std::map<uint32_t, std::vector<std::string>> works;  ///< by process; the names from number 1
  uint64_t records = 0;
  std::vector<error> damage;  ///< why reading of a file ended early, one for each such file
};

/// Reads files whole, as far as they are whole (TF-2). Errors: those of trace_reader::open;
/// no_memory beyond `record_limit` records.
result<trace_contents> read_traces(const std::vector<std::filesystem::path>& paths,
                                   uint64_t record_limit = 200'000'000);

}  // namespace troupe::trace
