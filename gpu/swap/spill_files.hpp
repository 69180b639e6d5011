// The files of activations that layers spill: in which of them each record lies, and its sum.
//
// In each of the rank's folders there is one at first, with room for all records that are its own.
// Where it takes no write any more what was to be written goes out of its frame into another file
// of that size, which those that come after take as well. The one before has records that backward
// still needs: they are read where they are, by a handle of its own, since the file's answers
// nothing any more (DK-3). It goes as soon as it has none.
//
// Invariants
//   SPF-1  What is read is what was written last, all of it; a record of which that is not so, or
//          which was read already, is an error that names layer and slot. Of a write that fails
//          nothing counts, of a record that goes into another file what the one before has of it
//          does not.
//   SPF-2  A file that takes no writes any more stays for as long as it has a record that is to be
//          read, and its room with it.
//
// What is read is summed here, too (SPR-1).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "gpu/model/spill_layout.hpp"
#include "gpu/swap/drive_work.hpp"
#include "gpu/swap/write_retry.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/swap/swap_io.hpp"

namespace troupe::gpu {

/// What of the file was not what was written there.
inline constexpr error_kind<int, int> spill_damaged{
    "spill_damaged", errc::bad_data,
    "the activations of layer {} in slot {} are damaged on the drive: they were read twice",
    "the disk or the memory of this machine gives back other bytes than it was given: see dmesg"};

/// Activations that are not there are asked for: of a layer, in a slot.
inline constexpr error_kind<int, int> spill_not_written{
    "spill_not_written", errc::bug,
    "the activations of layer {} in slot {} are read from the drive, where there are none",
    "report this, with the trace of the run"};

/// Written by one thread, read by another.
class spill_files {
 public:
  /// Of a layer that spills, in a slot.
  struct place {
    int slot = 0, layer = 0;
  };
  struct options {
    std::vector<std::filesystem::path> names;  ///< made here, each in a folder of its own drive
    bool verify = true;                        ///< SPR-1
    room_wait wait = {};                       ///< for another file
  };

  /// `records`: what each is, by number.
  spill_files(std::shared_ptr<io::swap_io> io, std::vector<place> records, uint64_t record_bytes,
              options how);

  /// With their room reserved. Errors: io (a full disk).
  status make();
  /// Of one thread. `memory` has all of the record, and stays as it is until it is written.
  status write(int record, std::span<std::byte> memory, const std::shared_ptr<void>& owner);
  /// Of one thread, what was written last and not read since.
  status read(int record, std::span<std::byte> memory, const std::shared_ptr<void>& owner);
  const place& record(int number) const { return records_[static_cast<size_t>(number)]; }

 private:
  struct file {
    placed_file on;
    /// Of the thread that reads: of a file that answers nothing by the other one.
    io::file_id reader = io::file_id::none;
    bool dropped = false;  ///< guarded by mutex_
  };
  using file_ptr = std::shared_ptr<file>;

  size_t number_of_file(int record) const {
    return spill_layout::place_of(record, options_.names.size());
  }
  uint64_t offset_of(int record) const {
    return spill_layout::number_in_place(record, options_.names.size()) * record_bytes_;
  }
  uint64_t file_bytes(size_t number) const;
  uint32_t& sum_of(int record) { return sums_[static_cast<size_t>(record)]; }
  status write_again(int record, std::span<std::byte> memory, const std::shared_ptr<void>& owner);
  write_retry::attempt move(size_t number, size_t place, const status& why);
  status read_once(file& f, uint64_t offset, std::span<std::byte> memory,
                   const std::shared_ptr<void>& owner);
  file_ptr file_of(int record);
  void note_written(int record, file_ptr in);
  void drop_if_unneeded(const file_ptr& f);

  const std::shared_ptr<io::swap_io> io_;
  const std::vector<place> records_;
  const uint64_t record_bytes_;
  const options options_;
  write_retry retry_;
  std::vector<uint32_t> sums_;  ///< by record; the threads', one after the other
  std::mutex mutex_;
  /// Where what is written goes, by number: of the thread that writes, which changes it under
  /// mutex_.
  std::vector<file_ptr> files_;
  std::vector<file_ptr> has_;  ///< by record, SPF-1; null: none; guarded by mutex_
  int moves_ = 0;              ///< of the thread that writes
};

}  // namespace troupe::gpu
