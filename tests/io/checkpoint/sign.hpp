// The envelopes of manifest and footer around any body, so that damage gets past the checksums.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint/format.hpp"
#include "io/file.hpp"

namespace troupe::io::checkpoint {

/// A MANIFEST with this body (manifest.hpp).
inline std::vector<std::byte> sign_manifest(std::span<const std::byte> body,
                                            uint32_t version = packed_version) {
  const uint64_t bytes = body.size();
  uint32_t crc = crc32c(std::as_bytes(std::span(&version, 1)));
  crc = crc32c(body, crc32c(std::as_bytes(std::span(&bytes, 1)), crc));
  std::vector<std::byte> out(24 + body.size());
  std::memcpy(out.data(), "TRMANIF\n", 8);
  std::memcpy(out.data() + 8, &version, 4);
  std::memcpy(out.data() + 12, &crc, 4);
  std::memcpy(out.data() + 16, &bytes, 8);
  if (!body.empty()) std::memcpy(out.data() + 24, body.data(), body.size());
  return out;
}

/// The end of a shard with this footer (format.hpp), `offset` bytes into its file.
inline std::vector<std::byte> sign_tail(std::span<const std::byte> footer, uint64_t offset,
                                        uint32_t version = packed_version) {
  std::vector<std::byte> out(aligned(footer.size() + trailer_bytes));
  if (!footer.empty()) std::memcpy(out.data(), footer.data(), footer.size());
  auto* end = out.data() + out.size() - trailer_bytes;
  const uint32_t sum = crc32c(footer);
  const uint64_t bytes = footer.size();
  std::memcpy(end, "TRSHARD\n", 8);
  std::memcpy(end + 8, &version, 4);
  std::memcpy(end + 12, &sum, 4);
  std::memcpy(end + 16, &offset, 8);
  std::memcpy(end + 24, &bytes, 8);
  const uint32_t crc = crc32c(std::span<const std::byte>(end, 36));
  std::memcpy(end + 36, &crc, 4);
  return out;
}

}  // namespace troupe::io::checkpoint
