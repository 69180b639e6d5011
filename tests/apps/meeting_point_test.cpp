// The folder of signs: which one it is, and what killed processes left of their writing goes.
#include "apps/control/meeting_point.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

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

namespace {

/// A process that opens the secret of a job once the other end of `begin` is closed, and writes it.
pid_t secret_opener(const std::string& job, const std::filesystem::path& output, const int* begin,
                    int tell) {
  const pid_t child = fork();
  if (child != 0) return child;
  close(begin[1]);
  char word = 0;
  if (read(begin[0], &word, 1) != 0) _exit(1);
  const auto secret = job_secret::open(job, output);
  if (!secret) _exit(2);
  const auto text = secret->key().text();
  _exit(write(tell, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 3);
}

}  // namespace

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

TEST_CASE("SEC-3: what a process of another machine makes in a shared folder stays untouched") {
  const troupe::scratch runtime;
  const runtime_folder set(runtime.path);
  const auto made = job_secret::open("j", runtime / "out");
  REQUIRE(made);
  const auto file = made->file();
  const auto others = file.string() + fmt::format(".{}", getpid());  // there it has our number
  std::filesystem::rename(file, others);
  const auto second = job_secret::open("j", runtime / "out");
  REQUIRE(second);
  const auto there = troupe::tls::job_key::read(others);
  REQUIRE(there);
  CHECK((there->text() == made->key().text()));  // a secret is not shown
  CHECK((second->key().text() != made->key().text()));
  CHECK(troupe::tree_of(runtime / "troupe").size() == 2);
}

TEST_CASE("SEC-3: of several processes that begin at once one makes the secret, and all have it") {
  const troupe::scratch runtime;
  const runtime_folder set(runtime.path);
  REQUIRE(own_sign_folder());
  for (int round = 0; round < 20; ++round) {
    const auto job = fmt::format("job{}", round);
    int begin[2], told[2];
    REQUIRE(pipe2(begin, O_CLOEXEC) == 0);
    REQUIRE(pipe2(told, O_CLOEXEC) == 0);
    std::vector<pid_t> children;
    for (int n = 0; n < 6; ++n)
      children.push_back(secret_opener(job, runtime / "out", begin, told[1]));
    close(begin[0]);
    close(begin[1]);  // go
    close(told[1]);
    for (const auto child : children) {
      int how = -1;
      REQUIRE(child > 0);
      REQUIRE(waitpid(child, &how, 0) == child);
      CHECK(how == 0);
    }
    std::string all(64 << 10, '\0');
    all.resize(static_cast<size_t>(std::max<ssize_t>(0, read(told[0], all.data(), all.size()))));
    close(told[0]);
    const auto known = job_secret::open(job, runtime / "out");
    REQUIRE(known);
    std::string expected;  // each writes its line at once, and all are the same
    for (size_t n = 0; n < children.size(); ++n) expected += known->key().text();
    CHECK((all == expected));  // a secret is not shown
  }
  CHECK(troupe::tree_of(runtime / "troupe").size() == 20);  // nothing is left of their making
}
