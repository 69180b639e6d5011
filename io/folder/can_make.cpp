// Asking the nearest folder that exists.
#include "io/folder/can_make.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <string>

#include <fmt/format.h>

#include "io/folder/unnamed_file.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

/// MAK-1.
status can_write_in(const fs::path& folder) {
  TROUPE_TRY(probe, unnamed_file(folder));
  return {};
}

}  // namespace

status can_make(const fs::path& folder) {
  std::error_code code;
  auto there = fs::absolute(folder, code).lexically_normal();
  if (code) return error::system(fmt::format("find {}", folder.string()), code.value());
  if (!there.has_filename()) there = there.parent_path();
  for (;; there = there.parent_path()) {
    struct stat facts {};
    if (::stat(there.c_str(), &facts) == 0) {
      if (S_ISDIR(facts.st_mode)) return can_write_in(there);
      return error{
          errc::io,
          fmt::format("{} cannot be made: {} is not a folder", folder.string(), there.string()),
          "take it away, or name another folder"};
    }
    const int why = errno;
    struct stat link {};
    if (::lstat(there.c_str(), &link) == 0 || (why != ENOENT && why != ENOTDIR))
      return error::system(fmt::format("find {}", there.string()), why);
    if (there == there.parent_path()) return error::system("find " + there.string(), why);
  }
}

bool is_within(const fs::path& inner, const fs::path& outer) {
  std::error_code code;
  const auto plain = [&](const fs::path& p) {
    auto out = fs::weakly_canonical(fs::absolute(p, code), code);
    return out.has_filename() ? out : out.parent_path();
  };
  const auto in = plain(inner), out = plain(outer);
  const auto rest = in.lexically_relative(out);
  return !rest.empty() && *rest.begin() != "..";
}

}  // namespace troupe::io
