// Temporary folders of processes that were killed, and what else has such a name.
#include "io/folder/held_scratch.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <vector>

#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

namespace fs = std::filesystem;

void grow_old(const fs::path& folder) {
  fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(1));
}

/// What a process leaves that makes such a folder and is killed.
fs::path left_by_killed(const fs::path& parent) {
  const auto before = [&] {
    std::vector<fs::path> out;
    for (const auto& e : fs::directory_iterator(parent)) out.push_back(e.path());
    return out;
  }();
  const pid_t child = ::fork();
  if (child == 0) {
    auto made = held_scratch::make(parent, "held-");
    if (made) std::ofstream(made->path() / "chunk") << "bytes";
    ::raise(SIGKILL);
  }
  int how = 0;
  REQUIRE(::waitpid(child, &how, 0) == child);
  for (const auto& e : fs::directory_iterator(parent))
    if (std::find(before.begin(), before.end(), e.path()) == before.end()) return e.path();
  return {};
}

}  // namespace

TEST_CASE("HSC-1: what a killed process has left is removed by the next one, and nothing else") {
  scratch dir;
  const auto left = left_by_killed(dir.path);
  REQUIRE(fs::exists(left / "chunk"));
  CHECK(remove_abandoned(dir.path, "held-").empty());  // it is young
  grow_old(left);
  auto holds = held_scratch::make(dir.path, "held-");
  REQUIRE(holds);
  CHECK(holds->removed() == std::vector{left});
  CHECK_FALSE(fs::exists(left));

  fs::create_directory(dir / "held-person");
  std::ofstream(dir / "held-person/notes") << "mine";
  fs::create_directory_symlink(holds->path(), dir / "held-link");
  auto other = scratch_folder::make(dir.path, "other-");
  REQUIRE(other);
  for (const auto& old : {holds->path(), fs::path(dir / "held-person"), other->path()})
    grow_old(old);
  CHECK(remove_abandoned(dir.path, "held-").empty());
  CHECK(fs::exists(holds->path()));
  CHECK(fs::exists(dir / "held-person/notes"));
  CHECK(remove_abandoned(dir / "absent", "held-").empty());
}

TEST_CASE("a held temporary folder goes with its owner") {
  scratch dir;
  fs::path path;
  {
    auto made = held_scratch::make(dir.path, "held-");
    REQUIRE(made);
    path = made->path();
    std::ofstream(path / "file") << "x";
    const auto holder = holder_of(path);
    REQUIRE(holder);
    REQUIRE(*holder);
    CHECK((*holder)->pid == ::getpid());
  }
  CHECK_FALSE(fs::exists(path));
}
