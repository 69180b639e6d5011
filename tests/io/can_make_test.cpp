// Whether a folder could be made, and that asking makes nothing.
#include "io/folder/can_make.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/io/scratch.hpp"

using namespace troupe;
namespace fs = std::filesystem;

namespace {

size_t entries_below(const fs::path& folder) {
  size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("can_make: what is there or could be made is, and nothing is made (MAK-1)") {
  const scratch here;
  std::ofstream(here / "file") << "x";
  fs::create_directory(here / "folder");
  fs::create_symlink(here / "nowhere", here / "dangling");
  const auto before = entries_below(here.path);
  for (const char* good : {"", "folder", "folder/", "a/b/c", "./folder/../x"}) {
    CAPTURE(good);
    CHECK(io::can_make(here / good));
  }
  for (const char* bad : {"file", "file/x", "file/x/y", "dangling"}) {
    CAPTURE(bad);
    CHECK_FALSE(io::can_make(here / bad));
  }
  CHECK_FALSE(io::can_make(here / std::string(300, 'x')));
  CHECK_FALSE(io::can_make("/proc/troupe"));
  CHECK(entries_below(here.path) == before);
}

TEST_CASE("can_make: a folder that this user may not write to is refused") {
  if (geteuid() == 0) {
    MESSAGE("SKIPPED: root may write everywhere");
    return;
  }
  const scratch here;
  fs::create_directory(here / "closed");
  fs::permissions(here / "closed", fs::perms::owner_read | fs::perms::owner_exec);
  const auto refused = io::can_make(here / "closed/run");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::permission);
}

TEST_CASE("can_make: is_within follows links") {
  const scratch here;
  fs::create_directories(here / "a/b");
  fs::create_directory_symlink(here / "a", here / "link");
  CHECK(io::is_within(here / "a", here / "a"));
  CHECK(io::is_within(here / "a/", here / "a"));
  CHECK(io::is_within(here / "a/b", here / "a"));
  CHECK(io::is_within(here / "link/b/new", here / "a"));
  CHECK(io::is_within(here / "a/../a/b", here / "link"));
  CHECK_FALSE(io::is_within(here / "a", here / "a/b"));
  CHECK_FALSE(io::is_within(here / "ab", here / "a"));
}
