// `troupe predict export` through the built program: what jobs have taught is split, learned and
// asked about as any table is.
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/config/work_shape.hpp"
#include "io/perf/part_times.hpp"
#include "io/perf/past_runs.hpp"
#include "io/perf/readers.hpp"
#include "tests/apps/ended.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;

namespace {

ended predict_in(const scratch& in, const std::string& arguments) {
  return run_in(in.path, "'" TROUPE_PROGRAM "' predict " + arguments);
}

std::vector<double> numbers_of(size_t count, int i) {
  std::vector<double> out(count, 2);
  out[0] = 1 + i % 6;          // layers
  out[2] = 4.0 * (1 + i % 7);  // batch
  return out;
}

double planted_s(const std::vector<double>& numbers, int node) {
  return 1e-3 * numbers[0] * numbers[2] * (1 + 0.1 * node);
}

/// Times of two parts on three nodes, one of which tells of no machine.
std::vector<io::perf::part_time> taught_times() {
  // Of the work, and whether it swaps, its kind of steps, and how much the part has to do.
  const auto count = static_cast<size_t>(config::work_feature::count) + 3;
  std::vector<io::perf::part_time> out;
  for (int i = 0; i < 120; ++i) {
    const auto numbers = numbers_of(count, i);
    const auto part = i % 2 == 0 ? "forward" : "backward";
    out.push_back(
        {part, fmt::format("node{}", i % 3), numbers, (1 + i % 2) * planted_s(numbers, i % 3), 4});
    if (i % 3 < 2) out.back().machine.kind = fmt::format("kind {}, 4 cores, 8 GiB", i % 3);
  }
  return out;
}

io::perf::label_filter all_labels() {
  return [](std::string_view) { return true; };
}

}  // namespace

TEST_CASE("predict export: times of parts are a table that is split, learned and asked about") {
  const scratch dir;
  auto times = taught_times();
  REQUIRE(io::perf::add_part_times(dir / "one.jsonl", std::span(times).subspan(0, 70)));
  times.back().features.pop_back();  // of another release
  REQUIRE(io::perf::add_part_times(dir / "two.jsonl", std::span(times).subspan(70)));
  const auto made = predict_in(dir, "export one.jsonl two.jsonl -o learned");
  REQUIRE_MESSAGE(made.code == 0, made.talk);
  CHECK(made.talk.find("1 line") != std::string::npos);
  const auto table = io::perf::read_dataset(dir / "learned", "part-times", all_labels());
  REQUIRE_MESSAGE(table, (table ? "" : table.error().message));
  REQUIRE(table->rows.size() == times.size() - 1);
  CHECK(table->outputs == std::vector<std::string>{"seconds"});
  for (size_t i = 0; i < table->rows.size(); ++i) {
    const auto& row = table->rows[i];
    CHECK(row.labels == std::vector<double>{times[i].seconds});  // all digits
    CHECK(row.cpu_model == times[i].node);
    const auto words = times[i].features.size();  // part, node and machine
    REQUIRE(row.words.size() == words + 3);
    CHECK(row.words[words + 1] == times[i].node);
    CHECK(row.words[words + 2] == times[i].machine.kind);
    for (size_t j = 0; j < times[i].features.size(); ++j)
      CHECK(row.numbers[j] == times[i].features[j]);
  }
  CHECK(predict_in(dir, "split --data learned --dataset part-times --seed 1 -o s.csv").code == 0);
  const auto learned = predict_in(dir, "train --data learned --split s.csv --kind trunk -o models");
  REQUIRE_MESSAGE(learned.code == 0, learned.talk);
  const auto asked =
      predict_in(dir, "ask models --data learned --split s.csv --part test -o predictions.csv");
  REQUIRE_MESSAGE(asked.code == 0, asked.talk);
  const auto judged =
      predict_in(dir, "eval predictions.csv --data learned --split s.csv --part test --json");
  CHECK_MESSAGE(judged.code == 0, judged.talk);
}

TEST_CASE(
    "predict export: past runs are a table of their own, with dates and the work as a group") {
  const scratch dir;
  for (int i = 0; i < 12; ++i) {
    io::perf::past_run run;
    run.unix_s = 1.79e9 + 86'400.0 * i;
    run.job = "job";
    run.machine = "this";
    run.work = fmt::format("work {}, of {}", i % 3, i);
    run.flops = 1e9 * (1 + i);
    run.steps = 100;
    run.median_s = 0.1 * (1 + i);
    run.low_s = 0.09 * (1 + i);
    run.high_s = 0.12 * (1 + i);
    run.shape = numbers_of(static_cast<size_t>(config::work_feature::count), i);
    if (i == 11) run.shape.clear();  // an earlier program's
    REQUIRE(io::perf::add_past_run(dir / "past.jsonl", run));
  }
  const auto made = predict_in(dir, "export past.jsonl -o learned");
  REQUIRE_MESSAGE(made.code == 0, made.talk);
  const auto table = io::perf::read_dataset(dir / "learned", "past-runs", all_labels());
  REQUIRE_MESSAGE(table, (table ? "" : table.error().message));
  REQUIRE(table->rows.size() == 11);
  CHECK(table->rows[1].labels == std::vector<double>{0.2});
  CHECK(table->rows[1].cpu_model == "work 1, of 1");
  CHECK(table->rows[1].date.size() == 8);
  CHECK_FALSE(std::filesystem::exists(dir / "learned" / "part-times.csv"));
  CHECK(predict_in(dir, "split --data learned --by date -o s.csv").code == 0);
}

TEST_CASE("predict export: a file that is not there, or is none of ours, ends with its name") {
  const scratch dir;
  std::ofstream(dir / "notes.txt") << "my own\nnotes\n";
  CHECK(predict_in(dir, "export nowhere.jsonl -o learned").code == 66);
  const auto other = predict_in(dir, "export notes.txt -o learned");
  CHECK(other.code == 65);
  CHECK(other.talk.find("notes.txt") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(dir / "learned"));
}
