// `troupe power frontier` through the built program: what it prints, draws and writes.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/apps/ended.hpp"
#include "tests/apps/pipeline_profile.hpp"
#include "tests/io/scratch.hpp"

namespace troupe {

namespace {

/// The verb in a folder that holds p.csv.
ended frontier_in(const scratch& in, const std::string& more,
                  const std::string& profile = pipeline_profile()) {
  std::ofstream(in / "p.csv") << profile;
  return run_in(in.path, "'" TROUPE_PROGRAM "' power frontier p.csv " + more);
}

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE(
    "power frontier: a plan has a clock of the profile for every operation, and its energy "
    "adds up") {
  scratch in;
  const auto done = frontier_in(
      in, "--micro-batches 4 --blocking-w 60 --at fastest --plan clocks.csv --svg f.svg --json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out);
  CHECK(j.at("stages") == 3);
  std::map<std::tuple<std::string, std::string, std::string>, std::pair<double, double>> rows;
  std::istringstream profile(pipeline_profile()), plan(content(in / "clocks.csv"));
  std::string line;
  std::getline(profile, line);
  const auto fields_of = [](const std::string& text) {
    std::istringstream from(text);
    std::vector<std::string> out;
    for (std::string field; std::getline(from, field, ',');) out.push_back(field);
    return out;
  };
  while (std::getline(profile, line)) {
    const auto f = fields_of(line);
    rows[{f[0], f[1], f[2]}] = {std::stod(f[3]), std::stod(f[4])};
  }
  std::getline(plan, line);
  CHECK(line == "stage,instruction,micro_batch,frequency");
  double energy_j = 0, worked_s = 0;
  size_t operations = 0;
  for (; std::getline(plan, line); ++operations) {
    const auto f = fields_of(line);
    const auto& [time_s, row_j] = rows.at({f[0], f[1], f[3]});
    worked_s += time_s;
    energy_j += row_j;
  }
  CHECK(operations == 3 * 2 * 4);
  const auto& chosen = j.at("chosen");
  const double time_s = chosen.at("time_s");
  CHECK(chosen.at("energy_j").get<double>() ==
        doctest::Approx(energy_j + 60 * (3 * time_s - worked_s)));
  CHECK(time_s == doctest::Approx(j.at("highest_clocks").at("time_s").get<double>()));
  CHECK(j.at("saved") > 0.02);
  CHECK(j.at("saved") <= j.at("saved_at_most"));
  CHECK(j.at("points").front().at("time_s") == time_s);
  const auto picture = content(in / "f.svg");
  CHECK(picture.starts_with("<svg"));
  CHECK(picture.ends_with("</svg>\n"));
  CHECK(holds(picture, "prefers-color-scheme: dark"));
}

TEST_CASE(
    "power frontier: --at takes the slowest plan of a step that lasts so long, the same bytes "
    "each time") {
  scratch in;
  const std::string asked = "--micro-batches 4 --blocking-w 60 --plan clocks.csv --json --at ";
  const auto held = frontier_in(in, asked + "100");
  REQUIRE(held.code == 0);
  const auto plan = content(in / "clocks.csv");
  const auto j = nlohmann::json::parse(held.out);
  CHECK(j.at("chosen").at("step_s") == 100);
  CHECK(j.at("chosen").at("time_s") == j.at("held_points").back().at("time_s"));
  CHECK(frontier_in(in, asked + "100").out == held.out);
  CHECK(content(in / "clocks.csv") == plan);
  const auto short_step = frontier_in(in, asked + "0.001");
  CHECK(short_step.code == 0);
  CHECK(holds(short_step.talk, "no clocks make a step of 0.001 s"));
  const auto told = frontier_in(in, "--micro-batches 4 --blocking-w 60");
  CHECK(told.code == 0);
  CHECK(holds(told.out, "saved at unchanged step time"));
}

TEST_CASE("power frontier: what cannot be is refused with one error, and nothing is written") {
  scratch in;
  const std::string plan = " --at fastest --plan clocks.csv --svg f.svg";
  const auto refused = [&](const std::string& more, int code, std::string_view says,
                           const std::string& profile = pipeline_profile()) {
    CAPTURE(more);
    const auto done = frontier_in(in, more + plan, profile);
    CHECK(done.code == code);
    CHECK(done.out.empty());
    CHECK_MESSAGE(holds(done.talk, says), done.talk);
    CHECK(std::count(done.talk.begin(), done.talk.end(), '\n') == 2);
    CHECK(holds(done.talk, "hint: "));
    CHECK(!std::filesystem::exists(in / "clocks.csv"));
    CHECK(!std::filesystem::exists(in / "f.svg"));
  };
  const std::string usual = "--micro-batches 4 --blocking-w 60";
  refused(usual, 65, "p.csv: line 80: time is \"nan\", not a number",
          pipeline_profile() + "0,forward,700,nan,3\n");
  refused(usual, 65, "p.csv: line 80: frequency is \"7e2\"",
          pipeline_profile() + "0,forward,7e2,0.1,3\n");
  refused("--micro-batches 4000 --blocking-w 60", 64, "24000 operations, more than 8192");
  refused("--micro-batches 4 --blocking-w 5000", 64, "no row of the profile draws more than 350");
  refused("--micro-batches 4 --blocking-w -1", 64, "--blocking-w is -1");
  CHECK(frontier_in(in, usual + " --at soon").code == 64);
  CHECK(frontier_in(in, usual + " --at -3").code == 64);
  CHECK(frontier_in(in, usual + " --plan clocks.csv").code == 64);
  CHECK(frontier_in(in, "--micro-batches 0 --blocking-w 60").code == 64);
  CHECK(frontier_in(in, "--blocking-w 60").code == 64);
  CHECK(run_in(in.path, "'" TROUPE_PROGRAM "' power frontier none.csv " + usual).code == 66);
}

}  // namespace troupe
