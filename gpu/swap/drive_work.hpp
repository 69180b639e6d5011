// What streams that wait for a drive have in common: memory of the host that a disk reads and
// writes, and tasks on their threads, all of which end with the first that fails (swapper.hpp,
// spiller.hpp).
//
// Invariants
//   DWK-1  After a failure no task is begun any more; the failure is told, once, on a stream's
//          thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "gpu/device.hpp"
#include "io/base/result.hpp"
#include "io/disk/disk.hpp"

namespace troupe::gpu {

/// A file in one of a rank's folders.
struct placed_file {
  std::filesystem::path name;
  io::file_id id = io::file_id::none;
  size_t place = 0;  ///< of the folders, by number
  bool there() const { return id != io::file_id::none; }
};

/// Of the host, page-locked for the device's copies.
struct disk_memory {
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner, pinned;
};

/// Booked under the thread's memory_holder. Errors: no_memory.
result<disk_memory> make_disk_memory(device& owner, size_t bytes);

/// Outlives the streams that it gives tasks to.
class drive_work {
 public:
  /// `what` has failed, as tasks behind that say; `failed` is told, and must not wait.
  drive_work(std::string what, std::function<void(const status&)> failed)
      : what_(std::move(what)), told_(std::move(failed)) {}

  /// Behind what `s` has now.
  void enqueue(stream& s, std::function<status()> task);
  /// A failure of the stream's, by what it has now, is one as well. Before any event behind it is
  /// recorded.
  void watch(stream& s);
  /// Takes a failure into account.
  void note(const status& s);
  bool failed() const noexcept { return failed_; }

 private:
  const std::string what_;
  const std::function<void(const status&)> told_;
  std::atomic<bool> failed_{false};
};

}  // namespace troupe::gpu
