// `troupe bench power --only brake`: how soon two jobs follow a cut and a brake is judged by what
// their processes did. Timing decides nothing.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "apps/bench/job_launch.hpp"
#include "apps/bench/power_figures.hpp"
#include "apps/bench/power_overload_report.hpp"
#include "io/config/power_tree.hpp"
#include "tests/apps/power_bench.hpp"

using namespace troupe;
using namespace troupe::apps::power_bench;

namespace {

constexpr double for_ever = std::numeric_limits<double>::infinity();

overload_row row_of_cases(overload_way way, std::vector<double> effect_s) {
  return {way, way == overload_way::cut ? 1.0 : 0.2, std::move(effect_s)};
}

overload_measurement of_cases(std::vector<double> cut_s, std::vector<double> brake_s) {
  return {2,
          1,
          0.06,
          {row_of_cases(overload_way::cut, std::move(cut_s)),
           row_of_cases(overload_way::brake, std::move(brake_s))}};
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

/// What both keep busy in each tenth of a second, from second 100 on.
apps::power_bench::draw_trace tenths_of(const std::vector<double>& busy) {
  std::vector<draw_sample> out{{100, 0}};
  for (const double b : busy) {
    const auto number = static_cast<double>(out.size());
    out.push_back({100 + number / 10, out.back().busy_s + b / 10});
  }
  return draw_trace(std::move(out));
}

}  // namespace

TEST_CASE("bench power: a cut and a brake have an effect where the first kept stretch begins") {
  auto busy = seconds_busy(10, 2);   // to 101: full speed
  busy = seconds_busy(12, 2, busy);  // told at 101, nothing follows until 102.2
  busy = seconds_busy(50, 1, busy);  // the budget that was cut
  overload_row cut{overload_way::cut, 1};
  judge_overload(tenths_of(busy), 101, cut);
  REQUIRE(cut.effect_s.size() == 1);
  CHECK(cut.effect_s[0] == doctest::Approx(1.2));
  CHECK(cut.left_out == 0);

  busy = seconds_busy(18, 2);
  busy = seconds_busy(40, 0.05, busy);
  overload_row brake{overload_way::brake, 0.2};
  judge_overload(tenths_of(busy), 101, brake);
  REQUIRE(brake.effect_s.size() == 1);
  CHECK(brake.effect_s[0] == doctest::Approx(0.8));
}

TEST_CASE("BPO-2: bench power: without an overload before it a case is left out, and told") {
  overload_row cut{overload_way::cut, 1};
  judge_overload(tenths_of(seconds_busy(70, 1.1)), 101, cut);  // 1.2 times that is one
  judge_overload(tenths_of(seconds_busy(70, 2)), 100.2, cut);  // was not seen before
  CHECK(cut.effect_s.empty());
  CHECK(cut.left_out == 2);
}

TEST_CASE("BPO-3: bench power: what is not kept while it is watched takes for ever") {
  overload_row cut{overload_way::cut, 1};
  judge_overload(tenths_of(seconds_busy(80, 2)), 101, cut);
  auto late = seconds_busy(10 + 85, 2);  // the stretch would end behind what is watched
  judge_overload(tenths_of(seconds_busy(50, 1, late)), 101, cut);
  CHECK(cut.effect_s == std::vector{for_ever, for_ever});
  const auto v = verdict_of(of_cases({1, 1, for_ever}, {0.5}));
  CHECK(v.ways[0].median_s == 1);
  CHECK(std::isinf(v.ways[0].p99_s));
  CHECK_FALSE(v.ways[0].is_met);
  CHECK(v.ways[1].is_met);
}

TEST_CASE("bench power: what is wanted of an overload is telemetry, an operation and 100 ms") {
  auto m = of_cases({0.9, 1.1, 1.2}, {0.4, 1.15, 0.8});
  auto v = verdict_of(m);
  CHECK(v.wanted_s == doctest::Approx(1.16));
  REQUIRE(v.ways.size() == 2);
  CHECK(v.ways[0].median_s == doctest::Approx(1.1));
  CHECK(v.ways[0].p99_s == doctest::Approx(1.2));
  CHECK_FALSE(v.ways[0].is_met);
  CHECK(v.ways[1].worst_s == doctest::Approx(1.15));
  CHECK(v.ways[1].is_met);
  auto text = text_of(m);
  CHECK(says(text, "1.100     1.200     1.200  missed"));
  CHECK(says(text, "0.800     1.150     1.150  met"));
  CHECK(says(text, "telemetry 1.000 s, the longest operation 0.060 s, and 0.1 s: 1.160 s"));
  CHECK(says(text, "the same of both jobs, bit by bit"));
  const auto j = json_of(m);
  CHECK(j["rows"][0]["way"] == "cut");
  CHECK(j["rows"][0]["cases"] == 3);
  CHECK(j["rows"][0]["met"] == false);
  CHECK(j["rows"][1]["p99_s"] == 1.15);
  CHECK(j["rows"][1]["met"] == true);

  m.rows[0].effect_s = {for_ever};
  m.rows[1].effect_s.clear();
  m.rows[1].left_out = 3;
  m.same_bits = false;
  v = verdict_of(m);
  CHECK_FALSE(v.ways[0].is_met);
  CHECK_FALSE(v.ways[1].is_met);
  text = text_of(m);
  CHECK(says(text, "never  missed"));
  CHECK(says(text, "not judged"));
  CHECK(says(text, "NOT THE SAME"));
  CHECK_FALSE(says(text, "nan"));
  CHECK_FALSE(says(text, "inf"));
  CHECK(json_of(m)["rows"][0]["p99_s"].is_null());
  CHECK(json_of(m)["rows"][1]["median_s"].is_null());
}

TEST_CASE("bench power: the 99th percentile is by nearest rank, and nothing of nothing") {
  CHECK(p99_of({3, 1, 2}) == 3);
  std::vector<double> x;
  for (int i = 1; i <= 200; ++i) x.push_back(201 - i);
  CHECK(p99_of(x) == 198);
  CHECK(std::isnan(p99_of({})));
  CHECK(std::isnan(p99_of({1, std::nan("")})));
}

TEST_CASE("bench power: the clocks of processes count their threads, and no process that is gone") {
  const auto own = processes_below({::getpid()});
  CHECK(std::find(own.begin(), own.end(), ::getpid()) != own.end());
  timespec before{}, behind{};
  REQUIRE(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before) == 0);
  const auto busy_s = clocks_busy_s({::getpid()});
  REQUIRE(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &behind) == 0);
  const auto seconds = [](const timespec& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  };
  REQUIRE(busy_s);
  CHECK(*busy_s >= seconds(before));
  CHECK(*busy_s <= seconds(behind));
  CHECK(*clocks_busy_s({}) == 0);
  CHECK_FALSE(clocks_busy_s({::getpid(), 1 << 22}));  // Linux gives no number that great
}

TEST_CASE("bench power: a step's longest operation is read from its job's line") {
  const auto s = apps::job_step_of(
      R"({"type":"step","step":3,"parts":[{"kind":"forward","busy_ms":2},)"
      R"({"kind":"backward","busy_ms":4.5},{"kind":"update","busy_ms":null},7]})");
  REQUIRE(s);
  CHECK(s->op_ms == 4.5);
  CHECK(std::isnan(apps::job_step_of(R"({"type":"step","step":3})")->op_ms));
  CHECK(std::isnan(apps::job_step_of(R"({"type":"step","step":3,"parts":8})")->op_ms));
}

TEST_CASE("bench power: a budget that persons alone hold can be served, with small static shares") {
  const auto tree =
      config::parse_power_tree(budget_text("/folder", {44, false, 0.02, false}), "here");
  REQUIRE_MESSAGE(tree, (tree ? std::string() : render(tree.error())));
  CHECK(tree->brake == config::power_brake::manual);
  CHECK(tree->child[0].static_w == doctest::Approx(0.88));
  CHECK(tree->child[0].floor_w == doctest::Approx(0.11));
}

TEST_CASE("bench power: two jobs that are cut and held make the same steps, and nothing is left") {
  scratch dir;
  const auto done = run_power_bench(
      dir, TROUPE_PROGRAM
      " bench power --only brake --repeats 1 --set cluster.heartbeat_interval_ms=100 --dir here "
      "--json");
  if (done.code == 69 && says(done.talk, "this machine measures its watts")) {
    MESSAGE("skipped: a meter measures this machine, whose watts are not processors");
    return;
  }
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out)["brake"];
  REQUIRE(j["rows"].size() == 2);
  for (const auto& row : j["rows"])
    CHECK(row["cases"].get<int>() + row["left_out"].get<int>() == 1);
  CHECK(j["rows"][0]["way"] == "cut");
  CHECK(j["rows"][0]["processors"] == j["free_processors"].get<double>() / 2);
  CHECK(j["longest_op_s"] > 0);
  CHECK(j["wanted_s"] > 1.1);
  CHECK(j["same_bits"] == true);
  CHECK(std::filesystem::is_empty(dir / "here"));
}
