// Files by length first: only those of equal length are read.
#include "io/data/overlap.hpp"

#include <map>

#include <xxhash.h>

#include "io/file.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

result<XXH128_hash_t> hash_of(const fs::path& path) {
  TROUPE_TRY(map, mapped_file::open(path));
  return XXH3_128bits(map->bytes().data(), map->bytes().size());
}

result<uint64_t> length_of(const fs::path& path) {
  std::error_code code;
  const auto length = fs::file_size(path, code);
  if (code) return error::system("size of " + path.string(), code.value());
  return uint64_t{length};
}

result<bool> same(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  if (fs::equivalent(a, b, ignored)) return true;
  TROUPE_TRY(one, hash_of(a));
  TROUPE_TRY(other, hash_of(b));
  return XXH128_isEqual(one, other) != 0;
}

}  // namespace

result<std::optional<std::pair<fs::path, fs::path>>> shared_file(std::span<const fs::path> some,
                                                                 std::span<const fs::path> others) {
  std::multimap<uint64_t, fs::path> by_length;
  for (const auto& path : others) {
    TROUPE_TRY(length, length_of(path));
    by_length.emplace(length, path);
  }
  for (const auto& path : some) {
    TROUPE_TRY(length, length_of(path));
    if (length == 0) continue;
    const auto [begin, end] = by_length.equal_range(length);
    for (auto at = begin; at != end; ++at) {
      TROUPE_TRY(equal, same(path, at->second));
      if (equal) return std::optional(std::pair(path, at->second));
    }
  }
  return std::optional<std::pair<fs::path, fs::path>>();
}

}  // namespace troupe::io
