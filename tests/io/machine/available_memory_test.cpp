// What is left of memory: of the machine and of control groups.
#include "io/machine/available_memory.hpp"

#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

void write_file(const std::filesystem::path& name, const std::string& text) {
  std::ofstream(name) << text;
}

}  // namespace

TEST_CASE("available_memory: the least of the machine and of each control group") {
  using groups = std::vector<group_memory>;
  CHECK_FALSE(available_memory(std::nullopt, groups{}));
  CHECK(available_memory(100, groups{}) == 100);
  CHECK(available_memory(100, groups{{200, 150, 0}}) == 50);
  CHECK(available_memory(100, groups{{200, 150, 30}}) == 80);  // files' pages are given up first
  CHECK(available_memory(100, groups{{1000, 0, 0}, {60, 20, 0}, {900, 0, 0}}) == 40);
  CHECK(available_memory(std::nullopt, groups{{60, 20, 0}}) == 40);
  CHECK(available_memory(100, groups{{60, 70, 0}}) == 0);
  CHECK(available_memory(100, groups{{60, 20, 30}}) == 60);
}

TEST_CASE("memory_of_group: both versions of control groups are read, and no limit is none") {
  const scratch folder;
  CHECK_FALSE(memory_of_group(folder.path));
  write_file(folder / "memory.limit_in_bytes", "4096\n");
  write_file(folder / "memory.usage_in_bytes", "1024\n");
  write_file(folder / "memory.stat", "inactive_file 1\ntotal_inactive_file 512\n");
  const auto one = memory_of_group(folder.path);
  REQUIRE(one);
  CHECK(one->most == 4096);
  CHECK(one->used == 1024);
  CHECK(one->given_up == 512);
  write_file(folder / "memory.max", "8192\n");
  write_file(folder / "memory.current", "2048\n");
  const auto two = memory_of_group(folder.path);
  REQUIRE(two);
  CHECK(two->most == 8192);
  CHECK(two->used == 2048);
  CHECK(two->given_up == 1);
  std::filesystem::remove(folder / "memory.limit_in_bytes");
  write_file(folder / "memory.max", "max\n");
  CHECK_FALSE(memory_of_group(folder.path));
}
