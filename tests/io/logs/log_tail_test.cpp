// A tail of a file that grows, is truncated, moved away and flooded, and of what is no file.
#include "io/logs/log_tail.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include <doctest/doctest.h>

#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

struct followed {
  scratch folder;
  std::string path = folder / "log";

  void add(const std::string& text) const { std::ofstream(path, std::ios::app) << text; }
  void replace(const std::string& text) const { std::ofstream(path, std::ios::trunc) << text; }
};

log_piece piece(const std::string& bytes, bool gap = false) {
  return {bytes, gap, 0};
}

}  // namespace

TEST_CASE("log tail: what was added since the last look, from where it is one's own") {
  followed f;
  f.add("old\n");
  log_tail tail({f.path, 4});
  CHECK(tail.look() == piece(""));
  f.add("one\ntw");
  CHECK(tail.look() == piece("one\ntw"));
  f.add("o\n");
  CHECK(tail.look() == piece("o\n"));
  CHECK(tail.look() == piece(""));
  CHECK(tail.name() == f.path);
}

TEST_CASE(
    "log tail: a file that comes later is read from its beginning, one that is gone is none") {
  followed f;
  log_tail tail({f.path, 0});
  CHECK(tail.look() == piece(""));
  f.add("one\n");
  CHECK(tail.look() == piece("one\n"));
  std::filesystem::remove(f.path);
  CHECK(tail.look() == piece(""));
  f.add("two\n");
  CHECK(tail.look() == piece(""));  // TAI-3: the old one has ended
  CHECK(tail.look() == piece("two\n", true));
}

TEST_CASE("log tail: a file that was truncated is read from its beginning") {
  followed f;
  log_tail tail({f.path, 0});
  f.add("a long first line\n");
  CHECK(tail.look() == piece("a long first line\n"));
  f.replace("new\n");
  CHECK(tail.look() == piece("new\n", true));
  log_tail beyond({f.path, 1000});  // it was longer when it was seen
  CHECK(beyond.look() == piece("new\n", true));
}

TEST_CASE("TAI-3: a file that was moved away is read to its end, then what has its name now") {
  followed f;
  log_tail tail({f.path, 0});
  f.add("one\n");
  CHECK(tail.look() == piece("one\n"));
  f.add("last\n");
  std::filesystem::rename(f.path, f.path + ".1");
  f.add("first\n");
  CHECK(tail.look() == piece("last\n"));
  CHECK(tail.look() == piece("first\n", true));
}

TEST_CASE(
    "log tail: by its own descriptor a process follows what it writes, wherever it is moved") {
  followed f;
  const int out = open(f.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  REQUIRE(out >= 0);
  log_tail tail({"/proc/self/fd/" + std::to_string(out), 0});
  REQUIRE(write(out, "one\n", 4) == 4);
  CHECK(tail.look() == piece("one\n"));
  std::filesystem::rename(f.path, f.path + ".1");
  f.add("another's\n");
  REQUIRE(write(out, "two\n", 4) == 4);
  CHECK(tail.look() == piece("two\n"));
  CHECK(tail.name() == f.path + ".1");
  close(out);
}

TEST_CASE("TAI-1: of a flood what came last is read, and the rest is counted") {
  followed f;
  log_tail tail({f.path, 0});
  const auto most = log_tail::most_bytes_a_look;
  f.add("x" + std::string(most, 'y'));
  auto got = tail.look();
  CHECK(got.bytes == std::string(most, 'y'));
  CHECK(got.gap);
  CHECK(got.passed_over_bytes == 1);
  f.add(std::string(most, 'z'));
  got = tail.look();
  CHECK(got.bytes == std::string(most, 'z'));
  CHECK_FALSE(got.gap);
  CHECK(got.passed_over_bytes == 0);
}

TEST_CASE("TAI-1: with less room a look leaves the rest to the next ones") {
  followed f;
  log_tail tail({f.path, 0});
  f.add("one\ntwo\nthree\n");
  CHECK(tail.look(6) == piece("one\ntw"));
  CHECK(tail.look(6) == piece("o\nthre"));
  CHECK(tail.look(6) == piece("e\n"));
}

TEST_CASE("TAI-2: what is no regular file is not read, and nobody is waited for") {
  followed f;
  REQUIRE(mkfifo(f.path.c_str(), 0644) == 0);
  for (const std::string& path : {f.path, f.folder.path.string(), std::string("/dev/null"),
                                  std::string("/dev/tty"), std::string("")}) {
    CAPTURE(path);
    log_tail tail({path, 0});
    CHECK(tail.look() == piece(""));
  }
}

TEST_CASE("log tail: a process's own logs are the files it writes to, each once") {
  scratch folder;
  const auto path = folder / "out";
  const int kept_out = dup(STDOUT_FILENO), kept_err = dup(STDERR_FILENO);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  REQUIRE(write(file, "older\n", 6) == 6);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  const auto both = own_logs();
  const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nothing, STDOUT_FILENO);
  const auto one = own_logs();
  dup2(nothing, STDERR_FILENO);
  const auto none = own_logs();
  dup2(kept_out, STDOUT_FILENO);
  dup2(kept_err, STDERR_FILENO);
  for (const int fd : {kept_out, kept_err, file, nothing}) close(fd);
  CHECK(both == std::vector<log_place>{{"/proc/self/fd/1", 6}});
  CHECK(one == std::vector<log_place>{{"/proc/self/fd/2", 6}});
  CHECK(none.empty());
}
