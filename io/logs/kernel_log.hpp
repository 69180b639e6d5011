// What the kernel logs from now on, record by record (/dev/kmsg).
//
// Invariants
//   KLG-1  A look reads at most `most_records_a_look` records, none more once it has the room's
//     bytes, and waits for none. What the kernel overwrote before it was read is a gap.
//   KLG-2  What may not be read is not there: containers have no such file, and many kernels show
//     it to root alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/file.hpp"
#include "io/logs/log_piece.hpp"

namespace troupe::io {

/// The text of a record, "6,339,5140900,-;text\n KEY=value\n"; none where it is no record.
std::optional<std::string_view> kernel_record_text(std::string_view record);

class kernel_log {
 public:
  static constexpr size_t most_records_a_look = 1024;
  static constexpr const char* path = "/dev/kmsg";

  /// At its end; none where it cannot be read (KLG-2).
  static std::optional<kernel_log> open();
  /// From a descriptor that does not block and of which each read is a record.
  explicit kernel_log(unique_fd records) : records_(std::move(records)) {}

  /// A line a record.
  log_piece look(size_t room_bytes = 1 << 20);

 private:
  unique_fd records_;
};

}  // namespace troupe::io
