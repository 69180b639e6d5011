// The one way to write a folder's path, so that two of them can be compared and named after.
#pragma once

#include <filesystem>
#include <system_error>

namespace troupe::io {

/// Absolute, by its text alone: "a/../b/" is "/where/we/are/b". An empty path stays empty.
inline std::filesystem::path plain(const std::filesystem::path& folder) {
  if (folder.empty()) return {};
  std::error_code code;
  auto path = std::filesystem::absolute(folder, code);
  path = (code ? folder : path).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace troupe::io
