// `troupe bench predict`, the parts beside steps and placement: what is judged of each, that no
// bar is met by what was not measured, and that the program tells it. No time of this machine
// decides anything here.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/predict_accuracy.hpp"
#include "apps/bench/predict_blame.hpp"
#include "apps/bench/predict_cost.hpp"
#include "apps/bench/predict_here.hpp"
#include "apps/bench/predict_speed.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::apps::predict_bench;

namespace {

bool names_miss(const std::vector<std::string>& missed, const std::string& word) {
  for (const auto& line : missed)
    if (line.find(word) != line.npos) return true;
  return false;
}

apps::predict::study_sum sum_of_kind(const std::string& kind, double mape, double over_trunk,
                                     double coverage, double flagged) {
  apps::predict::study_sum out;
  out.dataset = "fleet";
  out.kind = kind;
  out.seeds = 1;
  out.folds = 1;
  out.rows = 30;
  out.mape = mape;
  out.coverage = coverage;
  out.r2 = 0.9;
  out.flagged_percent = flagged;
  out.over_trunk = over_trunk;
  return out;
}

accuracy_measurement judged_once(bool grouped, double mape, double over_trunk = 0,
                                 double coverage = 95, double flagged = 0) {
  return {1,
          {{{"fleet", grouped, 3, 2},
            {sum_of_kind("trunk", 9, 0, 50, 50),
             sum_of_kind("auto", mape, over_trunk, coverage, flagged)}}}};
}

/// Hosts whose score is cores * clock, with a wave of 3 %, of eleven CPU models, with a split and
/// folds as the public sets have them.
void make_hosts(const scratch& in, const std::string& dataset) {
  std::ofstream rows(in / (dataset + ".csv")), schema(in / (dataset + ".toml"));
  std::ofstream split(in / "splits_public.csv"), folds(in / "folds_by_cpu_public.csv");
  rows << "host,cpu,cores,mhz,score\n";
  split << "dataset,row_id,split\n";
  folds << "dataset,cpu_model,fold,rows\n";
  for (int i = 0; i < 90; ++i) {
    const double cores = 4 + i % 13, mhz = 2000 + 37 * (i % 29);
    rows << fmt::format("h{},m{},{},{},{}\n", i, i % 11, cores, mhz,
                        cores * mhz * (1 + 0.03 * std::sin(i)));
    split << fmt::format("{},h{},{}\n", dataset, i, i % 3 == 2 ? "test" : "train");
  }
  for (int model = 0; model < 11; ++model)
    folds << fmt::format("{},m{},{},1\n", dataset, model, model % 2);
  schema << "id = \"host\"\ncpu_model = \"cpu\"\nlabels = [\"score\"]\n"
            "[[feature]]\ncolumn = \"cores\"\ngroup = \"cpu\"\nkind = \"log\"\n"
            "[[feature]]\ncolumn = \"mhz\"\ngroup = \"cpu\"\nkind = \"log\"\nunit = \"MHz\"\n";
}

/// A round of a job, each of whose steps took so long.
cost_run cost_round(double ms, double loss = 2.5) {
  return {{ms, ms, 9 * ms}, {{1, loss}, {2, 2.25}}};
}

cost_measurement cost_of(const std::vector<double>& with, const std::vector<double>& without) {
  cost_measurement out;
  for (const double ms : with) out.with.push_back(cost_round(ms));
  for (const double ms : without) out.without.push_back(cost_round(ms));
  out.grid = {2, 1, 16};
  out.head_steps = out.learned_steps = 10;
  out.expecting = {0.1, 3000};
  out.learning = {0.1, 0.1, 20, 2, 1000};
  return out;
}

/// A run that took so long, of a shape of twelve numbers as past runs keep them.
io::perf::past_run run_of(double layers, double hidden, double batch) {
  io::perf::past_run out;
  out.machine = "this";
  out.flops = 1e9 * layers * hidden * hidden * batch;
  out.median_s = out.flops / 1e13 * std::pow(batch, -0.2);
  out.steps = 30;
  out.shape = {layers, hidden, batch, batch, 64, 1, 1, 1, 4, 1, 1, 1};
  return out;
}

std::vector<io::perf::past_run> planted_runs() {
  std::vector<io::perf::past_run> out;
  for (const double layers : {1.0, 2.0, 4.0})
    for (const double hidden : {64.0, 96.0})
      for (const double batch : {4.0, 8.0, 16.0}) out.push_back(run_of(layers, hidden, batch));
  return out;
}

}  // namespace

TEST_CASE("bench predict: accuracy is judged of auto, by what must be and by what is aimed at") {
  const auto good = verdict_of(judged_once(true, 1.9));
  CHECK(good.met());
  CHECK(good.aims_missed.empty());
  const auto between = verdict_of(judged_once(true, 2.5));
  CHECK(between.met());
  CHECK(names_miss(between.aims_missed, "grouped fleet: 2.50 % (aim 2)"));
  CHECK(names_miss(verdict_of(judged_once(true, 3.1)).missed, "grouped fleet: 3.10 % (must be 3)"));
  CHECK(names_miss(verdict_of(judged_once(true, 1.9, 0.21)).missed, "worse than the trunk"));
  CHECK(verdict_of(judged_once(true, 1.9, 0.19)).met());
  CHECK(names_miss(verdict_of(judged_once(true, std::nan(""))).missed, "must be 3"));
}

TEST_CASE("bench predict: intervals and flags of accuracy are judged by how rows were dealt out") {
  CHECK(verdict_of(judged_once(true, 1, 0, 89)).met());
  CHECK(names_miss(verdict_of(judged_once(false, 1, 0, 89)).missed, "intervals"));
  CHECK(names_miss(verdict_of(judged_once(false, 1, 0, 98.5)).missed, "intervals"));
  CHECK(names_miss(verdict_of(judged_once(true, 1, 0, 99.5)).missed, "intervals"));
  CHECK(names_miss(verdict_of(judged_once(true, 1, 0, 95, 11)).missed, "flagged"));
  CHECK(verdict_of(judged_once(false, 1, 0, 95, 11)).met());
}

TEST_CASE("BPA-2: bench predict: a data set that is not there is named and meets nothing") {
  accuracy_measurement m{1, {{{"fleet", false, 3, 2}, {}}}};
  CHECK(names_miss(verdict_of(m).missed, "random fleet: not measured"));
  CHECK(text_of(m).find("not measured") != std::string::npos);
  m = judged_once(false, 1);
  m.rows[0].kinds.pop_back();  // the trunk alone
  CHECK_FALSE(verdict_of(m).met());
  std::set<std::string> sets;
  for (const auto& bar : public_bars()) sets.insert(bar.dataset);
  CHECK(public_bars().size() == 10);
  CHECK(sets.size() == 6);
}

TEST_CASE("BPA-1: bench predict: what accuracy judges is a study, and goes on from what is kept") {
  const scratch in;
  make_hosts(in, "fleet");
  std::filesystem::create_directory(in / "kept");
  accuracy_plan plan;
  plan.data = in.path;
  plan.kept = in / "kept";
  plan.kinds = "mean";
  plan.passes = 3;
  plan.bars = {{"fleet", false, 3, 2}, {"fleet", true, 3, 2}, {"ships", false, 3, 2}};
  const auto m = measure_accuracy(plan);
  REQUIRE_MESSAGE(m, (m ? "" : render(m.error())));
  REQUIRE(m->rows.size() == 3);
  for (int i : {0, 1}) {
    const auto& row = m->rows[static_cast<size_t>(i)];
    REQUIRE(row.kinds.size() == 3);
    CHECK(row.kinds[0].kind == "mean");
    CHECK(row.kinds[1].kind == "trunk");
    CHECK(row.kinds[1].mape < 4);
    CHECK(row.kinds[0].mape > row.kinds[1].mape);
    CHECK(row.kinds[2].kind == "auto");
  }
  CHECK(m->rows[1].kinds[0].folds == 2);
  CHECK(m->rows[2].kinds.empty());
  CHECK(std::filesystem::exists(in / "kept" / "random.csv"));
  const auto j = json_of(*m);
  CHECK(j.at("rows").size() == 3);
  CHECK(j.at("rows")[1].at("kinds")[2].at("kind") == "auto");
  CHECK(j.at("met") == false);
  const auto again = measure_accuracy(plan);
  REQUIRE(again);
  CHECK(json_of(*again) == j);
}

TEST_CASE("bench predict: blame's clusters are the same by the same seed, and few steps find it") {
  blame_plan plan;
  plan.cases = 12;
  plan.node_steps = 4000;
  const auto m = measure_blame(plan);
  REQUIRE(m.rows.size() == 2);
  CHECK(m.rows[0].tail == 0);
  CHECK(m.rows[1].tail == doctest::Approx(0.01));
  for (const auto& row : m.rows) {
    CHECK(row.cases == 12);
    CHECK(row.node_steps == 4000);
    CHECK(row.right <= row.cases);
    CHECK(row.right >= 11);
    for (const double s : row.steps) CHECK(s >= 3);
  }
  CHECK(json_of(measure_blame(plan)) == json_of(m));
  plan.slower = 0;  // nobody got slow
  const auto none = measure_blame(plan);
  CHECK(none.rows[0].right == 0);
  CHECK(names_miss(verdict_of(none).missed, "never found"));
}

TEST_CASE("bench predict: blame is judged by the worst case, who is named, and false alarms") {
  blame_measurement m{{}, {{0, 3, {9, 11, 20}, 3, 100'000, 1}}};
  CHECK(verdict_of(m).met());
  CHECK(text_of(m).find("missed") == std::string::npos);
  m.rows[0].steps[2] = 21;
  CHECK(names_miss(verdict_of(m).missed, "21 steps"));
  m.rows[0].steps = {9, 11};
  CHECK(names_miss(verdict_of(m).missed, "1 of 3 never found"));
  m.rows[0] = {0, 200, std::vector<double>(200, 9), 197, 100'000, 0};
  CHECK(names_miss(verdict_of(m).missed, "right in 98.5 %"));
  m.rows[0] = {0, 1, {9}, 1, 100'000, 2};
  CHECK(names_miss(verdict_of(m).missed, "2 false alarms"));
  CHECK(text_of(m).find("missed") != std::string::npos);
}

TEST_CASE("bench predict: speed is judged by the median fit, the most memory and a question") {
  const speed_measurement good{
      2, {{{"fleet", 30}, 60, "trunk", {29, 10, 50}, {20}, {100, 299}, {0.1, 0.2, 7}}}};
  CHECK(verdict_of(good).met());
  auto slow = good;
  slow.rows[0].fit_s = {31};
  CHECK(names_miss(verdict_of(slow).missed, "31.0 s"));
  auto large = good;
  large.rows[0].peak_mib = {100, 301};
  CHECK(names_miss(verdict_of(large).missed, "301 MiB"));
  auto late = good;
  late.rows[0].ask_ms = {0.1, 1.2, 7};
  CHECK(names_miss(verdict_of(late).missed, "1.20 ms"));
  late.rows[0].ask_ms.clear();
  CHECK(names_miss(verdict_of(late).missed, "nothing was asked"));
  CHECK(text_of(good).find("missed") == std::string::npos);
  CHECK(text_of(late).find("missed") != std::string::npos);
}

TEST_CASE("BPV-1: bench predict: a fit is the program's own, and says its time and memory") {
  const scratch in;
  make_hosts(in, "fleet");
  std::filesystem::create_directory(in / "models");
  speed_plan plan;
  plan.data = in.path;
  plan.folder = in / "models";
  plan.sets = {{"fleet", 30}};
  plan.passes = 3;
  CHECK_FALSE(missing_of(plan));
  const auto m = measure_speed(plan);
  REQUIRE_MESSAGE(m, (m ? "" : render(m.error())));
  REQUIRE(m->rows.size() == 1);
  CHECK(m->rows[0].rows == 60);
  CHECK(m->rows[0].fit_s.size() == 1);
  CHECK(m->rows[0].processor_s[0] > 0);
  CHECK(m->rows[0].peak_mib[0] > 1);
  CHECK(m->rows[0].ask_ms.size() == 30);
  CHECK(json_of(*m).at("rows")[0].at("questions") == 30);
  plan.sets = {{"ships", 30}};
  CHECK(missing_of(plan).value_or("").find("ships") != std::string::npos);
}

TEST_CASE("BPC-1: bench predict: the cost is the median of rounds' ratios") {
  const auto m = cost_of({100, 210, 99}, {100, 200, 100});
  const auto v = verdict_of(m);
  CHECK(v.ratio == doctest::Approx(1));
  CHECK(v.met());
  CHECK(text_of(m).find("missed") == std::string::npos);
  const auto slower = cost_of({101, 202, 99}, {100, 200, 100});
  CHECK(verdict_of(slower).ratio == doctest::Approx(1.01));
  CHECK(names_miss(verdict_of(slower).missed, "1.0100 times"));
  auto large = m;
  large.learning.bytes_per_rank = 1097;
  CHECK(names_miss(verdict_of(large).missed, "KiB a rank"));
  CHECK(json_of(large).at("met") == false);
}

TEST_CASE("BPC-2: bench predict: losses with the predictor and without are compared, each") {
  auto m = cost_of({100, 100}, {100, 100});
  CHECK(verdict_of(m).same_bits);
  m.with[1] = cost_round(100, 2.5000001);
  CHECK_FALSE(verdict_of(m).same_bits);
  CHECK_FALSE(verdict_of(m).met());
  m = cost_of({100, 100}, {100, 100});
  m.with[0].losses.erase(2);
  CHECK_FALSE(verdict_of(m).same_bits);
}

TEST_CASE("BPX-1: bench predict: what a run took has no part in what is said of it") {
  auto runs = planted_runs();
  const auto before = foretell_each(runs);
  REQUIRE(before.size() == runs.size());
  runs[5].median_s *= 3;
  const auto after = foretell_each(runs);
  REQUIRE(before[5].ours);
  REQUIRE(after[5].ours);
  CHECK(after[5].ours->step_s == before[5].ours->step_s);
  CHECK(after[5].roofline_s == before[5].roofline_s);
  CHECK(after[5].nearest_s == before[5].nearest_s);
  CHECK(after[5].came_s == doctest::Approx(3 * before[5].came_s));
  CHECK(after[4].ours->step_s != before[4].ours->step_s);
  CHECK(foretell_each(std::vector{runs[0]}).empty());
}

TEST_CASE("bench predict: here is judged by the median of all runs, and silence is an error") {
  here_measurement m{here_configurations(18, 1), foretell_each(planted_runs())};
  auto v = verdict_of(m);
  CHECK(v.met());
  CHECK(v.ours < v.roofline);
  CHECK(v.unsaid == 0);
  CHECK(text_of(m).find("missed") == std::string::npos);
  CHECK(json_of(m).at("rows").size() == 18);
  for (size_t i = 0; i < 10; ++i) m.runs[i].ours.reset();
  v = verdict_of(m);
  CHECK(v.unsaid == 10);
  CHECK(v.ours == doctest::Approx(100));
  CHECK_FALSE(v.met());
  CHECK(text_of(m).find("missed") != std::string::npos);
}

TEST_CASE("BPX-2: bench predict: configurations are unlike each other, the same by a seed") {
  const auto some = here_configurations(32, 7);
  CHECK(some.size() == 32);
  CHECK(std::set(some.begin(), some.end()).size() == 32);
  CHECK(here_configurations(32, 7) == some);
  CHECK(here_configurations(32, 8) != some);
  CHECK(here_configurations(100'000, 7).size() == 360);
}

TEST_CASE("bench predict: parts without their data say so, and blame needs none") {
  const scratch in;
  const auto ran = run_in(in.path, "'" TROUPE_PROGRAM
                                   "' bench predict --only speed,accuracy,blame --cases 3 "
                                   "--node-steps 800 --json");
  REQUIRE_MESSAGE(ran.code == 0, ran.talk);
  CHECK(ran.talk.find("left out: speed: no ") != std::string::npos);
  CHECK(ran.talk.find("left out: accuracy: no ") != std::string::npos);
  CHECK(ran.talk.find("of what needs no data") == std::string::npos);
  const auto j = nlohmann::json::parse(ran.out);
  CHECK(j.at("accuracy").contains("skipped"));
  CHECK(j.at("speed").contains("skipped"));
  CHECK(j.at("blame").at("rows")[0].at("cases") == 3);
  CHECK_FALSE(j.contains("steps"));
}

TEST_CASE("bench predict: accuracy of a public set by name, kept where it is told to") {
  const scratch in;
  make_hosts(in, "spr_CINT2017rate_own");
  std::filesystem::create_directory(in / "kept");
  const auto ran = run_in(in.path, "'" TROUPE_PROGRAM
                                   "' bench predict --only accuracy --data . --kinds trunk "
                                   "--passes 3 --dataset 'spr_*' --kept kept");
  REQUIRE_MESSAGE(ran.code == 0, ran.talk);
  CHECK(ran.talk.find("left out: accuracy: no spr_CINT2017rate in ") != std::string::npos);
  CHECK(ran.out.find("grouped spr_CFP2017rate: not measured") != std::string::npos);
}

TEST_CASE("bench predict: jobs with and without are run, small ones foretold, nothing is left") {
  const scratch in;
  std::filesystem::create_directory(in / "here");
  const auto ran = run_in(in.path, "'" TROUPE_PROGRAM
                                   "' bench predict --only cost,here --rounds 1 --steps 14 "
                                   "--configurations 3 --ranks 32 --dir here --json");
  REQUIRE_MESSAGE(ran.code == 0, ran.talk);
  const auto j = nlohmann::json::parse(ran.out);
  const auto& cost = j.at("cost");
  CHECK(cost.at("same_bits") == true);
  CHECK(cost.at("rounds") == 1);
  CHECK(cost.at("ratio").at("median").get<double>() > 0);
  CHECK(cost.at("head").at("ranks") == 32);
  const auto& here = j.at("here");
  CHECK(here.at("rows").size() == 3);
  CHECK(here.at("rows")[0].at("step_ms").get<double>() > 0);
  CHECK(here.at("rows")[0].at("roofline_ms").get<double>() > 0);
  CHECK(std::filesystem::is_empty(in.path / "here"));
}
