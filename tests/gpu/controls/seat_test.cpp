// Who is told that a device is another job's, and who looks again.
#include "gpu/controls/seat.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "gpu/controls/setting_governor.hpp"
#include "gpu/controls/setting_port.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::gpu::controls;

namespace fs = std::filesystem;

namespace {

const setting_target clocks{setting_kind::cpufreq, ""};

/// A machine whose processes are those that a test names.
struct seat_place {
  scratch folder;
  control_place at;

  seat_place() {
    at.settings = folder / "settings";
    at.processes = folder / "proc";
    at.seat_patience = {};
  }
  void lives(int64_t pid) const {
    const auto process = at.processes / fmt::format("{}", pid);
    fs::create_directories(process);
    std::ofstream(process / "stat")
        << "7 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 500 7\n";
  }
  /// A lock that has been taken, and holds this text yet.
  io::unique_fd take_without_name(const std::string& text) const {
    const auto seat = at.settings / "cpufreq";
    fs::create_directories(seat);
    REQUIRE(::chmod(at.settings.c_str(), 0700) == 0);
    std::ofstream(seat / io::lock_file) << text;
    io::unique_fd fd(::open((seat / io::lock_file).c_str(), O_RDWR | O_CLOEXEC));
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    REQUIRE(::fcntl(fd.get(), F_OFD_SETLK, &whole) == 0);
    return fd;
  }
};

io::lock_holder held_by(std::string name, int64_t pid = 7) {
  io::lock_holder out;
  out.job = std::move(name);
  out.pid = pid;
  return out;
}

}  // namespace

TEST_CASE("SEA-1: seat: ranks of a job are those of its name and its launch") {
  const control_owner own{"tiny", 0, 1};
  CHECK(seat_name(own) == seat_name({"tiny", 3, 1}));
  for (const auto& other : {control_owner{"tiny", 0, 2}, {"tidy", 0, 1}}) {
    CHECK(judge_seat(held_by(seat_name(other)), seat_name(own)) == seat_sight::of_another);
    CHECK(judge_seat(held_by(seat_name(own)), seat_name(own)) == seat_sight::of_this_job);
  }
}

TEST_CASE("SEA-2: seat: a lock without a name or of a restorer tells nothing") {
  CHECK(judge_seat(std::nullopt, "own") == seat_sight::unsettled);
  CHECK(judge_seat(io::lock_holder{}, "own") == seat_sight::unsettled);
  CHECK(judge_seat(held_by(std::string(restorer_name)), "own") == seat_sight::unsettled);
  CHECK(judge_seat(held_by("other"), "own") == seat_sight::of_another);
  CHECK(judge_seat(held_by("own"), "own") == seat_sight::of_this_job);
}

TEST_CASE("SEA-5: seat: who has only taken it does not govern yet, and is another job's at once") {
  const seat_place m;
  const control_owner own{"tiny", 0, 1}, other{"other", 0, 2};
  auto taken = wait_for_seat(m.at, clocks, own);
  REQUIRE((taken && *taken));
  const auto holder = [&] {
    const auto said = io::holder_of(m.at.settings / "cpufreq");
    REQUIRE(said);
    return *said;
  };
  CHECK(judge_seat(holder(), seat_name(own)) == seat_sight::unsettled);
  CHECK(judge_seat(holder(), seat_name(other)) == seat_sight::of_another);
  settle_seat(**taken, own);
  CHECK(judge_seat(holder(), seat_name(own)) == seat_sight::of_this_job);
  CHECK(holder()->job == seat_name(own));
  CHECK(judge_seat(holder(), seat_name(other)) == seat_sight::of_another);
}

TEST_CASE("SEA-5: setting governor: a rank that may not set it leaves others to find that out") {
  seat_place m;
  m.at.seat_patience = std::chrono::seconds(60);
  m.at.devices = m.folder / "sys";
  const control_owner own{"tiny", 0, 1};
  auto first = wait_for_seat(m.at, clocks, own);
  REQUIRE((first && *first));
  std::optional<error> second;
  {
    std::jthread waits([&] {
      const auto made = setting_governor::make(m.at, clocks, {"tiny", 1, 1});
      if (!made) second = made.error();
    });
    first->reset();  // it has failed
  }
  REQUIRE(second);
  CHECK(second->is(no_such_setting));
}

TEST_CASE("SEA-2: seat: one that is taken and not yet written is no other job's") {
  const seat_place m;
  const control_owner own{"tiny", 0, 1};
  {
    const auto taken = m.take_without_name("");
    const auto seat = wait_for_seat(m.at, clocks, own);
    REQUIRE(seat);
    CHECK_FALSE(*seat);
    const auto governed = is_governed(m.at, clocks);
    REQUIRE(governed);
    CHECK(*governed);
  }
  const auto seat = wait_for_seat(m.at, clocks, own);
  REQUIRE(seat);
  CHECK(*seat);
}

TEST_CASE("SEA-2: seat: whose process is not seen here has it all the same, in the end") {
  const seat_place m;
  const control_owner own{"tiny", 0, 1};
  const auto taken = m.take_without_name(io::lock_text(held_by(seat_name({"other", 0, 2}))));
  const auto seat = wait_for_seat(m.at, clocks, own);
  REQUIRE_FALSE(seat);
  CHECK(seat.error().is(io::folder_in_use));
}

TEST_CASE("SEA-4: seat: what a dead container has written in a lock keeps nobody out") {
  const seat_place m;
  auto dead = held_by(seat_name({"other", 0, 2}));
  dead.host = "container-3";
  dead.boot = "of that container";
  static_cast<void>(m.take_without_name(io::lock_text(dead)));
  const auto governed = is_governed(m.at, clocks);
  REQUIRE(governed);
  CHECK_FALSE(*governed);
  const auto seat = wait_for_seat(m.at, clocks, {"tiny", 0, 1});
  REQUIRE(seat);
  CHECK(*seat);
}

TEST_CASE("SEA-3: seat: its folder is this user's alone, or there is none") {
  const seat_place m;
  const control_owner own{"tiny", 0, 1};
  { CHECK(wait_for_seat(m.at, clocks, own)); }
  struct stat facts {};
  REQUIRE(::stat(m.at.settings.c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777) == 0700);
  REQUIRE(::chmod(m.at.settings.c_str(), 0777) == 0);
  CHECK(wait_for_seat(m.at, clocks, own).error().code == errc::permission);
  fs::remove_all(m.at.settings);
  fs::create_directory_symlink(m.folder.path, m.at.settings);
  CHECK(wait_for_seat(m.at, clocks, own).error().code == errc::permission);
}
