// Allocation by mmap, so that huge pages can be asked for; see memory.hpp.
#include "gpu/host/memory.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "io/base/poison.hpp"

namespace troupe::gpu::host {
namespace {

constexpr size_t huge_page = size_t{2} << 20;
constexpr size_t small_page = 4096;

error refuse(size_t bytes) {
  return error(errc::no_memory,
               "cannot allocate " + std::to_string(bytes) + " bytes of host memory",
               "use a smaller batch or model, or swap (see the configuration's memory budget)");
}

/// Memory the kernel says can still be had without swapping; all of it where it does not say.
/// Touching more than that would get the process killed instead of an error returned.
size_t available_memory() {
  std::FILE* info = std::fopen("/proc/meminfo", "r");
  char line[128];
  unsigned long long kibibytes = SIZE_MAX >> 10;
  while (info != nullptr && std::fgets(line, sizeof line, info) != nullptr) {
    if (std::sscanf(line, "MemAvailable: %llu kB", &kibibytes) == 1) break;
  }
  if (info != nullptr) std::fclose(info);
  return static_cast<size_t>(kibibytes) << 10;
}

}  // namespace

result<buffer> allocate_memory(size_t bytes) {
  if (bytes == 0) return buffer{};
  const size_t unit = bytes >= huge_page ? huge_page : small_page;
  if (bytes > SIZE_MAX - 2 * unit - guard_bytes) return refuse(bytes);
  if (unit == huge_page && bytes > available_memory()) return refuse(bytes);
  const size_t length = (bytes + guard_bytes + unit - 1) / unit * unit;
  const size_t reserve = unit == huge_page ? length + huge_page : length;
  void* base = mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return refuse(bytes);
  auto* start = static_cast<char*>(base);
  if (unit == huge_page) {  // give back what lies outside the aligned part
    const size_t skip = (huge_page - reinterpret_cast<uintptr_t>(base) % huge_page) % huge_page;
    if (skip > 0) munmap(start, skip);
    munmap(start + skip + length, huge_page - skip);
    start += skip;
    madvise(start, length, MADV_HUGEPAGE);  // a wish: without it the pages are merely small
  }
  std::memset(start, 0, length);
  if (guard_bytes > 0) poison(start + bytes, length - bytes);
  return buffer(start, bytes, [length](void* p) {
    unpoison(p, length);
    munmap(p, length);
  });
}

std::byte* scratch_memory::get(size_t bytes) {
  if (bytes > block_.bytes()) {
    block_ = buffer{};
    auto grown = allocate_memory(bytes + bytes / 8);
    if (!grown) throw std::bad_alloc();
    block_ = std::move(*grown);
  }
  auto* start = block_.as<std::byte>();
  unpoison(start, bytes);
  if (guard_bytes > 0) poison(start + bytes, block_.bytes() - bytes);
  return start;
}

}  // namespace troupe::gpu::host
