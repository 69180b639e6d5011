// `troupe bench power --only shared`: two jobs under one budget are judged by what their own
// processes did, in rounds that nobody disturbed. Timing decides nothing.
#include <sys/types.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "apps/bench/other_work.hpp"
#include "apps/bench/power_live.hpp"
#include "apps/bench/power_shared_report.hpp"
#include "io/config/power_tree.hpp"
#include "tests/apps/power_bench.hpp"

using namespace troupe;
using namespace troupe::apps::power_bench;

namespace {

shared_row shared_row_of(shared_way way, double first_ms, int rounds = 1) {
  shared_run run;
  run.step_ms = {first_ms, 2 * first_ms};
  run.processors = 1.5;
  return {way, std::vector<shared_run>(static_cast<size_t>(rounds), run)};
}

shared_measurement shared_rounds(int rounds = 1) {
  shared_measurement out{
      2,
      {shared_row_of(shared_way::free, 100, rounds), shared_row_of(shared_way::equal, 200, rounds),
       shared_row_of(shared_way::prior, 104, rounds)}};
  for (size_t way : {1u, 2u})
    for (auto& r : out.rows[way].rounds) {
      r.mean_share = way == 1 ? 0.97 : 0.9;
      r.most_share = way == 1 ? 1.005 : 1.01;
    }
  return out;
}

bool tells_part(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("bench power: two jobs are judged once leases have settled, by their worst ten seconds") {
  const auto settling = static_cast<int>(leases_settle_s);
  auto busy = seconds_busy(settling, 2);
  busy = seconds_busy(20, 0.9, busy);
  busy = seconds_busy(10, 1.2, busy);
  shared_run run;
  judge_shared(trace_of(busy), 100, 100 + settling + 30, 1, run);
  CHECK(*run.mean_share == doctest::Approx(1.0));
  CHECK(*run.most_share == doctest::Approx(1.2));
  shared_run brief;
  judge_shared(trace_of(busy), 100, 100 + settling + 9, 1, brief);  // no ten seconds behind it
  CHECK(*brief.mean_share == doctest::Approx(0.9));
  CHECK_FALSE(brief.most_share);
  shared_run none;
  judge_shared(trace_of(busy), 100, 100 + settling, 1, none);
  CHECK_FALSE(none.mean_share);
}

TEST_CASE("bench power: of two jobs any budget's worst stretch counts, and the first one's speed") {
  auto m = shared_rounds();
  auto v = verdict_of(m);
  CHECK(v.worst_share == doctest::Approx(1.01));
  CHECK(v.mean_share == doctest::Approx(0.97));  // of equal, where both are always hungry
  CHECK(v.speed == doctest::Approx(100.0 / 104));
  CHECK(v.disturbed == 0);
  CHECK(v.same_bits);
  auto text = text_of(m);
  CHECK(
      tells_part(text, "any 10 s under a budget, at worst: 1.010, wanted 1.02 of it at most: met"));
  CHECK(tells_part(text, "while both are hungry: 0.970, wanted 0.95: met"));
  CHECK(tells_part(text, "without a budget: 0.962, wanted 0.95: met"));
  CHECK(tells_part(text, "the same of all jobs, bit by bit"));
  const auto j = json_of(m);
  REQUIRE(j["rows"].size() == 3);
  CHECK(j["rows"][0]["way"] == "free");
  CHECK(j["rows"][0]["budget_processors"] == 0);
  CHECK(j["rows"][1]["budget_processors"] == 1);
  CHECK(j["rows"][2]["budget_processors"] == 1.5);
  CHECK_FALSE(j["rows"][0].contains("most_share"));
  CHECK(j["rows"][2]["most_share"]["most"] == 1.01);
  CHECK(j["rows"][2]["second_step_ms"]["median"] == 208);
  CHECK(j["worst_share"] == 1.01);

  m.rows[1].rounds[0].most_share = 1.03;
  m.rows[1].rounds[0].mean_share = 0.94;
  m.rows[2].rounds[0].step_ms[0] = 110;
  m.rows[2].rounds[0].same_bits = false;
  v = verdict_of(m);
  CHECK(v.worst_share == doctest::Approx(1.03));
  CHECK_FALSE(v.same_bits);
  text = text_of(m);
  CHECK(tells_part(text, "1.030, wanted 1.02 of it at most: missed"));
  CHECK(tells_part(text, "0.940, wanted 0.95: missed"));
  CHECK(tells_part(text, "0.909, wanted 0.95: missed"));
  CHECK(tells_part(text, "NOT THE SAME"));
  CHECK(json_of(m)["same_bits"] == false);
}

TEST_CASE("BOW-1: a budget is no share of what others leave of a machine, and they are named") {
  const other_work compiler{1.7, {{4711, "cc1plus", 0.9}, {12, "kswapd0", 0.1}}};
  CHECK(check_free(1.8, 0.5, {}));
  CHECK(check_free(0.4, 0.5, compiler));  // 0.1 of a processor for each of both
  CHECK(check_free(0.3, 0.75, compiler));
  const auto refused = check_free(0.3, 0.5, compiler);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().is(too_little_free));
  CHECK(refused.error().message ==
        too_little_free(0.3, 0.4, 1.7, ": cc1plus (4711) 0.90, kswapd0 (12) 0.10").message);
  CHECK(check_free(0, 0.5, {}).error().message == too_little_free(0, 0.4, 0, "").message);
}

TEST_CASE("bench power: who else was busy: the busiest first, and none of our own") {
  const std::map<pid_t, seen_process> before{{1, {0, "init", 5}},
                                             {10, {1, "bench", 1}},
                                             {11, {10, "job", 1}},
                                             {20, {1, "editor", 100}},
                                             {21, {1, "web", 7}}};
  std::map<pid_t, seen_process> now = before;
  now[11].busy_s = 9;
  now[12] = {11, "rank", 8};  // of ours, and new
  now[20].busy_s = 100.1;     // a hundredth of a processor
  now[21].busy_s = 12;
  now[22] = {1, "compiler", 9.5};  // began meanwhile
  now[30] = {31, "ring", 1};
  now[31] = {30, "ring too", 2};
  const auto busiest = busiest_of(before, now, {10}, 10);
  REQUIRE(busiest.size() == 3);
  CHECK(text_of(busiest) == "compiler (22) 0.95, web (21) 0.50, ring too (31) 0.20");
  CHECK(text_of(std::vector<busy_process>{}).empty());
}

TEST_CASE("BPS-1: a round of two jobs that others disturbed is shown, and not held against them") {
  auto m = shared_rounds(2);
  auto& equal = m.rows[1].rounds[1];
  equal.most_share = 1.5;
  equal.mean_share = 0.5;
  CHECK(verdict_of(m).worst_share == doctest::Approx(1.5));
  equal.others = 0.3;
  m.rows[2].rounds[1].step_ms[0] = 500;
  m.rows[0].rounds[1].others = 0.3;  // what the other way of its round is compared with
  auto v = verdict_of(m);
  CHECK(v.worst_share == doctest::Approx(1.01));
  CHECK(v.mean_share == doctest::Approx(0.97));
  CHECK(v.speed == doctest::Approx(100.0 / 104));
  CHECK(v.disturbed == 2);
  CHECK(tells_part(text_of(m), "1.500"));
  CHECK(tells_part(text_of(m), "2 of these runs were disturbed"));

  m.rows[1].rounds[0].most_share.reset();  // too short a round: no worst can be told
  m.rows[2].rounds[0].step_ms[0].reset();
  v = verdict_of(m);
  CHECK(std::isnan(v.worst_share));
  CHECK(std::isnan(v.speed));
  CHECK(json_of(m)["worst_share"].is_null());
  CHECK(tells_part(text_of(m), "at worst: not judged"));
  CHECK_FALSE(tells_part(text_of(m), "nan"));
}

TEST_CASE("bench power: the budget of two jobs can be served, and names them") {
  for (const bool has_priority : {false, true}) {
    const auto tree = config::parse_power_tree(budget_text("/folder", {11, has_priority}), "here");
    REQUIRE_MESSAGE(tree, (tree ? std::string() : render(tree.error())));
    CHECK(tree->budget_w == 11);
    CHECK(tree->output == "/folder/budget");
    REQUIRE(tree->child.size() == 2);
    CHECK(tree->child[0].name != tree->child[1].name);
    CHECK((tree->child[0].priority == config::power_priority::high) == has_priority);
    CHECK(tree->child[1].priority == config::power_priority::low);
    CHECK(tree->child[0].ceiling_w >= 11);  // one alone may have all of it
  }
}

TEST_CASE("bench power: two jobs make the same steps under a budget and none, nothing is left") {
  scratch dir;
  const auto done = run_power_bench(
      dir, TROUPE_PROGRAM
      " bench power --only shared --rounds 1 --seconds 2 --set power.meter_interval_ms=100 "
      "--set cluster.heartbeat_interval_ms=100 --dir here --json");
  if (done.code == 69 && tells_part(done.talk, "this machine measures its watts")) {
    MESSAGE("skipped: a meter measures this machine, whose watts are not processors");
    return;
  }
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out)["shared"];
  REQUIRE(j["rows"].size() == 3);
  for (const auto& row : j["rows"]) {
    CHECK(row["rounds"] == 1);
    CHECK(row["same_bits"] == true);
    CHECK(row["busy_processors"]["least"] > 0);
    CHECK_FALSE(row.contains("most_share"));  // two seconds say nothing of ten
  }
  CHECK(j["rows"][1]["way"] == "equal");
  CHECK(j["rows"][1]["budget_processors"] == j["free_processors"].get<double>() / 2);
  CHECK(j["same_bits"] == true);
  CHECK(j["worst_share"].is_null());
  CHECK(std::filesystem::is_empty(dir / "here"));
}

TEST_CASE("bench power: two jobs whose paces are quotas make the same steps, and nothing is left") {
  scratch dir;
  const auto done = run_power_bench(
      dir, TROUPE_PROGRAM
      " bench power --only cgroup --rounds 1 --seconds 2 --set power.meter_interval_ms=100 "
      "--set cluster.heartbeat_interval_ms=100 --dir here --json");
  for (const char* reason : {"this machine measures its watts", "cannot be bounded"})
    if (done.code != 0 && tells_part(done.talk, reason)) {
      MESSAGE(("skipped: " + std::string(reason)));
      return;
    }
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out)["cgroup"];
  REQUIRE(j["rows"].size() == 3);
  CHECK(j["same_bits"] == true);
  CHECK(std::filesystem::is_empty(dir / "here"));
}
