// What memory of a buffer takes (io_buffer, disk.hpp), for those who plan it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "io/disk/slots.hpp"

namespace troupe::io {

/// Bytes that a buffer of `bytes` takes: whole blocks; from a huge page on, whole huge pages, since
/// a disk takes one as one piece, but 4 KiB pages only some hundred in a request.
constexpr size_t buffer_bytes(size_t bytes) noexcept {
  constexpr size_t huge_page = size_t{2} << 20;
  const size_t whole = std::max(block_up(bytes), disk_block);
  return whole < huge_page ? whole : (whole + huge_page - 1) / huge_page * huge_page;
}

}  // namespace troupe::io
