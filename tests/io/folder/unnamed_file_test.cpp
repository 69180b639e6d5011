// Files without a name.
#include "io/folder/unnamed_file.hpp"

#include <unistd.h>

#include <filesystem>

#include <doctest/doctest.h>

#include "tests/io/scratch.hpp"

using namespace troupe;

TEST_CASE("unnamed_file: it holds what is written, and its folder stays empty") {
  const scratch folder;
  const auto file = io::unnamed_file(folder.path);
  REQUIRE(file);
  CHECK(std::filesystem::is_empty(folder.path));
  char back = 0;
  CHECK(pwrite(file->get(), "x", 1, 3) == 1);
  CHECK(pread(file->get(), &back, 1, 3) == 1);
  CHECK(back == 'x');
}

TEST_CASE("unnamed_file: a folder that is not there, or is none, is an error that names it") {
  CHECK(io::unnamed_file("/nowhere/at/all").error().code == errc::not_found);
  CHECK(io::unnamed_file("/etc/hostname").error().kind == "ENOTDIR");
}
