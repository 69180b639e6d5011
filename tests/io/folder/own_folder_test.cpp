// Folders that are one user's alone.
#include "io/folder/own_folder.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "tests/io/scratch.hpp"

using namespace troupe;

namespace fs = std::filesystem;

TEST_CASE("own folder: it is made with the one above, and others' are refused") {
  const scratch here;
  const auto folder = here / "above" / "own";
  CHECK_FALSE(io::is_own_folder(folder));
  REQUIRE(io::make_own_folder(folder));
  REQUIRE(io::make_own_folder(folder));
  CHECK(io::is_own_folder(folder));
  struct stat facts {};
  REQUIRE(::stat(folder.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777) == 0700);
  REQUIRE(::chmod(folder.c_str(), 0720) == 0);
  CHECK(io::make_own_folder(folder).error().code == errc::permission);
  fs::create_directory_symlink(here.path, here / "link");
  CHECK_FALSE(io::is_own_folder(here / "link"));
  std::ofstream(here / "file") << "mine";
  CHECK_FALSE(io::is_own_folder(here / "file"));
  CHECK_FALSE(io::make_own_folder(here / "file" / "own"));
}
