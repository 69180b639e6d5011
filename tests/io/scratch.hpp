// A folder for one test, removed with all in it when the test ends; and where shared data lies.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace troupe {

struct scratch {
  std::filesystem::path path;

  scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "troupe-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }

  std::filesystem::path operator/(std::string_view name) const { return path / name; }
};

/// The folder of shared test data (TROUPE_SHARED, else beside the source tree), or an empty path.
inline std::filesystem::path shared_folder() {
  const char* named = std::getenv("TROUPE_SHARED");
  std::filesystem::path folder = named != nullptr ? named : TROUPE_SOURCE_DIR "/../shared";
  return std::filesystem::exists(folder) ? folder : std::filesystem::path{};
}

}  // namespace troupe
