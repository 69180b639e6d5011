// `troupe bench power`: what it measures is a tree that divides, and a job that is judged by what
// its machine's processors did. Timing decides nothing.
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "apps/bench/job_launch.hpp"
#include "apps/bench/power_live_report.hpp"
#include "apps/bench/power_tree.hpp"
#include "tests/apps/power_bench.hpp"

using namespace troupe;
using namespace troupe::apps::power_bench;

namespace {

tree_measurement tree_of(power::budget_mode mode, uint64_t seed = 1) {
  tree_plan plan;
  plan.mode = mode;
  plan.leaves = 40;
  plan.ticks = 300;
  plan.seed = seed;
  auto m = measure_tree(plan);
  REQUIRE_MESSAGE(m, (m ? std::string() : render(m.error())));
  CHECK(m->tick_ms.size() == 300);
  CHECK(m->hear_ms.size() == 300);
  return std::move(*m);
}

/// A row of one round whose steps all took `ms`.
live_row row_of(budget_way way, double ms, int same_bits = 1) {
  live_run run;
  run.step_ms = {ms, ms, ms};
  run.losses = {{1, 2.5}};
  return {way, {run}, same_bits};
}

live_measurement measurement() {
  live_measurement out{.budget_processors = 1,
                       .rows = {row_of(budget_way::none, 100), row_of(budget_way::wide, 101),
                                row_of(budget_way::tight, 200), row_of(budget_way::cut, 200)}};
  out.rows[2].rounds[0].mean_share = 0.97;
  out.rows[2].rounds[0].most_share = 1.01;
  out.rows[3].rounds[0].held_after_s = 1.5;
  out.rows[3].rounds[0].most_share = 1.015;
  return out;
}

}  // namespace

TEST_CASE(
    "bench power: leaves in shares are cut and raised; above a budget that fell nothing rises") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const auto m = tree_of(power::budget_mode::shares, seed);
    CHECK(m.grants >= 300 * 40 / 9);  // a lease of nine seconds is renewed before it ends
    CHECK(m.changes >= 300);
    CHECK(m.most_counted_mw <= m.most_own_mw);
    CHECK(m.over < 30);  // ticks until all follow a budget that has fallen
    CHECK(m.rose_over == 0);
    const auto again = tree_of(power::budget_mode::shares, seed);
    CHECK(again.grants == m.grants);
    CHECK(again.changes == m.changes);
  }
}

TEST_CASE("bench power: thresholds promise more than there is") {
  const auto m = tree_of(power::budget_mode::thresholds);
  CHECK(m.most_counted_mw > m.most_own_mw);
  CHECK(m.over == 300);
  CHECK(m.grants >= 300 * 40 / 9);
}

TEST_CASE("bench power: a tree without leaves is refused") {
  tree_plan plan;
  plan.leaves = 0;
  const auto m = measure_tree(plan);
  REQUIRE_FALSE(m);
  CHECK(m.error().code == errc::bad_config);
}

TEST_CASE("bench power: busy processors are counted between samples, and not beyond them") {
  const auto seen = trace_of({1, 1, 3, 3});
  CHECK(*seen.mean(100, 104) == doctest::Approx(2));
  CHECK(*seen.mean(101.5, 102.5) == doctest::Approx(2));  // half of a second each
  CHECK(*seen.mean(103, 103.25) == doctest::Approx(3));
  CHECK_FALSE(seen.mean(99.9, 104));
  CHECK_FALSE(seen.mean(100, 104.1));
  CHECK_FALSE(seen.mean(102, 102));
  CHECK(*seen.most(100, 104, 2) == doctest::Approx(3));
  CHECK(*seen.most(100, 103, 2) == doctest::Approx(2));
  CHECK_FALSE(seen.most(100, 104, 5));
  CHECK_FALSE(trace_of({}).mean(100, 100.5));
}

TEST_CASE("bench power: what a process and all that it started have used is counted, no other's") {
  const auto before = processes_busy_s({::getpid()});
  REQUIRE(before);
  // A child that ends is waited for: what it used stays counted.
  REQUIRE(std::system("i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done") == 0);
  rusage used{};
  REQUIRE(::getrusage(RUSAGE_CHILDREN, &used) == 0);
  const auto child_s =
      static_cast<double>(used.ru_utime.tv_sec) + static_cast<double>(used.ru_utime.tv_usec) * 1e-6;
  const auto after = processes_busy_s({::getpid()});
  REQUIRE(after);
  constexpr double ticks_s = 0.05;  // the kernel rounds each of several times
  CHECK(*after + ticks_s >= child_s);
  CHECK(*after >= *before);
  CHECK(*processes_busy_s({::getpid(), ::getppid()}) >= *after);
  CHECK(*processes_busy_s({}) == 0);
  CHECK(*processes_busy_s({-1}) == 0);
}

TEST_CASE("bench power: a cut is held from the first stretch that is kept, and judged from there") {
  const auto seen = trace_of({2, 2, 1, 2, 1, 1, 1});
  CHECK(*seen.first_kept(100, 107, 1, 1.02) == 102);
  CHECK(*seen.first_kept(100, 107, 2, 1.02) == 104);
  CHECK(*seen.first_kept(100, 107, 2, 1.6) == 101);  // a second of 2 beside one of 1 is kept
  CHECK(*seen.first_kept(105, 107, 1, 1.02) == 105);
  CHECK_FALSE(seen.first_kept(100, 104, 2, 1.02));
  CHECK_FALSE(seen.first_kept(100, 107, 8, 9));  // there is no such stretch
  auto busy = seconds_busy(10, 2);
  busy = seconds_busy(15, 1, busy);
  busy = seconds_busy(10, 1.1, busy);
  live_run run;
  judge_cut(trace_of(busy), 106, 135, 1, run);
  CHECK(*run.held_after_s == doctest::Approx(4));
  CHECK(*run.most_share == doctest::Approx(1.1));
  CHECK(*run.mean_share == doctest::Approx(1.04));
  live_run never;
  judge_cut(trace_of(busy), 106, 135, 0.5, never);
  CHECK_FALSE(never.held_after_s);
  CHECK_FALSE(never.most_share);
}

TEST_CASE("bench power: a job is judged once its pace has settled, by its worst ten seconds") {
  auto busy = seconds_busy(12, 5);  // settling
  busy = seconds_busy(20, 0.9, busy);
  busy = seconds_busy(10, 1.2, busy);
  live_run run;
  judge_tight(trace_of(busy), 100, 142, 1, run);
  CHECK(*run.mean_share == doctest::Approx(1.0));
  CHECK(*run.most_share == doctest::Approx(1.2));
  live_run half;
  judge_tight(trace_of(busy), 100, 142, 2, half);
  CHECK(*half.most_share == doctest::Approx(0.6));
  live_run brief;
  judge_tight(trace_of(busy), 100, 121, 1, brief);  // nine seconds behind the settling
  CHECK_FALSE(brief.most_share);
}

TEST_CASE("bench power: what is wanted is judged by the worst round, and losses by every one") {
  auto m = measurement();
  auto v = verdict_of(m);
  CHECK(v.worst_share == doctest::Approx(1.01));
  CHECK(v.mean_share == doctest::Approx(0.97));
  CHECK(v.cost == doctest::Approx(1.01));
  CHECK(v.held_after_s == doctest::Approx(1.5));
  CHECK(v.worst_after == doctest::Approx(1.015));
  CHECK(v.same_bits);
  CHECK(text_of(m).find("1.010 at worst: met; 0.970 of it used") != std::string::npos);
  CHECK(text_of(m).find("1.0100 times that of none, wanted 1.005 at most: missed") !=
        std::string::npos);
  const auto j = json_of(m);
  CHECK(j["rows"].size() == 4);
  CHECK(j["rows"][2]["most_share"]["most"] == 1.01);
  CHECK_FALSE(j["rows"][0].contains("most_share"));
  CHECK(j["held_after_s"] == 1.5);

  m.rows[3].rounds.push_back(m.rows[3].rounds[0]);
  m.rows[3].rounds[1].held_after_s.reset();  // never kept: no worst can be told
  m.rows[3].same_bits = 1;
  m.rows[2].rounds[0].most_share = 1.03;
  v = verdict_of(m);
  CHECK(std::isnan(v.held_after_s));
  CHECK_FALSE(v.same_bits);
  CHECK(json_of(m)["held_after_s"].is_null());
  CHECK(text_of(m).find("1.030 at worst: missed") != std::string::npos);
  CHECK(text_of(m).find("NOT THE SAME") != std::string::npos);
}

TEST_CASE("BPL-3: a round that others disturbed is shown, and not held against a budget") {
  auto m = measurement();
  for (auto& row : m.rows) {
    row.rounds.push_back(row.rounds[0]);
    row.same_bits = 2;
  }
  m.rows[2].rounds[1].most_share = 1.5;
  CHECK(verdict_of(m).worst_share == doctest::Approx(1.5));
  m.rows[2].rounds[1].others = 0.3;
  m.rows[1].rounds[1].others = 0.3;
  m.rows[1].rounds[1].step_ms = {150};
  const auto v = verdict_of(m);
  CHECK(v.worst_share == doctest::Approx(1.01));
  CHECK(v.cost == doctest::Approx(1.01));
  CHECK(v.disturbed == 2);
  CHECK(v.same_bits);
  CHECK(text_of(m).find("1.500") != std::string::npos);
  CHECK(text_of(m).find("2 of these jobs were disturbed") != std::string::npos);
  m.rows[2].rounds[0].others = 0.3;
  CHECK(std::isnan(verdict_of(m).worst_share));
  CHECK(text_of(m).find("tight: not judged") != std::string::npos);
  CHECK(text_of(m).find("nan") == std::string::npos);
}

TEST_CASE("bench power: the cost is a round's own step times, and ways can be left out") {
  auto m = measurement();
  for (auto& row : m.rows) row.rounds.push_back(row.rounds[0]);
  // The machine became twice as slow: no cost of a budget.
  m.rows[0].rounds[1].step_ms = {200};
  m.rows[1].rounds[1].step_ms = {202};
  CHECK(verdict_of(m).cost == doctest::Approx(1.01));
  m.rows.resize(1);
  CHECK(std::isnan(verdict_of(m).cost));
  const auto text = text_of(m);
  CHECK(text.find("tight:") == text.npos);
  CHECK(text.find("  cut ") == text.npos);
}

TEST_CASE("bench power: a step is read from a job's line, one without numbers as well") {
  const auto s = apps::job_step_of(
      R"({"type":"step","step":3,"epoch":2,"loss":2.5,"step_ms":7.5,"power_source":"modelled"})");
  REQUIRE(s);
  CHECK(s->step == 3);
  CHECK(s->epoch == 2);
  CHECK(s->loss == 2.5);
  CHECK(s->ms == 7.5);
  CHECK(s->power_source == "modelled");
  const auto lost = apps::job_step_of(R"({"type":"step","step":4,"loss":null,"step_ms":null})");
  REQUIRE(lost);
  CHECK(std::isnan(lost->loss));
  CHECK(std::isnan(lost->ms));
  CHECK(lost->power_source.empty());
  CHECK(apps::same_loss(lost->loss, std::nan("")));
  CHECK(apps::same_loss(2.5, 2.5));
  CHECK_FALSE(apps::same_loss(2.5, std::nextafter(2.5, 3)));
  CHECK_FALSE(apps::same_loss(2.5, std::nan("")));
  CHECK(apps::job_step_of(R"({"type":"step","step":null,"epoch":"x","power_source":7})"));
  CHECK_FALSE(apps::job_step_of(R"({"type":null})"));
  CHECK_FALSE(apps::job_step_of(R"({"type":"summary","step":3})"));
  CHECK_FALSE(apps::job_step_of("step 3/4 | loss 2.5"));
  CHECK_FALSE(apps::job_step_of("{\"type\":\"step\""));
}

TEST_CASE("bench power: too few steps to judge are told, with what helps") {
  CHECK(check_length(budget_way::none, 4, 1));
  CHECK(check_length(budget_way::wide, 4, 1));
  for (const auto way : {budget_way::tight, budget_way::cut}) {
    CHECK(check_length(way, 150, 22));
    const auto few = check_length(way, 4, 2.5);
    REQUIRE_FALSE(few);
    CHECK(few.error().code == errc::unavailable);
    CHECK(few.error().hint.find("--steps") != std::string::npos);
  }
}

TEST_CASE("bench power: a budget that does not bind changes no bit, and nothing is left") {
  scratch dir;
  const auto done =
      run_power_bench(dir, TROUPE_PROGRAM
                      " bench power --only live --ways wide --rounds 2 --steps 4 --dir here "
                      "--json");
  REQUIRE_MESSAGE(done.code == 0, done.talk);
  const auto j = nlohmann::json::parse(done.out)["live"];
  REQUIRE(j["rows"].size() == 2);
  for (const auto& row : j["rows"]) {
    CHECK(row["rounds"] == 2);
    CHECK(row["same_bits"] == 2);
    CHECK(row["step_ms"]["least"] > 0);
    CHECK(row["busy_processors"]["least"] > 0);
  }
  CHECK(j["budget_processors"] > 0);
  CHECK(j["same_bits"] == true);
  CHECK(std::filesystem::is_empty(dir / "here"));
}

TEST_CASE("bench power: an interrupt ends it with 130, and its job and files are gone") {
  scratch dir;
  std::ofstream(dir / "script") << R"(
mkfifo talk
$T --only live --rounds 2 --steps 4 --dir here 2>talk &
while read -r line; do
  case "$line" in *"none: 4 steps"*) kill -INT $!;; esac
  echo "$line" >&2
done <talk
wait $!)";
  const auto done = run_power_bench(dir, "T='" TROUPE_PROGRAM " bench power' bash script");
  CHECK_MESSAGE(done.code == 130, done.talk);
  CHECK(done.talk.find("interrupted") != std::string::npos);
  CHECK(std::filesystem::is_empty(dir / "here"));
  CHECK(run_power_bench(dir, TROUPE_PROGRAM " bench power --only rust").code == 64);
}
