// `troupe predict ask`: rows of a data set, or rows that a person describes.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "apps/predict/verbs.hpp"
#include "apps/talk.hpp"
#include "gpu/predict/fill.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "io/file.hpp"
#include "io/perf/readers.hpp"

namespace troupe::apps::predict {

namespace {

namespace fs = std::filesystem;
using io::perf::perf_row;
using io::perf::saved::FeatureT;

constexpr uint8_t category_kind = static_cast<uint8_t>(io::perf::feature_kind::category);
constexpr uint8_t log_kind = static_cast<uint8_t>(io::perf::feature_kind::log_number);

result<std::string> ask_set(const arguments& a, const io::perf::split& s, const std::string& name,
                            const fs::path& file) {
  TROUPE_TRY(part, part_of(a.part));
  TROUPE_TRY(model, io::perf::read_model(file));
  TROUPE_TRY(table, io::perf::read_dataset(a.data, name, [](std::string_view) { return false; }));
  TROUPE_CHECK(check_features(model, table, file.string()));
  TROUPE_TRY(rows, io::perf::rows_of(s, table, part));
  gpu::predict::predictor p(std::move(model));
  const auto answers = p.ask(rows);
  std::string out;
  for (size_t i = 0; i < rows.size(); ++i) {
    TROUPE_TRY(lines, prediction_lines(name, rows[i]->id, table.outputs, answers[i]));
    out += lines;
  }
  return out;
}

/// Gives a feature of a row its value.
status set_feature(perf_row& row, const gpu::predict::ModelT& m, const std::string& name,
                   const std::string& value, const std::string& where) {
  std::vector<std::string_view> known;
  for (size_t i = 0; i < m.features.size(); ++i) {
    known.push_back(m.features[i]->name);
    if (m.features[i]->name != name) continue;
    if (m.features[i]->kind == category_kind) {
      row.words[i] = value;
      return {};
    }
    const auto n = io::perf::number_in(value);
    if (!n && !io::perf::trimmed(value).empty())
      return error{errc::bad_data, fmt::format("{}: {} is {}", where, name, troupe::quoted(value)),
                   fmt::format("expected a number, in {}", m.features[i]->unit)};
    if (n && *n <= 0 && m.features[i]->kind == log_kind)
      return error{errc::bad_data, fmt::format("{}: {} is {}", where, name, *n),
                   fmt::format("expected a number above 0, in {}", m.features[i]->unit)};
    row.numbers[i] = n.value_or(io::perf::absent);
    return {};
  }
  const auto near = nearest(name, known);
  return error{errc::bad_data, fmt::format("{}: the model knows no feature {}", where, name),
               near.empty() ? "docs/predict.md names them" : fmt::format("did you mean {}?", near)};
}

perf_row empty_row(const gpu::predict::ModelT& m, const std::string& id) {
  perf_row r;
  r.id = id;
  r.numbers.assign(m.features.size(), io::perf::absent);
  r.words.assign(m.features.size(), "");
  return r;
}

bool is_output(const gpu::predict::ModelT& m, const std::string& column) {
  return std::find(m.outputs.begin(), m.outputs.end(), column) != m.outputs.end();
}

/// The rows of --row.
result<std::vector<perf_row>> rows_of_file(const std::string& path, const gpu::predict::ModelT& m) {
  std::vector<perf_row> out;
  std::set<std::string> ids;
  TROUPE_TRY(file, io::perf::read_csv(path));
  for (const auto& line : file.rows) {
    auto& r = out.emplace_back(empty_row(m, fmt::format("row{}", out.size())));
    for (size_t c = 0; c < file.columns.size(); ++c) {
      if (file.columns[c] == "row_id")
        r.id = std::string(io::perf::trimmed(line.cells[c]));
      else if (!is_output(m, file.columns[c]))  // a fleet's row has a label, which is not read
        TROUPE_CHECK(set_feature(r, m, file.columns[c], line.cells[c],
                                 fmt::format("{}:{}", path, line.line)));
    }
    if (r.id.empty()) return io::perf::bad_csv(path, line.line, "no row_id");
    if (!ids.insert(r.id).second)
      return io::perf::bad_csv(path, line.line, fmt::format("row_id {} is there twice", r.id));
  }
  return out;
}

result<std::string> ask_described(const arguments& a,
                                  const std::map<std::string, fs::path>& models) {
  if (!a.data.empty() || !a.split.empty() || a.of_split)
    return error{errc::usage,
                 "--data, --split, --dataset and --part have no meaning with --row and --set",
                 "ask about a data set's rows, or about rows of your own"};
  if (models.size() != 1)
    return error{errc::usage, fmt::format("--row and --set ask one model, not {}", models.size()),
                 "name the model's file in place of the folder"};
  const auto& [name, file] = *models.begin();
  TROUPE_TRY(model, io::perf::read_model(file));
  gpu::predict::predictor p(std::move(model));
  TROUPE_TRY(rows, described(a, p.model()));
  gpu::predict::row_list list;
  for (const auto& r : rows) list.push_back(&r);
  const auto answers = p.ask(list);
  std::string out;
  for (size_t i = 0; i < rows.size(); ++i) {
    TROUPE_TRY(lines,
               prediction_lines(p.model().dataset, rows[i].id, p.model().outputs, answers[i]));
    out += lines;
  }
  say_completed(p.model(), rows, answers);
  return out;
}

result<std::string> ask_split(const arguments& a, const std::map<std::string, fs::path>& models) {
  if (a.data.empty() || a.split.empty())
    return error{errc::usage, "expected --data and --split, or --row, or --set",
                 "as in: troupe predict ask models/ --data DIR --split S.csv --part test"};
  TROUPE_TRY(s, io::perf::read_split(a.split));
  TROUPE_TRY(sets, sets_of(s, a.dataset, a.split));
  std::string out;
  for (const auto& name : sets) {
    const auto it = models.find(name);
    if (it == models.end()) {
      if (a.dataset != "*")
        return error{errc::not_found, fmt::format("no model of {}", name),
                     "train it: troupe predict train"};
      say(fmt::format("{} has no model here and is not asked about", name));
      continue;
    }
    TROUPE_TRY(lines, ask_set(a, s, name, it->second));
    out += lines;
  }
  if (out.empty())
    return error{errc::not_found, "no row of the split has a model here",
                 "train it: troupe predict train"};
  return out;
}

}  // namespace

result<std::map<std::string, fs::path>> models_named(const std::vector<std::string>& names) {
  std::map<std::string, fs::path> out;
  for (const auto& name : names) {
    std::error_code fault;
    if (!fs::is_directory(name, fault)) {
      out[fs::path(name).stem().string()] = name;
      continue;
    }
    for (auto it = fs::directory_iterator(name, fault); !fault && it != fs::directory_iterator();
         it.increment(fault))
      if (it->path().extension() == ".tpm") out[it->path().stem().string()] = it->path();
  }
  if (out.empty())
    return error{errc::not_found, fmt::format("no model in {}", names.empty() ? "" : names[0]),
                 "make one: troupe predict train"};
  return out;
}

status check_features(const gpu::predict::ModelT& m, const io::perf::perf_table& t,
                      const std::string& file) {
  if (m.dataset != t.dataset)
    return io::perf::bad_model(file,
                               fmt::format("it is a model of {}, not of {}", m.dataset, t.dataset));
  bool same = m.features.size() == t.features.size() && m.outputs == t.outputs;
  for (size_t i = 0; same && i < t.features.size(); ++i)
    same = m.features[i]->name == t.features[i].name && m.features[i]->unit == t.features[i].unit &&
           m.features[i]->group == t.features[i].group &&
           m.features[i]->kind == static_cast<uint8_t>(t.features[i].kind);
  if (same) return {};
  return io::perf::bad_model(
      file,
      fmt::format("it learned other features than {} has, or other units of them", t.dataset));
}

result<std::vector<perf_row>> described(const arguments& a, const gpu::predict::ModelT& m) {
  std::vector<perf_row> out;
  if (a.row.empty()) {
    out.push_back(empty_row(m, "row"));
  } else {
    TROUPE_TRY(rows, rows_of_file(a.row, m));
    out = std::move(rows);
  }
  for (const auto& s : a.set) {
    const auto equals = s.find('=');
    if (equals == std::string::npos)
      return error{errc::usage, fmt::format("--set {}: expected FEATURE=VALUE", s), ""};
    for (auto& r : out)
      TROUPE_CHECK(set_feature(r, m, s.substr(0, equals), s.substr(equals + 1), "--set"));
  }
  return out;
}

void say_completed(const gpu::predict::ModelT& m, const std::vector<perf_row>& rows,
                   const std::vector<gpu::predict::prediction>& answers) {
  constexpr size_t shown = 5;  // features: all of them may be hundreds
  std::vector<std::string> taken;
  std::string id;
  size_t others = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!answers[i].completed) continue;
    others += id.empty() ? 0 : 1;
    if (!id.empty()) continue;
    id = rows[i].id;
    for (size_t f = 0; f < m.features.size(); ++f) {
      const auto& whole = *answers[i].completed;
      if (!gpu::predict::lacks(m, rows[i], f) || gpu::predict::lacks(m, whole, f)) continue;
      const bool word = m.features[f]->kind == category_kind;
      taken.push_back(m.features[f]->name + "=" +
                      (word ? whole.words[f] : fmt::format("{:.6g}", whole.numbers[f])));
    }
  }
  if (id.empty()) return;
  const size_t left = taken.size() - std::min(taken.size(), shown);
  taken.resize(taken.size() - left);
  say(fmt::format(
      "{} lacks what every train row has: assumed as in a train row like it: {}{}{}; the "
      "interval covers what others like it say",
      id, fmt::join(taken, ", "), left > 0 ? fmt::format(" and {} more", left) : "",
      others > 0 ? fmt::format(" (so for {}, too)", counted(others, "other row")) : ""));
}

result<std::string> prediction_lines(const std::string& dataset, const std::string& id,
                                     const std::vector<std::string>& outputs,
                                     const gpu::predict::prediction& p) {
  std::string out;
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!std::isfinite(p.value[o]) || !std::isfinite(p.lower[o]) || !std::isfinite(p.upper[o]))
      return error{errc::bad_data,
                   fmt::format("row {} of {}: {} cannot be predicted", id, dataset, outputs[o]),
                   "a feature of it is beyond what can be computed with"};
    out += fmt::format("{},{},{},{},{},{},{}\n", io::perf::csv_cell(dataset),
                       io::perf::csv_cell(id), io::perf::csv_cell(outputs[o]), p.value[o],
                       p.lower[o], p.upper[o], io::perf::csv_cell(p.flag));
  }
  return out;
}

result<int> ask(const arguments& a) {
  TROUPE_TRY(models, models_named(a.models));
  TROUPE_TRY(lines,
             a.row.empty() && a.set.empty() ? ask_split(a, models) : ask_described(a, models));
  const auto text = std::string(prediction_heading) + lines;
  if (a.out.empty())
    TROUPE_CHECK(print(text));
  else
    TROUPE_CHECK(io::write_atomic(a.out, text));
  return 0;
}

}  // namespace troupe::apps::predict
