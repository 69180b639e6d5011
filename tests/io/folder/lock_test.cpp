// Who holds a folder: what the kernel knows goes first, what another host wrote is believed.
#include "io/folder/lock.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <utility>

#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;
using namespace troupe::io;
namespace fs = std::filesystem;

namespace {

lock_holder elsewhere() {
  return {"tiny", 4711, "another-host", "another-boot", "2026-01-01T00:00:00Z", "10.0.0.9:4242"};
}

/// What a check that fails leaves is gone with it.
struct killed_at_end {
  std::array<pid_t, 2> which;
  ~killed_at_end() {
    for (const auto pid : which)
      if (pid > 0) ::kill(pid, SIGKILL);
  }
};

/// A process that holds a folder, tells the number of a child that runs another program, and stays.
[[noreturn]] void hold_with_a_child(const fs::path& folder, int tell) {
  auto held = folder_lock::take(folder, this_process("tiny"));
  int started[2] = {-1, -1};
  if (!held || ::pipe2(started, O_CLOEXEC) != 0) ::_exit(1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execlp("sleep", "sleep", "600", nullptr);
    ::_exit(127);
  }
  ::close(started[1]);
  char word = 0;
  if (::read(started[0], &word, 1) != 0) ::_exit(1);  // its end was closed by exec
  if (::write(tell, &child, sizeof child) != sizeof child) ::_exit(1);
  for (;;) ::pause();
}

}  // namespace

TEST_CASE("lock: its text says who holds the folder, and what is none is refused") {
  const auto self = this_process("tiny");
  CHECK(self.pid == ::getpid());
  CHECK_FALSE(self.host.empty());
  CHECK_FALSE(self.boot.empty());
  for (const auto& h : {self, elsewhere()}) {
    const auto again = parse_lock(lock_text(h));
    REQUIRE(again);
    REQUIRE(again->has_value());
    CHECK(**again == h);
    CHECK(**parse_lock(lock_text(h) + "\"since\":\"2026\"}\n") == h);
  }
  CHECK(*parse_lock("") == std::nullopt);
  CHECK(*parse_lock(std::string(64, 0)) == std::nullopt);  // a power cut
  for (const char* text : {"mine", "{}", "[]", "{", R"({"troupe-lock":1})",
                           R"({"troupe-lock":1,"job":7,"pid":1,"host":"","boot":"","since":""})",
                           R"({"troupe-lock":1,"job":"","pid":[],"host":"","boot":"","since":""})"})
    CHECK_MESSAGE(parse_lock(text).error().code == errc::bad_data, text);
  CHECK(parse_lock(R"({"troupe-lock":2})").error().code == errc::version_mismatch);
}

TEST_CASE("lock: a text is believed only of another host in another boot") {
  const auto self = this_process("tiny");
  auto other = elsewhere();
  CHECK(is_believed(other, self));
  CHECK_FALSE(is_believed(std::nullopt, self));
  other.boot = self.boot;  // a container with a name of its own: the kernel is ours
  CHECK_FALSE(is_believed(other, self));
  other = elsewhere();
  other.host = self.host;  // of a boot before
  CHECK_FALSE(is_believed(other, self));
}

TEST_CASE("lock: a look refuses what taking it would, and leaves nothing") {
  scratch dir;
  CHECK(check_free(dir.path));
  CHECK(check_free(dir / "absent"));
  CHECK(fs::is_empty(dir.path));
  {
    const auto held = folder_lock::take(dir.path, this_process("tiny"));
    REQUIRE(held);
    for (const bool break_lock : {false, true}) {
      const auto looked = check_free(dir.path, break_lock);
      REQUIRE_FALSE(looked);
      CHECK(looked.error().code == errc::timeout);
      CHECK(looked.error() == folder_lock::take(dir.path, this_process("other")).error());
    }
  }
  put_file(dir / lock_file, lock_text(elsewhere()));
  CHECK(mentions(check_free(dir.path).error(), "another-host"));
  CHECK(check_free(dir.path, true));
  put_file(dir / lock_file, "mine");
  CHECK(check_free(dir.path).error().code == errc::bad_data);
}

TEST_CASE("lock: one at a time, free when the holder ends, and nothing is left of it") {
  scratch dir;
  const auto self = this_process("tiny");
  {
    auto held = folder_lock::take(dir.path, self);
    REQUIRE(held);
    REQUIRE(held->say_address("127.0.0.1:4242"));
    const auto refused = folder_lock::take(dir.path, this_process("other"), /*break_lock=*/true);
    REQUIRE_FALSE(refused);  // LCK-1
    CHECK(exit_code(refused.error().code) == 75);
    CHECK(is_error(refused, folder_in_use, "tiny", ::getpid(), self.host, self.since,
                   "127.0.0.1:4242"));
    const auto by = holder_of(dir.path);
    REQUIRE(by);
    REQUIRE(by->has_value());
    CHECK((*by)->pid == ::getpid());
  }
  CHECK(tree_of(dir.path).empty());
  CHECK(*holder_of(dir.path) == std::nullopt);
  CHECK(folder_lock::take(dir.path, self));
}

TEST_CASE("lock: a holder that was killed holds nothing, though its children live") {
  scratch dir;
  int ready[2];
  REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
  const auto child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) hold_with_a_child(dir.path, ready[1]);
  pid_t grandchild = 0;
  const bool told = ::read(ready[0], &grandchild, sizeof grandchild) == sizeof grandchild;
  killed_at_end both{{child, grandchild}};
  REQUIRE(told);
  REQUIRE(grandchild > 0);
  const auto refused = folder_lock::take(dir.path, this_process("tiny"));
  REQUIRE_FALSE(refused);
  CHECK(is_error(refused, folder_in_use, child));
  REQUIRE(::kill(child, SIGKILL) == 0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  both.which[0] = 0;
  CHECK(fs::file_size(dir.path / lock_file) > 0);
  CHECK(*holder_of(dir.path) == std::nullopt);
  auto held = folder_lock::take(dir.path, this_process("tiny"));
  REQUIRE(held);  // though the child of the dead one lives: nothing is inherited by exec
  CHECK_FALSE(held->broken());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("lock: a full disk takes nothing of what says who holds the folder") {
  scratch dir;
  auto held = folder_lock::take(dir.path, this_process("tiny"));
  REQUIRE(held);
  rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &usual) == 0);
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{0, usual.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &none) == 0);
  const auto said = held->say_address("127.0.0.1:4242");
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &usual) == 0);
  ::signal(SIGXFSZ, before);
  CHECK_FALSE(said);
  const auto by = holder_of(dir.path);
  REQUIRE(by);
  REQUIRE(*by);
  CHECK((*by)->job == "tiny");
}

TEST_CASE("lock: a holder on another host is believed until its lock is broken") {
  scratch dir;
  put_file(dir.path / lock_file, lock_text(elsewhere()));
  const auto refused = folder_lock::take(dir.path, this_process("tiny"));
  REQUIRE_FALSE(refused);  // LCK-2
  CHECK(exit_code(refused.error().code) == 75);
  CHECK(render(refused.error()).find("another-host") != std::string::npos);
  CHECK(refused.error().hint.find("--break-lock") != std::string::npos);
  CHECK(**holder_of(dir.path) == elsewhere());
  auto held = folder_lock::take(dir.path, this_process("tiny"), /*break_lock=*/true);
  REQUIRE(held);
  REQUIRE(held->broken());
  CHECK(*held->broken() == elsewhere());
}

TEST_CASE("LCK-2: who deposes a living holder has the folder, and that one takes nothing away") {
  scratch dir;
  std::optional<folder_lock> old;
  {
    auto held = folder_lock::take(dir.path, this_process("old"));
    REQUIRE(held);
    old.emplace(std::move(*held));
  }
  auto held = folder_lock::depose(dir.path, this_process("new"));
  REQUIRE_MESSAGE(held, (held ? "" : render(held.error())));
  REQUIRE(held->broken());
  CHECK(held->broken()->job == "old");
  CHECK(held->broken()->pid == ::getpid());
  REQUIRE(held->say_address("127.0.0.1:4242"));
  const auto before = tree_of(dir.path);
  CHECK(old->say_address("127.0.0.1:1"));  // into a file that nobody finds
  CHECK(tree_of(dir.path) == before);
  old.reset();
  CHECK(tree_of(dir.path) == before);
  const auto by = holder_of(dir.path);
  REQUIRE(by);
  REQUIRE(*by);
  CHECK((*by)->job == "new");
  for (const bool break_lock : {false, true})
    CHECK(is_error(folder_lock::take(dir.path, this_process("third"), break_lock), folder_in_use,
                   "new", "127.0.0.1:4242"));  // LCK-1
}

TEST_CASE("LCK-2: who deposes takes a free folder, and one that another host holds, as well") {
  scratch dir;
  {
    const auto held = folder_lock::depose(dir.path, this_process("new"));
    REQUIRE(held);
    CHECK_FALSE(held->broken());
  }
  CHECK(tree_of(dir.path).empty());
  put_file(dir / lock_file, lock_text(elsewhere()));
  {
    const auto held = folder_lock::depose(dir.path, this_process("new"));
    REQUIRE(held);
    REQUIRE(held->broken());
    CHECK(*held->broken() == elsewhere());
  }
  put_file(dir / lock_file, "my own words");
  const auto before = tree_of(dir.path);
  const auto refused = folder_lock::depose(dir.path, this_process("new"));
  REQUIRE_FALSE(refused);  // LCK-4
  CHECK(refused.error().code == errc::bad_data);
  CHECK(tree_of(dir.path) == before);
}

TEST_CASE("lock: a file of that name which is not ours stays as it is") {
  for (int kind = 0; kind < 4; ++kind) {
    scratch dir;
    const auto file = dir.path / lock_file;
    put_file(dir / "mine", "mine");
    if (kind == 0) put_file(file, "my own words");
    if (kind == 1) fs::create_directory(file);
    if (kind == 2) fs::create_symlink(dir / "mine", file);
    if (kind == 3) put_file(file, std::string(max_lock_bytes + 1, '{'));
    const auto before = tree_of(dir.path);
    for (const bool break_lock : {false, true}) {
      const auto refused = folder_lock::take(dir.path, this_process("tiny"), break_lock);
      REQUIRE_FALSE(refused);  // LCK-4
      CHECK(refused.error().code == errc::bad_data);
    }
    CHECK(tree_of(dir.path) == before);
  }
}
