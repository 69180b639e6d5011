// `troupe power show`: sums of a trace, its columns, and the picture through the built program.
#include "apps/power/power_show.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/base/error.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::apps::power_verb;

namespace {

/// An hour at a second: 50 W, from the middle on 80 of 70 W for a minute, while low has 80 % and
/// the budget pulls its brake for the last ten seconds of that; then ten minutes of nothing known.
std::vector<power::budget_trace_row> shown_hour() {
  std::vector<power::budget_trace_row> out;
  for (int s = 0; s < 3600; ++s) {
    power::budget_trace_row row;
    row.t_s = 1'795'996'800 + s;
    row.budget_w = 70;
    row.t1 = 0.8;
    row.t2 = 0.89;
    const bool high = s >= 1800 && s < 1860;
    row.watts = high ? 80 : 50;
    if (high) row.low = 0.8;
    if (high && s >= 1850) row.brake = power::trace_brake::pulled;
    row.brakes = s >= 1850 ? 1 : 0;
    if (s < 1860 || s >= 2460) out.push_back(row);
  }
  return out;
}

void put_trace(const std::filesystem::path& file) {
  std::ofstream out(file);
  out << power::budget_trace_heading << "\n";
  power::budget_trace_lines lines;
  for (const auto& row : shown_hour()) out << *lines.line_of(row) << "\n";
}

}  // namespace

TEST_CASE("power show: what a trace comes to, without what is not known") {
  const auto s = sums_of(shown_hour());
  CHECK(s.span_s == 3599);
  CHECK(s.step_s == 1);
  CHECK(s.known_s == 3599 - 591);  // a tick holds for ten at most
  CHECK(s.most_w == 80);
  CHECK(s.over_s == doctest::Approx(60 + 9));
  CHECK(s.low_capped_s == doctest::Approx(60 + 9));
  CHECK(s.high_capped_s == 0);
  CHECK(s.pulled_s == doctest::Approx(10 + 9));
  CHECK(s.set_s == 0);
  CHECK(s.brakes == 1);
  CHECK(!s.modelled);
  CHECK(s.mean_w == doctest::Approx((50.0 * (3008 - 69) + 80 * 69) / 3008));
}

TEST_CASE("power show: columns are even by time, and one of which nothing is known is empty") {
  const auto columns = columns_of(shown_hour(), 60);
  REQUIRE(columns.size() == 60);
  CHECK(columns[0].ticks == 60);
  CHECK(columns[0].most_w == 50);
  CHECK(columns[30].most_w == 80);
  CHECK(columns[30].low == 0.8);
  CHECK(columns[30].brake == power::trace_brake::pulled);
  CHECK(columns[29].brake == power::trace_brake::off);
  CHECK(columns[35].ticks == 0);
  CHECK(columns[59].ticks > 0);
  const auto few = columns_of({shown_hour()[0], shown_hour()[2], shown_hour()[3]}, 3);
  for (const auto& c : few) CHECK(c.ticks > 0);  // less even than columns: no gap
}

TEST_CASE("power show: a picture, words and JSON of a trace, which plan and swings read, too") {
  scratch here;
  put_trace(here / "power.csv");
  const auto run = [&](const std::string& words) {
    return run_in(here.path, "'" TROUPE_PROGRAM "' power " + words);
  };
  const auto said = run("show power.csv --svg row.svg");
  REQUIRE_MESSAGE(said.code == 0, said.talk);
  CHECK(said.out.find("brake") != said.out.npos);
  CHECK(said.out.find('B') != said.out.npos);
  const auto picture = content(here / "row.svg");
  CHECK(picture.starts_with("<svg"));
  CHECK(picture.ends_with("</svg>\n"));
  CHECK(picture.find("prefers-color-scheme: dark") != picture.npos);
  CHECK(picture.find("class=\"cap2\"") != picture.npos);
  CHECK(picture.find("class=\"brake\"") != picture.npos);
  CHECK(picture.find("nan") == picture.npos);
  const auto json = run("show power.csv --json");
  REQUIRE(json.code == 0);
  const auto j = nlohmann::json::parse(json.out);
  CHECK(j.at("type") == "power_trace");
  CHECK(j.at("brakes") == 1);
  CHECK(j.at("most_w") == 80);
  {
    std::ofstream out(here / "even.csv");
    out << power::budget_trace_heading << "\n";
    power::budget_trace_lines lines;
    const auto first = shown_hour()[0];
    for (int s = 0; s < 4000; ++s) {
      auto row = first;
      row.t_s += s;
      row.watts += s % 7;
      out << *lines.line_of(row) << "\n";
    }
  }
  CHECK(run("swings even.csv --json").code == 0);
  CHECK(run("plan even.csv --servers 2 --budget-w 100 --resamples 2 --json").code == 0);
}

TEST_CASE("power show: a level that was none for a while, or is none now, has a gap and no label") {
  budget_told told{"power.csv", {}};
  for (int s = 0; s < 60; ++s) {
    auto row = shown_hour()[0];
    row.t_s += s;
    row.t1 = s >= 40 ? 0.8 : 0;
    row.t2 = s < 10 || (s >= 30 && s < 50) ? 0.89 : 0;  // from 30 on it begins before its stretch
    if (s < 20 || s >= 25) told.ticks.push_back(row);
  }
  const auto picture = budget_svg(told);
  std::vector<size_t> begun;
  for (auto at = picture.find("<path d=\""); at != picture.npos;) {
    const auto end = picture.find("/>", at);
    const auto path = picture.substr(at, end - at);
    if (path.ends_with("class=\"t\""))
      begun.push_back(static_cast<size_t>(std::count(path.begin(), path.end(), 'M')));
    at = picture.find("<path d=\"", end);
  }
  CHECK(begun == std::vector<size_t>{1, 2});
  CHECK(picture.find(">80 %<") != picture.npos);
  CHECK(picture.find(">0 %<") == picture.npos);
}

TEST_CASE("power show: what is no trace of a budget is refused with its file") {
  scratch here;
  std::ofstream(here / "other.csv") << "t_s,watts\n0,1\n1,1\n2,1\n";
  const auto done = run_in(here.path, "'" TROUPE_PROGRAM "' power show other.csv");
  CHECK(done.code == exit_code(errc::bad_data));
  CHECK(done.talk.find("other.csv") != done.talk.npos);
  CHECK(run_in(here.path, "'" TROUPE_PROGRAM "' power show none.csv").code ==
        exit_code(errc::not_found));
}
