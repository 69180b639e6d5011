// Names, order, retention and state files of checkpoints; hostile ones among them.
#include "actors/checkpoint/catalog.hpp"

#include <fstream>
#include <limits>

#include <doctest/doctest.h>

#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::checkpoint;

namespace {

void put(const std::filesystem::path& folder, const std::string& state) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "train_state.json") << state;
}

std::string state_of(uint64_t step) {
  return format_state({step, step * 128, 1.5, "[job]\n"});
}

}  // namespace

TEST_CASE("catalog: names") {
  CHECK(folder_name(120) == "step-00000120");
  CHECK(folder_name(1234567890) == "step-1234567890");
  CHECK(partial_name(7) == "step-00000007.partial");
}

TEST_CASE("CAT-1: only complete folders are listed, in order of steps") {
  scratch dir;
  CHECK(list(dir / "absent").empty());
  for (uint64_t step : {300u, 20u, 1000u}) put(dir / folder_name(step), state_of(step));
  put(dir / folder_name(1'000'000'000), state_of(1'000'000'000));
  put(dir / partial_name(2000), state_of(2000));
  put(dir / "step-12", state_of(12));
  put(dir / "step-0000000x", state_of(1));
  put(dir / "step-99999999999999999999999", state_of(1));
  put(dir / "xstep-00000001", state_of(1));
  put(dir / "step-00000500", "{}");
  std::filesystem::create_directories(dir / "step-00000600");
  std::ofstream(dir / "step-00000700") << "a file";
  std::vector<uint64_t> steps;
  for (const auto& e : list(dir.path)) steps.push_back(e.step);
  CHECK(steps == std::vector<uint64_t>{20, 300, 1000, 1'000'000'000});
}

TEST_CASE("catalog: state files go round") {
  const train_state state{std::numeric_limits<uint64_t>::max(), 12345678901234567u, 0.1,
                          "[job]\nname = \"\xc3\xa9\"\n"};
  auto read = parse_state(format_state(state));
  REQUIRE(read);
  CHECK(read->step == state.step);
  CHECK(read->tokens == state.tokens);
  CHECK(read->loss == state.loss);
  CHECK(read->config_toml == state.config_toml);
}

TEST_CASE("catalog: hostile state files are refused") {
  const auto good = state_of(9);
  for (size_t n = 0; n < good.size(); ++n) CHECK_FALSE(parse_state(good.substr(0, n)));
  for (const char* bad :
       {"", "null", "[]", "1", "{}", R"({"format":1})", R"({"format":"1","step":1,"tokens":1})",
        R"({"format":1,"step":-1,"tokens":1,"config":""})",
        R"({"format":1,"step":1.5,"tokens":1,"config":""})",
        R"({"format":1,"step":1e400,"tokens":1,"config":""})",
        R"({"format":1,"step":99999999999999999999999,"tokens":1,"config":""})",
        R"({"format":1,"step":1,"tokens":null,"config":""})",
        R"({"format":1,"step":1,"tokens":1,"config":7})", R"({"format":1,"step":1,"tokens":1})"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_state(bad));
  }
  auto other = parse_state(R"({"format":2,"step":1,"tokens":1,"config":""})");
  REQUIRE_FALSE(other);
  CHECK(other.error().code == errc::version_mismatch);
  CHECK_FALSE(parse_state(std::string(100'000, '[')));
}

TEST_CASE("catalog: a state file that is too long is not read") {
  scratch dir;
  put(dir / folder_name(1), std::string(5 << 20, ' ') + state_of(1));
  CHECK_FALSE(read_state_file(dir / folder_name(1)));
  CHECK(list(dir.path).empty());
}

TEST_CASE("catalog: what checkpoint.resume means") {
  scratch dir;
  for (const char* word : {"auto", "never"}) {
    auto none = resume_from(word, dir.path);
    REQUIRE(none);
    CHECK_FALSE(*none);
  }
  for (uint64_t step : {5u, 10u}) put(dir / folder_name(step), state_of(step));
  auto newest = resume_from("auto", dir.path);
  REQUIRE(newest);
  REQUIRE(*newest);
  CHECK((*newest)->step == 10);
  CHECK_FALSE(*resume_from("never", dir.path));
  auto named = resume_from((dir / folder_name(5)).string(), dir / "elsewhere");
  REQUIRE(named);
  REQUIRE(*named);
  CHECK((*named)->step == 5);
  auto absent = resume_from((dir / "absent").string(), dir.path);
  REQUIRE_FALSE(absent);
  CHECK(absent.error().code == errc::not_found);
  CHECK_FALSE(absent.error().hint.empty());
}

TEST_CASE("catalog: retention gives up the oldest") {
  const std::vector<entry> all{{"a", 1}, {"b", 2}, {"c", 3}};
  CHECK(expired(all, 0).empty());
  CHECK(expired(all, -1).empty());
  CHECK(expired(all, 3).empty());
  CHECK(expired(all, 9).empty());
  CHECK(expired({}, 1).empty());
  const auto old = expired(all, 1);
  REQUIRE(old.size() == 2);
  CHECK(old[0].step == 1);
  CHECK(old[1].step == 2);
}
