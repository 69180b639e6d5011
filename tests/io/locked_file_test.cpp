// Turns with a file: who gets the lock, and of what.
#include <chrono>
#include <filesystem>
#include <thread>

#include <doctest/doctest.h>

#include "io/locked_file.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;

TEST_CASE("LKF-1 one holds what the name leads to, also after the file has been replaced") {
  const scratch dir;
  const auto file = dir / "file";
  constexpr std::chrono::milliseconds at_once{0};
  const auto first = open_locked(file, at_once);
  REQUIRE(first);
  CHECK(*first);
  const auto second = open_locked(file, at_once);
  REQUIRE(second);
  CHECK_FALSE(*second);
  // Replaced by its holder: who holds the old one's lock no longer keeps others out.
  REQUIRE(write_atomic(file, "new"));
  const auto of_new = open_locked(file, at_once);
  REQUIRE(of_new);
  REQUIRE(*of_new);
  CHECK(still_names(file, of_new->get()));
  const auto third = open_locked(file, at_once);
  REQUIRE(third);
  CHECK_FALSE(*third);
  CHECK_FALSE(open_locked(dir / "no/folder", at_once));
}

TEST_CASE("LKF-1 who waits while the file is replaced gets the new one") {
  const scratch dir;
  const auto file = dir / "file";
  auto held = open_locked(file, std::chrono::milliseconds(0));
  REQUIRE(held);
  bool named = false;
  std::thread waits([&] {
    const auto got = open_locked(file, std::chrono::minutes(5));
    named = got && *got && still_names(file, got->get());
  });
  const auto replaced = write_atomic(file, "new");
  *held = unique_fd{};
  waits.join();
  CHECK(replaced);
  CHECK(named);
}

TEST_CASE("LKF-1 a link has the lock of what it leads to, and stays when that is replaced") {
  const scratch dir;
  const auto file = dir / "file", link = dir / "link";
  constexpr std::chrono::milliseconds at_once{0};
  std::filesystem::create_symlink("file", link);
  {
    const auto made = open_locked(link, at_once);  // where nothing was yet
    REQUIRE(made);
    REQUIRE(*made);
    CHECK(still_names(file, made->get()));
    const auto other = open_locked(file, at_once);
    REQUIRE(other);
    CHECK_FALSE(*other);
    REQUIRE(write_atomic(behind_links(link), "new"));
  }
  CHECK(std::filesystem::is_symlink(link));
  const auto of_new = open_locked(link, at_once);
  REQUIRE(of_new);
  REQUIRE(*of_new);
  CHECK(still_names(file, of_new->get()));
}
