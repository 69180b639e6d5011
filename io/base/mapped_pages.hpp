// Large pieces of memory straight from the kernel, to which they go back when they are freed.
//
// Why not malloc: what is freed there stays with the process, up to some 30 MiB of each thread's
// arena. So a process grows beyond what it has booked (memory_account.hpp), a buffer at a time.
#pragma once

#include <cstddef>

namespace troupe::io {

constexpr size_t huge_page_bytes = size_t{2} << 20;

/// `bytes` of zeroed memory, all of it there; at a multiple of a huge page, and of huge pages where
/// the kernel has some, if it is that long. Null where there is none.
void* map_pages(size_t bytes) noexcept;

/// Gives it back.
void unmap_pages(void* memory, size_t bytes) noexcept;

}  // namespace troupe::io
