// Where a write to a file of a rank's swap folders fails: whoever wrote goes on in another file, in
// the same folder or in another one; where none has room the thread that writes waits until there
// is (SWP-11). What else of the file counts, and what the other one is called, is the matter of
// whose file it is.
//
// Why here: state, weights, gradients and spilled activations do so alike.
//
// Invariants
//   WRT-1  A write that succeeds here has moved all its bytes into a file that takes writes. Of one
//          that does not nothing is to be read.
//   WRT-2  What a disk did not answer, or nobody asks for any more, is not tried again: the disk
//          may have the memory still (SWI-2).
//   WRT-3  It ends: after `file_tries` files that could not be made or written, when the patience
//          is over, or with the rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "gpu/swap/drive_work.hpp"
#include "io/base/result.hpp"
#include "io/swap/swap_io.hpp"

namespace troupe::gpu {

/// How a write that has failed waits for room.
struct room_wait {
  std::chrono::milliseconds patience{600'000};
  std::chrono::milliseconds look_again{1000};
  std::stop_token ending = {};  ///< ends the waiting
  /// Told what a person should know, on a stream's thread; must not wait.
  std::function<void(const std::string&)> notice = {};
  /// Called on a stream's thread each time that it has looked for room.
  std::function<void()> waits = {};
  /// Gives up, on a stream's thread, what of the rank's folders nobody needs (SWP-12): before other
  /// files are made.
  std::function<void()> make_room = {};
};

/// Whether there was no room, on the drive or by a quota.
bool lacks_room(const status& s);

/// A name in one of a rank's folders goes, by the disk's thread: through a folder `dropped` in
/// `root`, in which nobody makes files.
status drop_file(io::disk& d, const std::filesystem::path& root, const std::filesystem::path& name);

/// From any thread that may wait.
class write_retry {
 public:
  using clock = std::chrono::steady_clock;
  /// Files of one write that fail, one after the other, before it is given up: the drive has ended.
  static constexpr int file_tries = 3;

  /// Another file was made, or could not be; `again`: another one may.
  struct attempt {
    status outcome;
    bool again = false;
  };
  /// A write that has failed.
  struct failed_write {
    std::function<placed_file()> file;  ///< where it goes now
    uint64_t offset = 0;
    std::span<std::byte> memory;
    uint64_t file_bytes = 0;  ///< that another file needs
    /// Makes another file, in that folder, for what was written; then `file` is that one.
    std::function<attempt(size_t place, const status& why)> move;
  };

  /// `folders`: at least one, each on a drive of its own.
  write_retry(std::shared_ptr<io::swap_io> io, std::vector<std::filesystem::path> folders,
              room_wait wait)
      : io_(std::move(io)), folders_(std::move(folders)), wait_(std::move(wait)) {}

  /// WRT-2
  static bool may_be_tried(const status& failed);
  clock::time_point patience_ends() const { return clock::now() + wait_.patience; }
  /// The write, in another file where its own takes none any more; it may be that only another one
  /// of those that failed together had failed. Errors: io.
  status write(const failed_write& w, const std::shared_ptr<void>& owner, clock::time_point until);

  /// What a `move` answers where the file was not made (`made`: none), or not filled.
  attempt not_moved(const status& why, io::file_id made);
  /// The error that keeps a file from being written, if one does.
  status health_of(io::file_id file);
  const std::filesystem::path& folder(size_t place) const { return folders_[place]; }
  void tell(const std::string& text) const;

 private:
  attempt move(const failed_write& w, const status& why);
  bool look_again_for_room(const failed_write& w, const status& why, bool told);

  const std::shared_ptr<io::swap_io> io_;
  const std::vector<std::filesystem::path> folders_;
  const room_wait wait_;
};

}  // namespace troupe::gpu
