// What the disk can do: the measure of every checkpoint in `troupe bench checkpoint`.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "io/base/result.hpp"
#include "io/disk/calibrate.hpp"

namespace troupe::apps::ckpt_bench {

/// Raw transfers past the page cache, with the chunk and depth that a calibration found best.
class raw_disk {
 public:
  static result<std::unique_ptr<raw_disk>> open(const io::disk_rate& how,
                                                const std::atomic<bool>& stop);

  /// Seconds to write `bytes` (a multiple of disk_block) of noise to a new file, whose space is
  /// reserved before the clock runs, fdatasync included.
  result<double> write(const std::filesystem::path& name, uint64_t bytes);
  /// Seconds to read a whole file, whose length is a multiple of disk_block.
  result<double> read(const std::filesystem::path& name);

 private:
  raw_disk(std::shared_ptr<io::slots> ring, std::unique_ptr<io::disk> disk,
           const std::atomic<bool>& stop)
      : ring_(std::move(ring)), disk_(std::move(disk)), stop_(stop) {}
  status move(io::file_id file, io::disk_op op, uint64_t bytes);
  status sync(io::file_id file);

  std::shared_ptr<io::slots> ring_;
  std::unique_ptr<io::disk> disk_;
  const std::atomic<bool>& stop_;
};

/// Seconds that fio takes to write the same (io_uring, O_DIRECT, final fsync); nothing where fio
/// is not installed or fails.
std::optional<double> fio_write_s(const std::filesystem::path& name, uint64_t bytes,
                                  const io::disk_rate& how);

}  // namespace troupe::apps::ckpt_bench
