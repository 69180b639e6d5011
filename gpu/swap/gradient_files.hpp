// The files of gradients that leave their frames between what is done with them: what one chunk's
// has, in which order it may be read, and its sums.
//
// Of a chunk there is one file, in which there is one gradient at a time: what some micro-batches
// of a step have added up to, or, behind the last of them, the own slice for the update. Who writes
// and reads it when is the matter of an order (chunk_policy.hpp); that a gradient which is read was
// written is looked at here all the same, since another step's would look as good.
//
// Invariants
//   GRF-1  What is read is what was written last, of as many micro-batches as whoever reads it
//          says; else it is an error that names chunk and micro-batch.
//   GRF-2  What is read is summed (CRC32C by group, kept in memory) and read once more where the
//          sum is wrong; a second time is an error that names chunk and micro-batch.
//   GRF-3  While a gradient is written its file holds nothing else that counts. So where that fails
//          whoever writes may take another file in its place, into which the gradient goes out of
//          its frame, which is still as it was (SWP-11).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "gpu/store/residency.hpp"
#include "gpu/swap/drive_work.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/swap/swap_io.hpp"

namespace troupe::gpu {

/// A gradient that is not there is asked for: of a chunk, behind so many micro-batches.
inline constexpr error_kind<int, int, int> gradient_not_written{
    "gradient_not_written", errc::bug,
    "the gradient of chunk {} behind micro-batch {} is read from the drive, where there is one "
    "behind micro-batch {} (0: none)",
    "report this, with the trace of the run"};

/// What of the file was not what was written there.
inline constexpr error_kind<int, int> gradient_damaged{
    "gradient_damaged", errc::bad_data,
    "the gradient of chunk {} behind micro-batch {} is damaged on the drive: it was read twice",
    "the disk or the memory of this machine gives back other bytes than it was given: see dmesg"};

/// By streams' threads, one after the other for each chunk.
class gradient_files {
 public:
  /// A chunk's gradient behind that many micro-batches, which count from 1. `whole`: behind the
  /// last of them, the own slice of what all replicas have made.
  struct content {
    int passes = 0;
    bool whole = false;
    bool operator==(const content&) const = default;
  };

  /// `verify`: GRF-2.
  gradient_files(std::shared_ptr<io::swap_io> io, bool verify, int chunks)
      : io_(std::move(io)), verify_(verify), files_(static_cast<size_t>(chunks)) {}

  /// With its room reserved, as `where` says but for its number. Errors: io (a full disk).
  status make(int chunk, placed_file where, const gradient_file& layout);
  const gradient_file& layout(int chunk) const { return at(chunk)->layout; }

  /// Writes a range to the file that it is given; where that fails perhaps to another one, which
  /// is the chunk's then (GRF-3).
  using put = std::function<status(placed_file& file, io::swap_io::range what)>;
  /// `frame`: of the chunk, whole blocks; of a whole gradient its beginning is the slice.
  status write(int chunk, content what, std::span<std::byte> frame, const put& to);
  /// What several micro-batches have made so far, into its frame.
  status read(int chunk, content what, std::span<std::byte> frame,
              const std::shared_ptr<void>& owner);

  /// Of a whole gradient: where a group of the slice lies, for whoever reads it beside the group's
  /// state. `memory`: an array of it.
  result<io::swap_io::range> group(int chunk, content what, int group, std::byte* memory) const;
  /// What was read so.
  status check(int chunk, int group, std::span<const std::byte> memory) const;

 private:
  struct file {
    gradient_file layout;
    placed_file on;
    content has = {};
    std::vector<uint32_t> sums = {};  ///< of that, by piece
  };

  std::optional<file>& at(int chunk) { return files_[static_cast<size_t>(chunk)]; }
  const std::optional<file>& at(int chunk) const { return files_[static_cast<size_t>(chunk)]; }
  status expect(int chunk, content what) const;

  const std::shared_ptr<io::swap_io> io_;
  const bool verify_;
  std::vector<std::optional<file>> files_;  ///< by chunk
};

}  // namespace troupe::gpu
