// What memory of a buffer takes (io_buffer, disk.hpp), for those who plan it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "io/base/mapped_pages.hpp"
#include "io/disk/slots.hpp"

namespace troupe::io {

/// Bytes that a buffer of `bytes` takes: whole blocks; from a huge page on, whole huge pages, since
/// a disk takes one as one piece, but 4 KiB pages only some hundred in a request.
constexpr size_t buffer_bytes(size_t bytes) noexcept {
  const size_t whole = std::max(block_up(bytes), disk_block);
  if (whole < huge_page_bytes) return whole;
  return (whole + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
}

}  // namespace troupe::io
