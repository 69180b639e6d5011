// What lies under a folder, for "nothing of it was removed or changed": every name with its kind
// and content, links by their target, none followed.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace troupe {

/// Path (relative to `root`) -> "folder", "link TARGET" or "file BYTES".
inline std::map<std::string, std::string> tree_of(const std::filesystem::path& root) {
  namespace fs = std::filesystem;
  std::map<std::string, std::string> out;
  std::error_code code;
  for (fs::recursive_directory_iterator at(root, code), end; !code && at != end;
       at.increment(code)) {
    auto& text = out[at->path().lexically_relative(root).string()];
    if (at->is_symlink()) {
      text = "link " + fs::read_symlink(at->path()).string();
    } else if (at->is_directory()) {
      text = "folder";
    } else {
      std::ifstream file(at->path(), std::ios::binary);
      text = "file " + std::string(std::istreambuf_iterator<char>(file), {});
    }
  }
  return out;
}

/// Makes a file, with its parents.
inline void put_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace troupe
