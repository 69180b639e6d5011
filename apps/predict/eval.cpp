// `troupe predict eval`: predictions against what was measured, and how much of the test rows is
// known from train.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/predict/metrics.hpp"
#include "apps/predict/pictures.hpp"
#include "apps/predict/verbs.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "io/perf/readers.hpp"
#include "trace/text.hpp"

namespace troupe::apps::predict {

namespace {

using io::perf::bad_csv;
using io::perf::perf_row;
using io::perf::split_part;

/// A line of predictions.csv.
struct told_value {
  double predicted = 0;
  std::optional<double> lower, upper;
  bool flagged = false;
  size_t line = 0;
};

/// By data set, row and output.
using told_values = std::map<std::string, std::map<std::string, std::map<std::string, told_value>>>;

/// An end of an interval: nothing where there is no such column, or its cell is empty.
result<std::optional<double>> bound_in(const std::string& path, const io::perf::csv_row& row,
                                       std::optional<size_t> column) {
  if (!column || io::perf::trimmed(row.cells[*column]).empty()) return std::optional<double>{};
  const auto n = io::perf::number_in(row.cells[*column]);
  if (!n)
    return bad_csv(path, row.line,
                   fmt::format("an interval's end of row {} is {}; expected a finite number, or "
                               "nothing",
                               row.cells[1], troupe::quoted(row.cells[*column])));
  return n;
}

result<told_values> read_told(const std::string& path) {
  TROUPE_TRY(file, io::perf::read_csv(path));
  constexpr std::string_view begins[] = {"dataset", "row_id", "output", "pred"};
  for (size_t i = 0; i < std::size(begins); ++i)
    if (i >= file.columns.size() || file.columns[i] != begins[i])
      return bad_csv(path, 1, "expected the columns dataset,row_id,output,pred first");
  const auto lower = file.column("lower"), upper = file.column("upper"), flag = file.column("flag");
  told_values out;
  for (const auto& row : file.rows) {
    told_value v;
    v.line = row.line;
    const auto n = io::perf::number_in(row.cells[3]);
    if (!n)
      return bad_csv(path, row.line,
                     fmt::format("pred of row {} is {}; expected a finite number", row.cells[1],
                                 troupe::quoted(row.cells[3])));
    v.predicted = *n;
    TROUPE_TRY(least, bound_in(path, row, lower));
    TROUPE_TRY(most, bound_in(path, row, upper));
    v.lower = least;
    v.upper = most;
    if (least && most && *least > *most)
      return bad_csv(
          path, row.line,
          fmt::format("lower of row {} is {}, above upper, {}", row.cells[1], *least, *most));
    if (flag) v.flagged = !io::perf::trimmed(row.cells[*flag]).empty();
    auto& of_row = out[row.cells[0]][row.cells[1]];
    const auto [it, fresh] = of_row.emplace(row.cells[2], v);
    if (!fresh)
      return bad_csv(path, row.line,
                     fmt::format("row {} of {} stands in line {} already", row.cells[1],
                                 row.cells[0], it->second.line));
  }
  return out;
}

/// All that a row says of a machine, in one text: equal rows have equal ones.
std::string vector_of(const perf_row& r) {
  std::string out;
  for (size_t i = 0; i < r.numbers.size(); ++i)
    out += std::isnan(r.numbers[i]) ? r.words[i] + "|" : fmt::format("{}|", r.numbers[i]);
  return out;
}

/// How many of the judged rows train knows.
struct leak {
  double cpu_percent = 0, vector_percent = 0;
};

leak leak_of(const std::vector<const perf_row*>& judged,
             const std::vector<const perf_row*>& train) {
  std::set<std::string> models, vectors;
  for (const auto* r : train) {
    if (!r->cpu_model.empty()) models.insert(r->cpu_model);
    vectors.insert(vector_of(*r));
  }
  double cpu = 0, whole = 0;
  for (const auto* r : judged) {
    cpu += models.count(r->cpu_model) > 0 ? 1 : 0;
    whole += vectors.count(vector_of(*r)) > 0 ? 1 : 0;
  }
  const double n = std::max<double>(1, static_cast<double>(judged.size()));
  return {100 * cpu / n, 100 * whole / n};
}

struct judged_set {
  std::string dataset;
  set_metrics metrics;
  leak known;
  std::vector<judged_value> values;
  std::vector<std::string> cpu_models;  ///< by row

  std::vector<model_error> by_model() const { return errors_by_model(values, cpu_models); }
};

/// Every row of the part has a prediction of every output, and nothing else has one.
result<std::vector<judged_value>> match(
    const std::string& file, const io::perf::split& s, const io::perf::perf_table& table,
    const std::vector<const perf_row*>& rows,
    const std::map<std::string, std::map<std::string, told_value>>& told) {
  std::vector<judged_value> out;
  std::set<std::string_view> ids;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& r = *rows[i];
    ids.insert(r.id);
    const auto of_row = told.find(r.id);
    for (size_t o = 0; o < table.outputs.size(); ++o) {
      const auto* v = of_row == told.end() || of_row->second.count(table.outputs[o]) == 0
                          ? nullptr
                          : &of_row->second.at(table.outputs[o]);
      if (v == nullptr)
        return bad_csv(s.name, s.sets.at(table.dataset).at(r.id).line,
                       fmt::format("row {} of {} has no prediction of {} in {}", r.id,
                                   table.dataset, table.outputs[o], file));
      if (!std::isnan(r.labels[o]))
        out.push_back({i, o, r.labels[o], v->predicted, v->lower, v->upper, v->flagged});
    }
  }
  for (const auto& [id, outputs] : told) {
    const auto& [output, v] = *outputs.begin();
    if (ids.count(id) == 0)
      return bad_csv(file, v.line,
                     fmt::format("row {} of {} {}", id, table.dataset,
                                 table.find(id) == nullptr ? "is not in the data"
                                                           : "is not in this part of the split"));
    for (const auto& [name, value] : outputs)
      if (std::find(table.outputs.begin(), table.outputs.end(), name) == table.outputs.end())
        return bad_csv(file, value.line,
                       fmt::format("{} has no output {}", table.dataset, troupe::quoted(name)));
  }
  return out;
}

result<judged_set> judge(const arguments& a, const io::perf::split& s, const std::string& name,
                         const told_values& told) {
  TROUPE_TRY(part, part_of(a.part));
  TROUPE_TRY(table, io::perf::read_dataset(a.data, name, labels_of(s, name, {part})));
  TROUPE_TRY(rows, io::perf::rows_of(s, table, part));
  TROUPE_TRY(train, io::perf::rows_of(s, table, split_part::train));
  TROUPE_TRY(values, match(a.predictions, s, table, rows, told.at(name)));
  if (values.empty())
    return error{errc::bad_data, fmt::format("{}: no row of {} has a label", a.split, name),
                 "there is nothing to judge predictions by"};
  judged_set out{name, measure(values, table.outputs.size()), leak_of(rows, train), {}, {}};
  out.values = std::move(values);
  for (const auto* r : rows) out.cpu_models.push_back(r->cpu_model);
  out.metrics.unlabelled_rows = rows.size() - out.metrics.rows;
  return out;
}

/// Data sets of the split that have rows of the part and no prediction at all. Error: where they
/// were asked for by name, the first of them.
result<std::vector<std::string>> not_judged(const arguments& a, const io::perf::split& s,
                                            const told_values& told) {
  TROUPE_TRY(part, part_of(a.part));
  std::vector<std::string> out;
  for (const auto& [name, rows] : s.sets) {
    if (!glob_match(a.dataset, name) || told.count(name) > 0) continue;
    const auto it = std::find_if(rows.begin(), rows.end(),
                                 [&](const auto& r) { return r.second.part == part; });
    if (it == rows.end()) continue;
    if (a.dataset != "*")
      return bad_csv(
          a.split, it->second.line,
          fmt::format("row {} of {} has no prediction in {}", it->first, name, a.predictions));
    out.push_back(name);
  }
  return out;
}

std::string judged_text(const std::vector<judged_set>& all) {
  std::vector<std::vector<std::string>> table = {
      {"data set", "rows", "MAPE %", "P90 %", "MAE", "MSE", "R2", "<3 %", "<5 %", "<10 %",
       "in 95 %", "flagged", "MAPE unflagged", "CPU known", "row known"}};
  for (const auto& j : all) {
    const auto& m = j.metrics;
    table.push_back(
        {j.dataset, fmt::format("{}", m.rows), fmt::format("{:.2f}", m.mape),
         fmt::format("{:.2f}", m.p90), fmt::format("{:.4g}", m.mae), fmt::format("{:.4g}", m.mse),
         fmt::format("{:.4f}", m.r2), fmt::format("{:.1f}", m.under_3),
         fmt::format("{:.1f}", m.under_5), fmt::format("{:.1f}", m.under_10),
         m.coverage ? fmt::format("{:.1f}", *m.coverage) : "-", fmt::format("{}", m.flagged_rows),
         m.mape_unflagged ? fmt::format("{:.2f}", *m.mape_unflagged) : "-",
         fmt::format("{:.0f} %", j.known.cpu_percent),
         fmt::format("{:.0f} %", j.known.vector_percent)});
  }
  auto out = trace::table_text(std::move(table), 0);
  for (const auto& j : all)
    if (j.metrics.unlabelled_rows > 0)
      out += fmt::format("{}: {} not judged\n", j.dataset,
                         counted(j.metrics.unlabelled_rows, "row has no label and is",
                                 "rows have no label and are"));
  return out +
         "CPU known: share of rows whose CPU model is in train; row known: whose features all "
         "are\n";
}

/// Of CPU models: those that are the worst.
constexpr size_t bars_in_picture = 30;

std::vector<picture_bar> model_bars(const std::vector<model_error>& models) {
  std::vector<picture_bar> out;
  for (size_t i = 0; i < std::min(bars_in_picture, models.size()); ++i) {
    const auto& m = models[i];
    auto told = fmt::format("{:.1f} % ({:+.1f}), {}", m.mape, m.bias, counted(m.values, "value"));
    if (m.flagged > 0) told += fmt::format(", {} flagged", m.flagged);
    out.push_back({m.cpu_model, m.mape, std::move(told), std::nullopt, m.bias < 0});
  }
  return out;
}

std::vector<picture_bar> coverage_bars(const std::vector<coverage_point>& points) {
  std::vector<picture_bar> out;
  for (const auto& p : points)
    out.push_back({fmt::format("{:.0f} % asked", p.asked), p.seen,
                   fmt::format("{:.1f} % seen", p.seen), p.asked, p.seen < p.asked});
  return out;
}

std::string title_of_measured(const judged_set& j) {
  return fmt::format("{}: off by {:.2f} % (mean of {})", j.dataset, j.metrics.mape,
                     counted(j.values.size(), "value"));
}

std::string title_of_models(const judged_set& j, const std::vector<model_error>& models) {
  const auto most = models.size() > bars_in_picture
                        ? fmt::format(", the worst {} of {}", bars_in_picture, models.size())
                        : std::string();
  return fmt::format("{}: error by CPU model{}", j.dataset, most);
}

std::string title_of_coverage(const judged_set& j) {
  return fmt::format("{}: how many values intervals hold", j.dataset);
}

constexpr const char* models_note =
    "mean of absolute errors; in brackets with their signs; orange: too little was predicted";

status write_judged_pictures(const arguments& a, const judged_set& j) {
  TROUPE_CHECK(
      write_picture(a, j.dataset, "measured", measured_picture(title_of_measured(j), j.values)));
  const auto models = j.by_model();
  if (!models.empty())
    TROUPE_CHECK(
        write_picture(a, j.dataset, "models",
                      bars_picture(title_of_models(j, models), model_bars(models), models_note)));
  if (const auto points = coverage_of(j.values); !points.empty())
    TROUPE_CHECK(
        write_picture(a, j.dataset, "coverage", coverage_picture(title_of_coverage(j), points)));
  return {};
}

std::string judged_drawing(const judged_set& j, const report::canvas& on) {
  auto out = "\n" + measured_text(title_of_measured(j), j.values, on);
  const auto models = j.by_model();
  if (!models.empty())
    out += "\n" + bars_text(title_of_models(j, models) + ", in brackets with its sign",
                            model_bars(models), on);
  if (const auto points = coverage_of(j.values); !points.empty())
    out += "\n" + bars_text(title_of_coverage(j), coverage_bars(points), on);
  return out;
}

nlohmann::ordered_json judged_json(const judged_set& j) {
  const auto& m = j.metrics;
  const auto known = [](const std::optional<double>& x) {
    return x ? nlohmann::ordered_json(*x) : nlohmann::ordered_json(nullptr);
  };
  auto models = nlohmann::ordered_json::array(), intervals = nlohmann::ordered_json::array();
  for (const auto& one : j.by_model())
    models.push_back({{"cpu_model", one.cpu_model},
                      {"values", one.values},
                      {"flagged", one.flagged},
                      {"mape_percent", one.mape},
                      {"bias_percent", one.bias}});
  for (const auto& p : coverage_of(j.values))
    intervals.push_back({{"asked_percent", p.asked}, {"seen_percent", p.seen}});
  return {{"dataset", j.dataset},
          {"rows", m.rows},
          {"unlabelled_rows", m.unlabelled_rows},
          {"mae", m.mae},
          {"mse", m.mse},
          {"mape_percent", m.mape},
          {"r2", m.r2},
          {"p90_percent", m.p90},
          {"under_3_percent", m.under_3},
          {"under_5_percent", m.under_5},
          {"under_10_percent", m.under_10},
          {"coverage_percent", known(m.coverage)},
          {"flagged_rows", m.flagged_rows},
          {"mape_unflagged_percent", known(m.mape_unflagged)},
          {"cpu_known_percent", j.known.cpu_percent},
          {"row_known_percent", j.known.vector_percent},
          {"by_cpu_model", std::move(models)},
          {"coverage", std::move(intervals)}};
}

}  // namespace

result<int> eval(const arguments& a) {
  if (a.predictions.empty() && !a.of_study)
    return error{errc::usage, "expected a file of predictions, or -o with --folds or --split",
                 "as in: troupe predict eval predictions.csv --data DIR --split S.csv"};
  if (a.draw && a.json)
    return error{errc::usage, "--draw is for people, --json for programs", "leave one of them out"};
  if (a.predictions.empty() && (a.of_split || !a.svg.empty() || a.draw))
    return error{errc::usage, "--part, --svg and --draw have no meaning in a study",
                 "its folds, or the split's test rows, are what is judged"};
  if (a.predictions.empty()) return study(a);
  if (!a.of_study && a.split.empty())
    return error{errc::usage, "--split is missing: predictions are judged by its rows",
                 "as in: troupe predict eval predictions.csv --data DIR --split S.csv"};
  if (a.of_study)
    return error{errc::usage,
                 "predictions are judged by a --split; --folds, --seeds, --kinds and what else a "
                 "study has have no meaning",
                 "leave the predictions out for a study"};
  TROUPE_TRY(s, io::perf::read_split(a.split));
  TROUPE_TRY(told, read_told(a.predictions));
  TROUPE_TRY(others, not_judged(a, s, told));
  std::vector<judged_set> all;
  for (const auto& [name, rows] : told) {
    if (!glob_match(a.dataset, name)) continue;
    if (s.sets.count(name) == 0)
      return bad_csv(a.predictions, rows.begin()->second.begin()->second.line,
                     fmt::format("{} is not in the split {}", name, a.split));
    TROUPE_TRY(judged, judge(a, s, name, told));
    all.push_back(std::move(judged));
  }
  if (all.empty())
    return error{errc::bad_data, fmt::format("{}: no predictions of {}", a.predictions, a.dataset),
                 "make some: troupe predict ask"};
  if (!others.empty())
    say(fmt::format("no predictions of {}: not judged", fmt::join(others, ", ")));
  if (!a.svg.empty())
    for (const auto& j : all) TROUPE_CHECK(write_judged_pictures(a, j));
  if (!a.json) {
    auto text = judged_text(all);
    for (const auto& j : all)
      if (a.draw) text += judged_drawing(j, canvas_here());
    TROUPE_CHECK(print(text));
    return 0;
  }
  nlohmann::ordered_json out{{"part", a.part}, {"sets", nlohmann::ordered_json::array()}};
  for (const auto& j : all) out["sets"].push_back(judged_json(j));
  out["not_judged"] = others;
  TROUPE_CHECK(print(out.dump() + "\n"));
  return 0;
}

}  // namespace troupe::apps::predict
