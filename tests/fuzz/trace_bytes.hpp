// Bytes as the trace files that fuzzers and tests let be read.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "io/file.hpp"
#include "trace/trace_file.hpp"

namespace troupe {

/// A file in memory, for as long as this lives.
class file_of_bytes {
 public:
  explicit file_of_bytes(std::span<const uint8_t> bytes)
      : fd_(::memfd_create("bytes", MFD_CLOEXEC)) {
    for (size_t at = 0; at < bytes.size();) {
      const auto n = ::write(fd_.get(), bytes.data() + at, bytes.size() - at);
      if (n <= 0) std::abort();
      at += static_cast<size_t>(n);
    }
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  io::unique_fd fd_;
};

/// A file of one entry whose checksums fit the payload.
inline std::vector<uint8_t> honest(std::span<const uint8_t> payload) {
  message_header header;
  header.type = message_traits<fbs::TraceBatch>::id;
  header.length = static_cast<uint32_t>(payload.size());
  const auto entry = detail::wire_image(detail::sealed(header), payload);
  const auto length = static_cast<uint32_t>(entry.size());
  std::vector<uint8_t> out(trace::file_magic.begin(), trace::file_magic.end());
  const auto* bytes = reinterpret_cast<const uint8_t*>(&length);
  out.insert(out.end(), bytes, bytes + sizeof(length));
  out.insert(out.end(), entry.begin(), entry.end());
  return out;
}

}  // namespace troupe
