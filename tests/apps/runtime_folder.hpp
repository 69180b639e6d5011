// XDG_RUNTIME_DIR for the length of a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe {

/// Where the signs of clusters are while it lives.
class runtime_folder {
 public:
  explicit runtime_folder(const std::filesystem::path& folder) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, folder.c_str(), 1);
  }
  ~runtime_folder() { before_ ? setenv(name, before_->c_str(), 1) : unsetenv(name); }
  runtime_folder(const runtime_folder&) = delete;
  runtime_folder& operator=(const runtime_folder&) = delete;

 private:
  static constexpr const char* name = "XDG_RUNTIME_DIR";
  std::optional<std::string> before_;
};

}  // namespace troupe
