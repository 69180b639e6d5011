// `troupe predict export`: what jobs have taught, as tables that `predict train` learns from.
//
// Lines of part times (a job's predict.store, io/perf/part_times.hpp) become part-times.csv, those
// of past runs (io/perf/past_runs.hpp) past-runs.csv, each with its schema beside it. A node, or
// the work, stands where other tables have the CPU model: so a split by it holds whole nodes out,
// or whole work.
//
// Invariants
//   PEX-1  A line that other numbers than this program's are in is left out, and that is said.
#include <array>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "actors/predict/learning_policy.hpp"
#include "apps/past_steps.hpp"
#include "apps/predict/verbs.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "io/config/work_shape.hpp"
#include "io/file.hpp"
#include "io/perf/csv.hpp"
#include "io/perf/part_times.hpp"
#include "io/perf/past_runs.hpp"
#include "io/perf/summed_lines.hpp"

namespace troupe::apps::predict {

namespace {

namespace fs = std::filesystem;

constexpr const char* exported_id = "row_id";

/// A column that is a feature.
struct exported_feature {
  std::string column, group, unit, kind;
};

/// A table under way.
struct exported_table {
  std::string name, what, key, date, label;
  std::vector<exported_feature> features;
  std::vector<std::string> lines = {};
  size_t left_out = 0;
};

std::string exported_line(const std::vector<std::string>& cells) {
  std::string out;
  for (const auto& cell : cells) out += io::perf::csv_cell(cell) + ",";
  out.back() = '\n';
  return out;
}

std::string schema_of(const exported_table& t) {
  auto out = fmt::format("# {} by `troupe predict export`.\nid = \"{}\"\ncpu_model = \"{}\"\n",
                         t.what, exported_id, t.key);
  if (!t.date.empty()) out += fmt::format("date = \"{}\"\n", t.date);
  out += fmt::format("labels = [\"{}\"]\n", t.label);
  for (const auto& f : t.features)
    out += fmt::format(
        "\n[[feature]]\ncolumn = \"{}\"\ngroup = \"{}\"\nunit = \"{}\"\nkind = \"{}\"\n", f.column,
        f.group, f.unit, f.kind);
  return out;
}

/// What the work is in numbers: the first of a part's features, and all of a run's.
std::vector<exported_feature> work_features(size_t count) {
  std::vector<exported_feature> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back({std::string(troupe::predict::feature_name(i)), "work", "1", "log"});
  return out;
}

size_t part_feature_count() {
  size_t n = 0;
  while (!troupe::predict::feature_name(n).empty()) ++n;
  return n;
}

exported_table empty_parts() {
  exported_table out{"part-times", "What parts of steps took", "node", "", "seconds", {}};
  out.features = work_features(part_feature_count());
  out.features.push_back({"part", "part", "1", "category"});
  out.features.push_back({"node", "machine", "1", "category"});
  out.features.push_back({"machine", "machine", "1", "category"});
  return out;
}

exported_table empty_runs() {
  exported_table out{"past-runs", "What steps of runs took", "work", "date", "seconds", {}};
  out.features = work_features(static_cast<size_t>(config::work_feature::count));
  out.features.push_back({"flops", "work", "FLOP", "log"});
  out.features.push_back({"machine", "machine", "1", "category"});
  return out;
}

/// With all digits.
void add_numbers(std::vector<std::string>& cells, const std::vector<double>& numbers) {
  for (const double x : numbers) cells.push_back(fmt::format("{}", x));
}

std::string yyyymmdd(double unix_s) {
  using namespace std::chrono;
  const year_month_day day(floor<days>(sys_seconds(seconds(static_cast<int64_t>(unix_s)))));
  return fmt::format("{:04}{:02}{:02}", static_cast<int>(day.year()),
                     static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
}

void add_part(exported_table& to, const io::perf::part_time& time) {
  if (time.features.size() != part_feature_count()) {  // PEX-1
    ++to.left_out;
    return;
  }
  std::vector<std::string> cells{fmt::format("t{:06}", to.lines.size())};
  add_numbers(cells, time.features);
  cells.push_back(time.part);
  cells.push_back(time.node.empty() ? "all" : time.node);
  cells.push_back(time.machine.kind);  // empty: no earlier release told of it
  add_numbers(cells, {time.seconds});
  to.lines.push_back(exported_line(cells));
}

/// Of a run whose work was counted in other numbers, or not at all, nothing can be learned (PEX-1).
void add_run(exported_table& to, const io::perf::past_run& run) {
  if (run.shape.size() != static_cast<size_t>(config::work_feature::count) || !(run.flops > 0)) {
    ++to.left_out;
    return;
  }
  std::vector<std::string> cells{fmt::format("r{:06}", to.lines.size())};
  add_numbers(cells, run.shape);
  add_numbers(cells, {run.flops});
  cells.insert(cells.end(), {run.machine, run.work, yyyymmdd(run.unix_s)});
  add_numbers(cells, {run.median_s});
  to.lines.push_back(exported_line(cells));
}

/// A file of either kind: one that has lines of neither is an error.
status add_store(const fs::path& file, exported_table& parts, exported_table& runs) {
  TROUPE_TRY(times, io::perf::read_part_times(file));
  TROUPE_TRY(past, io::perf::read_past_runs(file));
  std::error_code fault;
  if (!fs::exists(file, fault))
    return error{errc::not_found, fmt::format("{} is not there", file.string()),
                 "a job keeps part-times.jsonl in its output, or in predict.store"};
  if (times.times.empty() && past.runs.empty()) return io::perf::no_summed_lines(file.string());
  for (const auto& t : times.times) add_part(parts, t);
  for (const auto& r : past.runs) add_run(runs, r);
  return {};
}

status write_table(const exported_table& t, const fs::path& folder) {
  if (t.left_out > 0)
    say(fmt::format("{} of other numbers than this program's left out of {}",
                    counted(t.left_out, "line"), t.name));
  if (t.lines.empty()) return {};
  std::vector<std::string> columns{exported_id};
  for (const auto& f : t.features) columns.push_back(f.column);
  if (!t.date.empty()) columns.insert(columns.end(), {t.key, t.date});
  columns.push_back(t.label);
  auto text = exported_line(columns);
  for (const auto& line : t.lines) text += line;
  TROUPE_CHECK(io::write_atomic(folder / (t.name + ".toml"), schema_of(t)));
  TROUPE_CHECK(io::write_atomic(folder / (t.name + ".csv"), text));
  say(fmt::format("{}: {} -> {}", t.name, counted(t.lines.size(), "row"),
                  (folder / (t.name + ".csv")).string()));
  return {};
}

}  // namespace

result<int> export_learned(const arguments& a) {
  auto stores = a.models;
  if (stores.empty()) stores.push_back(past_runs_file().string());
  if (stores.front().empty())
    return error{errc::not_found, "no folder keeps what this machine's runs took",
                 "name a file, as runs/NAME/part-times.jsonl"};
  auto parts = empty_parts(), runs = empty_runs();
  for (const auto& store : std::set<std::string>(stores.begin(), stores.end()))
    TROUPE_CHECK(add_store(store, parts, runs));
  if (parts.lines.empty() && runs.lines.empty())
    return error{errc::not_found, "nothing of these files can be learned from",
                 "they are of another release of the program"};
  std::error_code fault;
  fs::create_directories(a.out, fault);
  if (fault)
    return error{errc::io, fmt::format("{}: {}", a.out, fault.message()), "name another folder"};
  TROUPE_CHECK(write_table(parts, a.out));
  TROUPE_CHECK(write_table(runs, a.out));
  return 0;
}

}  // namespace troupe::apps::predict
