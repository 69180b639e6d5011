// The folder of signs: which one it is, and what killed processes left of their writing goes.
#include "apps/control/meeting_point.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "apps/control/job_secret.hpp"
#include "tests/apps/runtime_folder.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

using namespace troupe::apps;
using troupe::errc;
using troupe::runtime_folder;

TEST_CASE("meeting point: MP-2: a start removes what killed processes left of their writing") {
  const troupe::scratch runtime;
  const runtime_folder set(runtime.path);
  const auto folder = runtime / "troupe";
  REQUIRE(mkdir(folder.c_str(), 0700) == 0);
  const auto left = folder / "2147483647.json.tmp-2147483647-0";  // no process has this number
  const auto living = folder / fmt::format("{0}.json.tmp-{0}-0", getppid());
  const auto foreign = folder / "notes.txt";
  for (const auto& file : {left, living, foreign}) std::ofstream(file) << "{";
  {
    const meeting_sign sign({"j", getpid(), "127.0.0.1:1", "out", "", {}});
    CHECK_FALSE(std::filesystem::exists(left));
    CHECK(std::filesystem::exists(living));
    CHECK(std::filesystem::exists(foreign));
  }
}

TEST_CASE("meeting point: MP-3: an XDG_RUNTIME_DIR that is no folder of this user does not count") {
  const troupe::scratch here;
  const auto otherwise = fmt::format("/tmp/troupe-{}", getuid());
  std::ofstream(here / "file") << "mine";
  for (const auto& named : {here / "absent", here / "file", std::filesystem::path("here"),
                            std::filesystem::path(getuid() == 0 ? "/absent" : "/")}) {
    CAPTURE(named.string());
    const runtime_folder set(named);
    const auto folder = own_sign_folder();
    REQUIRE_MESSAGE(folder, (folder ? "" : render(folder.error())));
    CHECK(folder->string() == otherwise);
    CHECK(look_for_sign_folder()->string() == otherwise);
  }
  const runtime_folder set(here.path);
  CHECK(*own_sign_folder() == here / "troupe");
}

TEST_CASE("meeting point: MP-1: a look refuses what the start refuses, and makes nothing") {
  const troupe::scratch runtime;
  const runtime_folder set(runtime.path);
  const auto folder = runtime / "troupe";
  CHECK(*look_for_sign_folder() == folder);
  CHECK(job_secret::check("j", runtime / "out"));
  CHECK_FALSE(std::filesystem::exists(folder));

  auto made = job_secret::open("j", runtime / "out");
  REQUIRE(made);
  CHECK(job_secret::check("j", runtime / "out"));
  REQUIRE(chmod(made->file().c_str(), 0644) == 0);
  CHECK(job_secret::check("j", runtime / "out").error().code == errc::permission);
  CHECK(job_secret::open("j", runtime / "out").error().code == errc::permission);

  REQUIRE(chmod(folder.c_str(), 0777) == 0);
  const auto before = troupe::tree_of(runtime.path);
  CHECK(look_for_sign_folder().error().code == errc::permission);
  CHECK(own_sign_folder().error() == look_for_sign_folder().error());
  CHECK(troupe::tree_of(runtime.path) == before);
}
