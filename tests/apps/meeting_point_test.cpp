// The folder of signs: what killed processes left of their writing goes.
#include "apps/control/meeting_point.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/io/scratch.hpp"

TEST_CASE("meeting point: MP-2: a start removes what killed processes left of their writing") {
  troupe::scratch runtime;
  const char* before = std::getenv("XDG_RUNTIME_DIR");
  const std::string usual = before != nullptr ? before : "";
  setenv("XDG_RUNTIME_DIR", runtime.path.c_str(), 1);
  const auto folder = runtime / "troupe";
  REQUIRE(mkdir(folder.c_str(), 0700) == 0);
  const auto left = folder / "2147483647.json.tmp-2147483647-0";  // no process has this number
  const auto living = folder / fmt::format("{0}.json.tmp-{0}-0", getppid());
  const auto foreign = folder / "notes.txt";
  for (const auto& file : {left, living, foreign}) std::ofstream(file) << "{";
  {
    const troupe::apps::meeting_sign sign({"j", getpid(), "127.0.0.1:1", "out", "", {}});
    CHECK_FALSE(std::filesystem::exists(left));
    CHECK(std::filesystem::exists(living));
    CHECK(std::filesystem::exists(foreign));
  }
  before != nullptr ? setenv("XDG_RUNTIME_DIR", usual.c_str(), 1) : unsetenv("XDG_RUNTIME_DIR");
}
