// mmap, less what lies outside the aligned part.
#include "io/base/mapped_pages.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

namespace troupe::io {

void* map_pages(size_t bytes) noexcept {
  constexpr size_t small_page = 4096;
  const bool huge = bytes >= huge_page_bytes;
  if (bytes > SIZE_MAX - huge_page_bytes - small_page) return nullptr;
  const size_t length = (bytes + small_page - 1) / small_page * small_page;
  const size_t reserve = huge ? length + huge_page_bytes : length;
  void* base = ::mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  auto* start = static_cast<char*>(base);
  if (huge) {
    const size_t past = reinterpret_cast<uintptr_t>(base) % huge_page_bytes;
    const size_t skip = past == 0 ? 0 : huge_page_bytes - past;
    if (skip > 0) ::munmap(start, skip);
    ::munmap(start + skip + length, huge_page_bytes - skip);
    start += skip;
    ::madvise(start, length, MADV_HUGEPAGE);  // a wish: without it the pages are merely small
  }
  std::memset(start, 0, length);
  return start;
}

void unmap_pages(void* memory, size_t bytes) noexcept {
  constexpr size_t small_page = 4096;
  ::munmap(memory, (bytes + small_page - 1) / small_page * small_page);
}

}  // namespace troupe::io
