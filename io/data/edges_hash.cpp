// One hash is the next one's seed.
#include "io/data/edges_hash.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include <xxhash.h>

#include "io/file.hpp"

namespace troupe::io {

namespace {

constexpr uint64_t edge_bytes = 64 << 10;

/// What the file has of `edge_bytes` from there on.
status read_edge(const std::filesystem::path& path, const unique_fd& file, uint64_t at,
                 std::string& edge) {
  edge.resize(edge_bytes);
  ssize_t n = 0;
  do n = ::pread(file.get(), edge.data(), edge.size(), static_cast<off_t>(at));
  while (n < 0 && errno == EINTR);
  if (n < 0) return error::system("read " + path.string(), errno);
  edge.resize(static_cast<size_t>(n));
  return {};
}

}  // namespace

result<uint64_t> edges_hash(std::span<const std::filesystem::path> files) {
  uint64_t hash = files.size();
  std::string edge;
  for (const auto& path : files) {
    std::error_code code;
    const uint64_t length = std::filesystem::file_size(path, code);
    if (code) return error::system("size of " + path.string(), code.value());
    TROUPE_TRY(file, open_read(path));
    hash = XXH3_64bits_withSeed(&length, sizeof length, hash);
    for (const uint64_t at : {uint64_t{0}, length - std::min(length, edge_bytes)}) {
      TROUPE_CHECK(read_edge(path, file, at, edge));
      hash = XXH3_64bits_withSeed(edge.data(), edge.size(), hash);
    }
  }
  return hash;
}

}  // namespace troupe::io
