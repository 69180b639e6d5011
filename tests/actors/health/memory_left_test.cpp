// What is left of memory: of the machine and of control groups, and how much of it checks take.
#include "actors/health/memory_left.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "actors/health/checks.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::health;

namespace {

constexpr uint64_t mib = uint64_t{1} << 20;

void write(const std::filesystem::path& name, const std::string& text) {
  std::ofstream(name) << text;
}

/// Both checks of memory where so much is left, asked once more at each look.
struct with_left {
  std::map<std::string, fbs::CheckResultT> found;
  size_t most_held = 0;

  with_left(bool deep, std::function<std::optional<uint64_t>()> left) {
    checkup_options options;
    options.memory_left = std::move(left);
    options.spoil_memory = [this](std::span<uint64_t> words) {
      most_held = std::max(most_held, words.size_bytes());
    };
    std::stop_source stop;
    if (deep) stop.request_stop();  // one round of each
    checkup_under_way c{deep, options, stop.get_token()};
    check_memory_pattern(c);
    check_memory_bandwidth(c);
    for (const auto& r : c.results) found[r->check] = *r;
  }
};

}  // namespace

TEST_CASE("memory_left: the least of the machine and of each control group") {
  using groups = std::vector<group_memory>;
  CHECK_FALSE(memory_left(std::nullopt, groups{}));
  CHECK(memory_left(100, groups{}) == 100);
  CHECK(memory_left(100, groups{{200, 150, 0}}) == 50);
  CHECK(memory_left(100, groups{{200, 150, 30}}) == 80);  // files' pages are given up first
  CHECK(memory_left(100, groups{{1000, 0, 0}, {60, 20, 0}, {900, 0, 0}}) == 40);
  CHECK(memory_left(std::nullopt, groups{{60, 20, 0}}) == 40);
  CHECK(memory_left(100, groups{{60, 70, 0}}) == 0);
  CHECK(memory_left(100, groups{{60, 20, 30}}) == 60);
}

TEST_CASE("memory_of_group: both versions of control groups are read, and no limit is none") {
  const scratch folder;
  CHECK_FALSE(memory_of_group(folder.path));
  write(folder / "memory.limit_in_bytes", "4096\n");
  write(folder / "memory.usage_in_bytes", "1024\n");
  write(folder / "memory.stat", "inactive_file 1\ntotal_inactive_file 512\n");
  const auto one = memory_of_group(folder.path);
  REQUIRE(one);
  CHECK(one->most == 4096);
  CHECK(one->used == 1024);
  CHECK(one->given_up == 512);
  write(folder / "memory.max", "8192\n");
  write(folder / "memory.current", "2048\n");
  const auto two = memory_of_group(folder.path);
  REQUIRE(two);
  CHECK(two->most == 8192);
  CHECK(two->used == 2048);
  CHECK(two->given_up == 1);
  std::filesystem::remove(folder / "memory.limit_in_bytes");
  write(folder / "memory.max", "max\n");
  CHECK_FALSE(memory_of_group(folder.path));
}

TEST_CASE("EXM-4: checks of memory take an eighth of what is left at most, and say what they had") {
  const with_left some(false, [] { return std::optional(24 * mib); });
  CHECK(some.most_held == 3 * mib);
  CHECK(some.found.at("memory_pattern").part == "3 MiB");
  CHECK(some.found.at("memory_pattern").seen == 0);
  CHECK(some.found.at("memory_bandwidth").seen == -1);  // a cache would hold that
  CHECK_FALSE(some.found.at("memory_bandwidth").text.empty());
  const with_left none(true, [] { return std::optional(7 * mib); });
  CHECK(none.most_held == 0);
  for (const auto& [name, c] : none.found) {
    CAPTURE(name);
    CHECK(c.seen == -1);
    CHECK_FALSE(c.text.empty());
  }
}

TEST_CASE("EXM-4: what others take meanwhile is not taken from them") {
  uint64_t left = 4096 * mib;
  const with_left shrinking(true, [&left] {
    const auto now = left;
    if (left > 1024 * mib) left -= 600 * mib;
    return std::optional(now);
  });
  CHECK(shrinking.found.at("memory_pattern").part == "48 MiB");
  CHECK(shrinking.found.at("memory_pattern").seen == 0);
}
