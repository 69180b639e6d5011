// `troupe bench recovery` through the built program, one round: what is done to a node is noticed,
// the right one is named, and every loss is that of an undisturbed run. Timing decides nothing.
#include <filesystem>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

namespace fs = std::filesystem;
using namespace troupe;

namespace {

ended bench(const scratch& dir, const std::string& words) {
  fs::create_directories(dir / "runtime");
  fs::permissions(dir / "runtime", fs::perms::owner_all);
  return run_in(dir.path, "XDG_CACHE_HOME='" + (dir / "cache").string() + "' XDG_RUNTIME_DIR='" +
                              (dir / "runtime").string() + "' " TROUPE_PROGRAM
                              " bench recovery --dir here " +
                              words);
}

}  // namespace

TEST_CASE("bench recovery: a killed node is named, steps are made again, no bit differs") {
  scratch dir;
  fs::create_directory(dir / "here");
  const auto done = bench(dir, "--rounds 1 --fault kill --json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out);
  CHECK(j["checkpoint_every_steps"] == 5);
  REQUIRE(j["rows"].size() >= 2);
  for (const auto& row : j["rows"]) {
    CAPTURE(row["way"]);
    CHECK(row["fault"] == "kill");
    CHECK(row["right"] == 1);
    CHECK(row["same_bits"] == 1);
    CHECK(row["noticed_s"]["median"] > 0);
    CHECK(row["noticed_s"]["median"] <= row["named_s"]["median"]);
    CHECK(row["named_s"]["median"] <= row["back_s"]["median"]);
  }
  CHECK(j["rows"][0]["way"] == "restart");
  CHECK(j["rows"][0]["repeated_steps"]["least"] >= 1);
  CHECK(fs::is_empty(dir / "here"));
}

TEST_CASE("bench recovery: whose operation never ends is named though its process lives") {
  scratch dir;
  fs::create_directory(dir / "here");
  const std::string words = "--rounds 1 --fault hang --set recovery.stuck_after_s=1 ";
  const auto done = bench(dir, words + "--ways restart --json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out);
  REQUIRE(j["rows"].size() == 1);
  const auto& row = j["rows"][0];
  CHECK(row["fault"] == "hang");
  CHECK(row["right"] == 1);
  CHECK(row["same_bits"] == 1);
  CHECK(row["noticed_s"]["median"] > 0);
  CHECK(row["named_s"]["median"] > 0);
  CHECK(row["named_s"]["median"] <= row["back_s"]["median"]);
  const auto none = bench(dir, words + "--ways again");  // it would end with timeouts.step_s
  REQUIRE_MESSAGE(none.code == 0, none.talk);
  CHECK(none.out.find("hang again is left out") != std::string::npos);
  CHECK(fs::is_empty(dir / "here"));
}

TEST_CASE("bench recovery: a job that cannot train is told in its own words, and nothing is left") {
  scratch dir;
  fs::create_directory(dir / "here");
  const auto done = bench(dir, "--rounds 1 --ways restart --set train.batch=3");
  CHECK(done.code == 69);
  CHECK(done.talk.find("train.batch") != std::string::npos);
  CHECK(fs::is_empty(dir / "here"));
  CHECK(bench(dir, "--fault rust").code == 64);
}
