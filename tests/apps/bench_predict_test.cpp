// `troupe bench predict`: step times are foretold by rows that were told, and by no others; what is
// aimed at is judged by all orders; without the tables it says so.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/predict_placement.hpp"
#include "apps/bench/predict_steps_report.hpp"
#include "io/perf/readers.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::apps::predict_bench;

namespace {

/// As vTrain's tables are, of times by a simple rule.
std::string steps_table(int rows) {
  std::string out =
      "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor "
      "parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n";
  for (int i = 0; i < rows; ++i) {
    const int tensor = 1 << (i % 2), data = 1 << (i / 2 % 3), pipeline = 1 << (i / 6 % 2);
    const int micro = 1 << (i / 12 % 3), hidden = 1024 * (1 + i % 5), layers = 8 * (1 + i % 7);
    const int batch = 32 * (1 + i % 3), gpus = tensor * data * pipeline;
    const double flop = 6.0 * layers * 12 * hidden * hidden * batch * 1024 / gpus;
    out += fmt::format("{},{},{},{},16,{},1024,{},{},{},{}\n", gpus, batch, micro, hidden, layers,
                       tensor, data, pipeline,
                       flop / 1e11 * std::pow(micro, -0.1) * (1 + 0.05 * tensor));
  }
  return out;
}

steps_plan planted_plan(const scratch& in, int rows = 90) {
  const auto folder = in.path / "vtrain_steptime";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "ground_truth_single.csv") << steps_table(rows);
  std::ofstream(folder / "ground_truth_multi.csv") << steps_table(30);
  return {in.path, 2, 1};
}

io::perf::perf_table read_steps(const scratch& in) {
  auto t = io::perf::read_dataset(in.path, "vtrain_single", [](std::string_view) { return true; });
  REQUIRE_MESSAGE(t, (t ? "" : t.error().message));
  return *t;
}

/// All rows of a table, the first `told` of them apart.
std::pair<std::vector<const io::perf::perf_row*>, std::vector<const io::perf::perf_row*>> cut_at(
    const io::perf::perf_table& t, size_t told) {
  std::pair<std::vector<const io::perf::perf_row*>, std::vector<const io::perf::perf_row*>> out;
  for (size_t i = 0; i < t.rows.size(); ++i)
    (i < told ? out.first : out.second).push_back(&t.rows[i]);
  return out;
}

steps_row told_row(size_t told, double error, double held) {
  return {told, {{error, 20, 30, 25, held}}, {100}, {0.1}};
}

/// Rounds of a way, each of whose steps took so long.
placement_row placed_row(const std::string& way, const std::string& layers,
                         const std::vector<double>& ms) {
  placement_row out{way, {}};
  for (const double each : ms) out.rounds.push_back({layers, {each, each, 9 * each}, {{1, 2.5}}});
  return out;
}

}  // namespace

TEST_CASE("bench predict: steps of a simple rule are foretold the better, the more were told") {
  const scratch in;
  const auto m = measure_steps(planted_plan(in));
  REQUIRE_MESSAGE(m, (m ? "" : render(m.error())));
  REQUIRE(m->single.size() == 3);
  CHECK(m->single[0].told == 10);
  CHECK(m->single[2].told == 40);
  for (const auto& row : m->single) {
    CHECK(row.rounds.size() == 2);
    CHECK(row.fit_ms.size() == 2);
  }
  CHECK(m->single[2].rounds[0].ours < m->single[0].rounds[0].ours);
  CHECK(m->single[2].rounds[0].ours < 5);
  CHECK(m->single[2].rounds[0].ours < m->single[2].rounds[0].roofline);
  CHECK(m->clusters.told == 27);
  CHECK(m->clusters.rounds.size() == 2);
  CHECK(m->clusters.fit_ms.size() == 20);
  const auto j = json_of(*m);
  CHECK(j.at("single").size() == 3);
  CHECK(j.at("single")[2].at("aim_percent") == 12);
  CHECK(j.at("single")[2].at("error_percent").at("mean").get<double>() > 0);
  CHECK(j.at("clusters").at("vtrain_error_percent").get<double>() == doctest::Approx(14.73));
  CHECK(text_of(*m).find("clusters") != std::string::npos);
}

TEST_CASE("BPR-1: bench predict: times of rows that are asked about have no part in any answer") {
  const scratch in;
  planted_plan(in);
  const auto whole = read_steps(in);
  auto blanked = whole;
  for (size_t i = 30; i < blanked.rows.size(); ++i) blanked.rows[i].labels = {io::perf::absent};
  const auto [told, asked] = cut_at(whole, 30);
  const auto [told_too, blank] = cut_at(blanked, 30);
  const auto one = foretell(whole, told, asked), other = foretell(blanked, told_too, blank);
  REQUIRE(one);
  REQUIRE(other);
  REQUIRE(one->ours.size() == 60);
  for (size_t i = 0; i < 60; ++i) {
    CHECK(one->ours[i].seconds == other->ours[i].seconds);
    CHECK(one->ours[i].least_s == other->ours[i].least_s);
    CHECK(one->ours[i].most_s == other->ours[i].most_s);
  }
  CHECK(one->ridge_s == other->ridge_s);
  CHECK(one->roofline_s == other->roofline_s);
  CHECK(one->nearest_s == other->nearest_s);
}

TEST_CASE("bench predict: the aims are of the mean of all orders, and of rows that have one") {
  const steps_measurement good{
      {told_row(10, 40, 100), told_row(40, 11, 100), told_row(160, 1.4, 95)}, told_row(98, 6, 90)};
  CHECK(verdict_of(good).all());
  auto one_bad_order = good;
  one_bad_order.single[1].rounds = {{8, 0, 0, 0, 95}, {15, 0, 0, 0, 95}};
  CHECK(verdict_of(one_bad_order).errors);
  one_bad_order.single[1].rounds[1].ours = 17;
  CHECK_FALSE(verdict_of(one_bad_order).errors);
  auto narrow = good;
  narrow.single[2].rounds[0].held = 87;
  CHECK_FALSE(verdict_of(narrow).intervals);
  narrow.single[2].rounds[0].held = 99.5;
  CHECK_FALSE(verdict_of(narrow).intervals);
  auto clusters = good;
  clusters.clusters.rounds[0].ours = 6.8;
  CHECK_FALSE(verdict_of(clusters).clusters);
  auto slow = good;
  slow.single[2].fit_ms = {900, 1100, 1200};
  CHECK_FALSE(verdict_of(slow).speed);
  CHECK(text_of(slow).find("missed") != std::string::npos);
  CHECK(text_of(good).find("missed") == std::string::npos);
}

TEST_CASE("bench predict: without tables it says so, and of too few rows nothing is told") {
  const scratch in;
  const auto ran = run_in(in.path, "'" TROUPE_PROGRAM "' bench predict --only steps --json");
  CHECK(ran.code == 0);
  CHECK(ran.talk.find("left out: steps: no ") != std::string::npos);
  CHECK(ran.talk.find("give --data FOLDER") != std::string::npos);
  CHECK(ran.talk.find("--only blame,cost,here,placement") != std::string::npos);
  const auto j = nlohmann::json::parse(ran.out);
  CHECK(j.at("bench") == "predict");
  CHECK(j.at("steps").at("skipped").get<std::string>().find("ground_truth_single.csv") !=
        std::string::npos);
  const auto few = measure_steps(planted_plan(in, 19));
  CHECK_FALSE(few);
  CHECK(few.error().code == errc::bad_data);
}

TEST_CASE("bench predict: the program tells what it measured, as JSON") {
  const scratch in;
  planted_plan(in);
  const auto ran =
      run_in(in.path, "'" TROUPE_PROGRAM "' bench predict --data . --orders 1 --seed 3 --json");
  CHECK(ran.code == 0);
  const auto j = nlohmann::json::parse(ran.out);
  CHECK(j.at("steps").at("single").size() == 3);
  CHECK(j.at("steps").at("met").contains("intervals"));
}

TEST_CASE("bench predict: vTrain's step times are foretold as well as is aimed at") {
  steps_plan plan{shared_folder() / "data" / "perfcast", 2, 1};
  if (missing_of(plan)) {
    MESSAGE("SKIPPED: no ../shared/data/perfcast");
    return;
  }
  const auto m = measure_steps(plan);
  REQUIRE_MESSAGE(m, (m ? "" : render(m.error())));
  CAPTURE(text_of(*m));
  const auto v = verdict_of(*m);
  CHECK(v.errors);
  CHECK(v.clusters);
  CHECK(v.intervals);
}

TEST_CASE("bench predict: layers as measured are judged by even ones and by the best of all") {
  placement_measurement m{
      {placed_row("even", "", {150, 160, 140}), placed_row("measured", "8,4", {100, 90, 110}),
       placed_row("8,4", "8,4", {98, 102, 100}), placed_row("9,3", "9,3", {110})}};
  const auto v = verdict_of(m);
  CHECK(v.over_even == doctest::Approx(1.5));
  CHECK(v.of_best == doctest::Approx(1));
  CHECK(v.same_bits);
  CHECK(v.met());
  CHECK(text_of(m).find("missed") == std::string::npos);
  const auto j = json_of(m);
  CHECK(j.at("rows").size() == 4);
  CHECK(j.at("rows")[0].at("layers").empty());
  CHECK(j.at("rows")[1].at("layers").size() == 3);
  CHECK(j.at("met") == true);
  m.rows.push_back(placed_row("10,2", "10,2", {80}));
  CHECK(verdict_of(m).of_best == doctest::Approx(1.25));
  CHECK_FALSE(verdict_of(m).met());
  CHECK(text_of(m).find("missed") != std::string::npos);
}

TEST_CASE("BPP-2: bench predict: losses of the same layers are compared, of others not") {
  placement_measurement m{{placed_row("even", "", {150}), placed_row("measured", "8,4", {100}),
                           placed_row("8,4", "8,4", {100}), placed_row("9,3", "9,3", {100})}};
  m.rows[3].rounds[0].losses[1] = 3;  // another layout, other last bits
  CHECK(verdict_of(m).same_bits);
  m.rows[1].rounds[0].losses[1] = 3;
  CHECK_FALSE(verdict_of(m).same_bits);
  CHECK_FALSE(verdict_of(m).met());
}

TEST_CASE(
    "bench predict: the layers that a job settles are read from its line, and from no other") {
  CHECK(told_layers("the stages have 7,5 layers as measured: of 7,5 layers") == "7,5");
  CHECK(told_layers("{\"text\":\"the stages have 12,1,3 layers as planned: no room\"}") ==
        "12,1,3");
  for (const auto* line : {"", "the stages have ", "the stages have many layers as measured",
                           "the stages have 7,5 ranks"}) {
    CAPTURE(line);
    CHECK_FALSE(told_layers(line));
  }
}

TEST_CASE("bench predict: a job is measured by every split, and nothing of it is left") {
  const scratch in;
  std::filesystem::create_directory(in.path / "here");
  const auto ran = run_in(in.path, "'" TROUPE_PROGRAM
                                   "' bench predict --only placement --layers 3 --steps 6 --dir "
                                   "here --set model.hidden=32 --set train.seq_len=32 --json");
  REQUIRE_MESSAGE(ran.code == 0, ran.talk);
  const auto j = nlohmann::json::parse(ran.out);
  CHECK_FALSE(j.contains("steps"));
  const auto& placement = j.at("placement");
  CHECK(placement.at("rows").size() == 4);
  CHECK(placement.at("rows")[2].at("way") == "1,2");
  CHECK(placement.at("rows")[1].at("layers").size() == 1);
  CHECK(placement.at("same_bits") == true);
  CHECK(std::filesystem::is_empty(in.path / "here"));
}
