// `troupe power swings` through the built program: its answer, its files, what it refuses.
#include <cmath>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;

namespace {

ended swings(const scratch& here, const std::string& words) {
  return run_in(here.path, TROUPE_PROGRAM " power swings " + words);
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

void put_file(const scratch& here, const char* name, const std::string& text) {
  std::ofstream(here / name) << text;
}

/// A job of eight devices of 700 W that saves twice, ten samples a second, and stops.
std::string saving_csv() {
  std::string out = "t_s,watts\n";
  int i = 0;
  const auto level = [&](int samples, int watts) {
    for (int n = 0; n < samples; ++n) {
      ++i;
      out += std::to_string(i / 10) + "." + std::to_string(i % 10) + "," +
             std::to_string(watts + i % 5) + "\n";
    }
  };
  for (int save = 0; save < 2; ++save) {
    level(400, 4400);
    level(80, 1200);
  }
  level(400, 4400);
  level(50, 900);
  return out;
}

}  // namespace

TEST_CASE("power swings: the answer first, and what it would come to as a file and a picture") {
  scratch here;
  put_file(here, "t.csv", saving_csv());
  const auto done = swings(here, "t.csv --tdp-w 5600 --out after.csv --svg s.svg");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  CHECK(
      done.out.starts_with("within 2 s the watts fall by 62.6 % of the TDP and rise by 57.2 %; "
                           "asynchronous, then ramped make it "));
  CHECK(done.out.find("(10 % wanted)\n") != done.out.npos);
  CHECK(done.out.find("dips    2 in the midst of work, 8 s in the middle") != done.out.npos);
  CHECK(done.out.find("up to 20 Hz are not seen") != done.out.npos);
  const auto again = swings(here, "after.csv --tdp-w 5600 --json");
  REQUIRE(again.code == 0);
  const auto j = nlohmann::json::parse(again.out);
  CHECK(j["kept"] == true);
  CHECK(j["wanted"].empty());
  CHECK(j["before"]["fall"].get<double>() <= 0.1 + 1e-4);
  CHECK(j["before"]["beyond"] == 0);
  const auto picture = text_of(here / "s.svg");
  CHECK(picture.starts_with("<svg"));
  CHECK(picture.ends_with("</svg>\n"));
  CHECK(picture.find("prefers-color-scheme: dark") != picture.npos);
  CHECK(picture.find("asynchronous, then ramped") != picture.npos);
  CHECK(picture.find("nan") == picture.npos);
}

TEST_CASE("power swings: what is written is read again, after days as well") {
  scratch here;
  std::string text = "t_s,watts\n";
  for (int i = 0; i < 4000; ++i)
    text += std::to_string(400'000 + i / 4) +
            (i % 4 == 0   ? ".0"
             : i % 4 == 1 ? ".25"
             : i % 4 == 2 ? ".5"
                          : ".75") +
            "," + std::to_string(4'400'000 + i % 7) + "\n";
  put_file(here, "late.csv", text);
  REQUIRE(swings(here, "late.csv --out again.csv").code == 0);
  const auto again = swings(here, "again.csv --json");
  REQUIRE_MESSAGE(again.code == 0, again.talk);
  const auto j = nlohmann::json::parse(again.out);
  CHECK(j["step_s"] == 0.25);
  CHECK(j["samples"] == 4000);
  CHECK(j["before"]["range_w"] == 6);
}

TEST_CASE("power swings: the TDP is the trace's most where nobody says it, and that is said") {
  scratch here;
  put_file(here, "t.csv", saving_csv());
  const auto done = swings(here, "t.csv");
  REQUIRE(done.code == 0);
  CHECK(done.out.find("TDP     4404 W, the most of the trace") != done.out.npos);
}

TEST_CASE("power swings: filler's cost by published statistics of eight H100") {
  const auto file = shared_folder() / "data/power/h100x8_training_power_stats.csv";
  if (!std::filesystem::exists(file)) {
    MESSAGE("SKIPPED: no shared/data/power/h100x8_training_power_stats.csv beside the source tree");
    return;
  }
  scratch here;
  const auto done = swings(here, file.string() + " --tdp-w 5600 --json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out);
  const std::pair<const char*, double> wanted[] = {
      {"ckpt1000", 4.5}, {"ckpt100", 68}, {"ckpt50", 95}};
  int found = 0;
  for (const auto& row : j["rows"])
    for (const auto& [run, percent] : wanted)
      if (row["run"] == run) {
        ++found;
        CAPTURE(run);
        CHECK(std::abs(100 * row["filler_energy"].get<double>() - percent) <= 2);
        CHECK(row["fall"].get<double>() > 0.5);
        CHECK(row["fall"].get<double>() < 0.6);
      }
  CHECK(found == 3);
}

TEST_CASE("power swings: statistics are read by the names of their columns, and checked") {
  scratch here;
  const std::string heading =
      "run,p1_w,p5_w,p10_w,p25_w,p50_w,p75_w,p90_w,p99_w,max_w,mean_w,max_fall_2s_w,max_rise_2s_w,"
      "dip_time_frac\n";
  put_file(here, "s.csv",
           heading + "mine,1000,1000,1000,1000,1000,3000,3000,3000,3000,2000,500,600,.1\n");
  const auto done = swings(here, "s.csv --tdp-w 4000 --floor .5");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  // Half of the time at 1000, a quarter rising from there to 3000, a quarter at 3000 W; floor 2000.
  CHECK(done.out.find("+15.6 %") != done.out.npos);
  CHECK(done.out.find("12 %") != done.out.npos);
  CHECK(swings(here, "s.csv").code == 64);  // of which TDP?
  CHECK(swings(here, "s.csv --tdp-w 4000 --svg x.svg").code == 64);
  put_file(here, "falls.csv", heading + "mine,1000,900,1,1,1,1,1,1,1,1,1,1,.1\n");
  const auto falls = swings(here, "falls.csv --tdp-w 4000");
  CHECK(falls.code == 65);
  CHECK(falls.talk.find("falls.csv:2: p5_w falls") != falls.talk.npos);
  put_file(here, "word.csv", heading + "mine,1000,x,1,1,1,1,1,1,1,1,1,1,.1\n");
  CHECK(swings(here, "word.csv --tdp-w 4000").talk.find("p5_w is \"x\"") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(here / "x.svg"));
  const auto small = swings(here, "s.csv --tdp-w 700");
  CHECK(small.code == 65);
  CHECK(small.talk.find("max_w is 3000, and --tdp-w is 700") != small.talk.npos);
  put_file(here, "none.csv", heading);
  CHECK(swings(here, "none.csv --tdp-w 4000").code == 65);
  put_file(here, "share.csv", heading + "mine,1,1,1,1,1,1,1,1,1,1,1,1,1.5\n");
  CHECK(swings(here, "share.csv --tdp-w 4000").talk.find("dip_time_frac") != std::string::npos);
}

TEST_CASE("power swings: what has no meaning is refused, and nothing is written") {
  scratch here;
  put_file(here, "t.csv", saving_csv());
  put_file(here, "slow.csv", "t_s,watts\n5,4400\n10,1200\n15,4400\n20,4400\n25,4400\n");
  struct wrong {
    const char* words;
    int code;
    const char* said;
  };
  const wrong all[] = {{"none.csv", 66, "none.csv"},
                       {"t.csv --tdp-w 0", 64, "--tdp-w"},
                       {"t.csv --tdp-w 2000", 65, "of all devices"},
                       {"t.csv --most-swing 10", 64, "shares of the TDP"},
                       {"t.csv --floor 75", 64, "shares of the TDP"},
                       {"t.csv --jobs 1", 64, "--jobs"},
                       {"t.csv --longest-save-s 0", 64, "--longest-save-s"},
                       {"t.csv --most-filler-energy -1", 64, "--most-filler-energy"},
                       {"", 64, "trace"}};
  for (const auto& w : all) {
    CAPTURE(w.words);
    const auto done = swings(here, std::string(w.words) + " --out x.csv");
    CHECK(done.code == w.code);
    CHECK_MESSAGE(done.talk.find(w.said) != done.talk.npos, done.talk);
  }
  CHECK_FALSE(std::filesystem::exists(here / "x.csv"));
  const auto slow = swings(here, "slow.csv");
  CHECK(slow.code == 0);
  CHECK(slow.out.starts_with("samples 5 s apart do not show what swings within 2 s"));
}
