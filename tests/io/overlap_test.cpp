// Files that are in two lists, by name or by content.
#include "io/data/overlap.hpp"

#include <fstream>
#include <vector>

#include "tests/io/map_pages.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
namespace fs = std::filesystem;

TEST_CASE("overlap: a file is found by name, by link and by content") {
  const scratch here;
  auto write = [&](const char* name, const char* text) { std::ofstream(here / name) << text; };
  write("train", "one two");
  write("copy", "one two");
  write("near", "one twO");
  write("longer", "one two three");
  write("empty", "");
  write("empty too", "");
  fs::create_symlink(here / "train", here / "link");
  const std::vector<fs::path> training{here / "empty", here / "longer", here / "train"};
  struct {
    const char* name;
    bool shared;
  } const cases[] = {
      {"train", true}, {"link", true}, {"copy", true}, {"near", false}, {"empty too", false}};
  for (const auto& c : cases) {
    CAPTURE(c.name);
    const std::vector<fs::path> held_out{here / c.name};
    auto found = io::shared_file(held_out, training);
    REQUIRE(found);
    REQUIRE(found->has_value() == c.shared);
    if (c.shared) CHECK((*found)->second == here / "train");
  }
  const std::vector<fs::path> absent{here / "absent"};
  CHECK_FALSE(io::shared_file(absent, training));
}

TEST_CASE("overlap: long files of one length are compared to their end, in parts") {
  const scratch here;
  constexpr uint64_t length = 64'000'000;
  for (const char* name : {"train", "copy", "near"}) {
    std::ofstream(here / name) << "begins alike";
    fs::resize_file(here / name, length);
  }
  std::ofstream(here / "near", std::ios::in | std::ios::ate).seekp(length - 1) << "x";
  REQUIRE(fs::file_size(here / "near") == length);
  const auto is_shared = [&](const char* name) {
    const std::vector<fs::path> training{here / "train"}, held_out{here / name};
    const auto found = io::shared_file(held_out, training);
    REQUIRE(found);
    return found->has_value();
  };
  const bool forgot = forget_peak();
  const auto before = peak_bytes();
  CHECK(is_shared("copy"));
  CHECK_FALSE(is_shared("near"));
  if (forgot)
    CHECK(peak_bytes() < before + length / 2);
  else
    MESSAGE("SKIPPED: this kernel keeps the peak of a process' memory");
}
