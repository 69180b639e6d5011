// Whole pages, booked; see memory.hpp.
#include "gpu/host/memory.hpp"

#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "io/base/mapped_pages.hpp"
#include "io/base/memory_account.hpp"
#include "io/base/poison.hpp"
#include "io/machine/available_memory.hpp"

namespace troupe::gpu::host {
namespace {

constexpr size_t small_page = 4096;

error refuse(size_t bytes) {
  return error(errc::no_memory,
               "cannot allocate " + std::to_string(bytes) + " bytes of host memory",
               "use a smaller batch or model, or set swap.dir: what does not fit into memory then "
               "lives on a drive");
}

/// All of it where the kernel does not say. Touching more than that would get the process killed
/// instead of an error returned.
uint64_t available_memory() {
  return io::available_memory().value_or(UINT64_MAX);
}

}  // namespace

result<buffer> allocate_memory(size_t bytes) {
  if (bytes == 0) return buffer{};
  const bool huge = bytes >= io::huge_page_bytes;
  if (bytes > SIZE_MAX - 2 * io::huge_page_bytes - guard_bytes) return refuse(bytes);
  if (huge && bytes > available_memory()) return refuse(bytes);
  const auto pages = [](size_t n) { return (n + small_page - 1) / small_page * small_page; };
  const size_t length = pages(bytes + guard_bytes);
  // A sanitizer's guard is no part of what is planned.
  TROUPE_TRY(booked, io::process_memory().book(io::memory_holder::current(), pages(bytes)));
  const auto booking = std::make_shared<io::memory_account::booking>(std::move(booked));
  auto* start = static_cast<char*>(io::map_pages(length));
  if (start == nullptr) return refuse(bytes);
  if (guard_bytes > 0) poison(start + bytes, length - bytes);
  return buffer(start, bytes, [length, booking](void* p) {
    unpoison(p, length);
    io::unmap_pages(p, length);
  });
}

std::byte* scratch_memory::get(size_t bytes) {
  if (bytes > block_.bytes()) {
    block_ = buffer{};
    const io::memory_holder holder("scratch of operations");
    auto grown = allocate_memory(bytes + bytes / 8);
    if (!grown) throw io::memory_refused(grown.error());
    block_ = std::move(*grown);
  }
  auto* start = block_.as<std::byte>();
  unpoison(start, bytes);
  if (guard_bytes > 0) poison(start + bytes, block_.bytes() - bytes);
  return start;
}

}  // namespace troupe::gpu::host
