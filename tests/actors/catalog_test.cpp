// Names, order, retention and state files of checkpoints; hostile ones among them.
#include "actors/checkpoint/catalog.hpp"

#include <fstream>
#include <limits>

#include <doctest/doctest.h>

#include "io/file.hpp"
#include "io/formats/manifest.hpp"
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

TEST_CASE("CAT-1: only folders of checkpoints are listed, in order of steps") {
  scratch dir;
  CHECK(list(dir / "absent").empty());
  for (uint64_t step : {300u, 20u, 1000u}) put(dir / folder_name(step), state_of(step));
  put(dir / folder_name(1'000'000'000), state_of(1'000'000'000));
  put(dir / partial_name(2000), state_of(2000));
  put(dir / "step-12", state_of(12));
  put(dir / "step-0000000x", state_of(1));
  put(dir / "step-99999999999999999999999", state_of(1));
  put(dir / "xstep-00000001", state_of(1));
  put(dir / "step-00000500", "damaged, and so neither passed over nor taken for none");
  std::filesystem::create_directories(dir / "step-00000600");
  std::ofstream(dir / "step-00000700") << "a file";
  std::vector<uint64_t> steps;
  for (const auto& e : list(dir.path)) steps.push_back(e.step);
  CHECK(steps == std::vector<uint64_t>{20, 300, 500, 1000, 1'000'000'000});
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
}

TEST_CASE("catalog: what checkpoint.resume means") {
  scratch dir;
  for (const char* word : {"auto", "never"}) {
    auto none = resume_from(word, dir.path);
    REQUIRE(none);
    CHECK_FALSE(*none);
  }
  for (uint64_t step : {5u, 10u}) {
    put(dir / folder_name(step), state_of(step));
    REQUIRE(io::write_manifest(dir / folder_name(step)));
  }
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

TEST_CASE("CAT-2: a damaged checkpoint is named, not passed over for an older one") {
  scratch dir;
  for (uint64_t step : {5u, 10u}) {
    put(dir / folder_name(step), state_of(step));
    std::ofstream(dir / folder_name(step) / "model.safetensors") << "weights";
    std::ofstream(dir / folder_name(step) / "optimizer.safetensors") << "moments";
    REQUIRE(io::write_manifest(dir / folder_name(step)));
  }
  REQUIRE(resume_from("auto", dir.path));
  const auto newest = dir / folder_name(10);
  for (const char* name :
       {"model.safetensors", "optimizer.safetensors", "train_state.json", "MANIFEST"}) {
    CAPTURE(std::string(name));
    auto whole = io::read_file(newest / name, 1 << 20);
    REQUIRE(whole);
    auto damaged = *whole;
    damaged[damaged.size() / 2] ^= 1;
    std::ofstream(newest / name) << damaged;
    for (const auto& resume : {std::string("auto"), newest.string()}) {
      auto found = resume_from(resume, dir.path);
      REQUIRE_FALSE(found);
      CHECK(found.error().code == errc::bad_data);
      CHECK(found.error().message.find(name) != std::string::npos);
      CHECK(found.error().hint.find("checkpoint.resume") != std::string::npos);
    }
    const bool for_resuming_only = std::string_view(name) == "optimizer.safetensors";
    CHECK(verify(newest, part::model).has_value() == for_resuming_only);
    CHECK(resume_from((dir / folder_name(5)).string(), dir.path));
    CHECK(resume_from("never", dir.path));
    std::filesystem::remove(newest / name);
    CHECK_FALSE(resume_from("auto", dir.path));
    std::ofstream(newest / name) << *whole;
  }
  CHECK(resume_from("auto", dir.path));
}

TEST_CASE("catalog: what is ours, and what is anybody's folder") {
  scratch dir;
  CHECK_FALSE(is_checkpoint(""));
  CHECK_FALSE(is_checkpoint(dir / "absent"));
  std::ofstream(dir / "config.json") << "{}";
  CHECK_FALSE(is_checkpoint(dir.path));
  REQUIRE(io::write_manifest(dir.path));
  CHECK(is_checkpoint(dir.path));
}

TEST_CASE("catalog: what interrupted saves left is removed, and nothing else") {
  scratch dir;
  CHECK(remove_partial(dir / "absent")->empty());
  put(dir / folder_name(1), state_of(1));
  put(dir / partial_name(3), state_of(3));
  put(dir / partial_name(2) / "nested", state_of(2));
  put(dir / "mine.partial", state_of(2));
  put(dir / "step-1.partial", state_of(2));
  auto removed = remove_partial(dir.path);
  REQUIRE(removed);
  CHECK(*removed == std::vector<std::string>{partial_name(2), partial_name(3)});
  CHECK_FALSE(std::filesystem::exists(dir / partial_name(2)));
  CHECK_FALSE(std::filesystem::exists(dir / partial_name(3)));
  for (const auto& kept :
       {folder_name(1), std::string("mine.partial"), std::string("step-1.partial")})
    CHECK(std::filesystem::exists(dir / kept));
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
