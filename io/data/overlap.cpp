// Files by length first: only those of equal length are read, side by side and in parts, as far as
// they are equal. Of a map all pages would count as this process' memory.
#include "io/data/overlap.hpp"

#include <unistd.h>

#include <cerrno>
#include <map>
#include <string>

#include "io/file.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

constexpr size_t compared_bytes = size_t{1} << 20;

/// The next bytes of a file, `compared_bytes` of them unless it ends.
status read_piece(const fs::path& path, const unique_fd& file, std::string& piece) {
  piece.resize(compared_bytes);
  size_t filled = 0;
  while (filled < piece.size()) {
    const ssize_t n = ::read(file.get(), piece.data() + filled, piece.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error::system("read " + path.string(), errno);
    if (n == 0) break;
    filled += static_cast<size_t>(n);
  }
  piece.resize(filled);
  return {};
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
  TROUPE_TRY(one, open_read(a));
  TROUPE_TRY(other, open_read(b));
  std::string of_one, of_other;
  do {
    TROUPE_CHECK(read_piece(a, one, of_one));
    TROUPE_CHECK(read_piece(b, other, of_other));
    if (of_one != of_other) return false;
  } while (!of_one.empty());
  return true;
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
