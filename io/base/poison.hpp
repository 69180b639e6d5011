// Memory that nobody may touch for now, told to AddressSanitizer: pools and maps that it does not
// know of by itself. Nothing in other builds.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace troupe {

#if defined(__SANITIZE_ADDRESS__)
/// Untouchable bytes to leave around an allocation; a multiple of any page size in use here.
inline constexpr size_t guard_bytes = size_t{64} << 10;

/// From now on touching these bytes is an error. Both ends at multiples of 8 bytes, or the end of
/// what is untouchable anyway.
inline void poison(const void* start, size_t bytes) noexcept {
  ASAN_POISON_MEMORY_REGION(start, bytes);
}

/// Gives the bytes free again; before they go back to whoever they came from.
inline void unpoison(const void* start, size_t bytes) noexcept {
  ASAN_UNPOISON_MEMORY_REGION(start, bytes);
}
#else
inline constexpr size_t guard_bytes = 0;
inline void poison(const void*, size_t) noexcept {}
inline void unpoison(const void*, size_t) noexcept {}
#endif

}  // namespace troupe
