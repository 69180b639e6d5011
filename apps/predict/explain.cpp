// `troupe predict explain`: the factors of a prediction, or what the predictions of a split's rows
// hang on.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/predict/pictures.hpp"
#include "apps/predict/verbs.hpp"
#include "apps/talk.hpp"
#include "gpu/predict/explain.hpp"
#include "io/base/counted.hpp"
#include "io/perf/readers.hpp"
#include "trace/text.hpp"

namespace troupe::apps::predict {

namespace {

using gpu::predict::factor;
using gpu::predict::importance;

/// How far a factor is from 1, whichever way, over all outputs.
double weight_of(const factor& f) {
  double most = 0;
  for (const double by : f.by) most = std::max(most, std::abs(std::log(by)));
  return most;
}

std::string factors_text(const gpu::predict::ModelT& m, const std::string& id,
                         const gpu::predict::prediction& said, std::vector<factor> factors) {
  // The mean is what is multiplied; then what changes it most.
  std::stable_sort(factors.begin() + 1, factors.end(),
                   [](const factor& x, const factor& y) { return weight_of(x) > weight_of(y); });
  std::vector<std::vector<std::string>> table = {{"group", "factor"}};
  table[0].insert(table[0].end(), m.outputs.begin(), m.outputs.end());
  for (size_t i = 0; i < factors.size(); ++i) {
    auto& line = table.emplace_back(std::vector<std::string>{
        factors[i].group.empty() ? "-" : factors[i].group, factors[i].name});
    for (const double by : factors[i].by)
      line.push_back(i == 0 ? fmt::format("{:.5g}", by) : fmt::format("x {:.4f}", by));
  }
  auto& product = table.emplace_back(std::vector<std::string>{"-", "prediction"});
  for (const double value : said.value) product.push_back(fmt::format("{:.5g}", value));
  return fmt::format(
      "{}, row {}, by {}: {}\n{}", m.dataset, id, m.kind,
      said.flag.empty() ? "within the training range" : "outside the training range: " + said.flag,
      trace::table_text(std::move(table), 0));
}

std::string factors_json(const gpu::predict::ModelT& m, const std::string& id,
                         const gpu::predict::prediction& said, const std::vector<factor>& factors) {
  nlohmann::ordered_json j{{"dataset", m.dataset},
                           {"row_id", id},
                           {"kind", m.kind},
                           {"outputs", m.outputs},
                           {"pred", said.value},
                           {"flag", said.flag},
                           {"factors", nlohmann::ordered_json::array()}};
  for (const auto& f : factors)
    j["factors"].push_back({{"group", f.group}, {"name", f.name}, {"by", f.by}});
  return j.dump() + "\n";
}

result<std::string> explain_row(const arguments& a, gpu::predict::predictor& p,
                                const io::perf::perf_row& row) {
  const auto& m = p.model();
  const auto answers = p.ask({&row});
  const auto& said = answers.front();
  for (const double value : said.value)
    if (!std::isfinite(value))
      return error{errc::bad_data,
                   fmt::format("row {} of {} cannot be predicted", row.id, m.dataset),
                   "a feature of it is beyond what can be computed with"};
  say_completed(m, {row}, answers);
  const auto factors = gpu::predict::factors_of(p, said.completed.value_or(row));
  return a.json ? factors_json(m, row.id, said, factors) : factors_text(m, row.id, said, factors);
}

/// A row of the data, of which no label is read.
result<std::string> explain_row_of_data(const arguments& a, gpu::predict::predictor& p,
                                        const std::string& file) {
  TROUPE_TRY(table, io::perf::read_dataset(a.data, p.model().dataset,
                                           [](std::string_view) { return false; }));
  TROUPE_CHECK(check_features(p.model(), table, file));
  const auto* row = table.find(a.row);
  if (row == nullptr)
    return error{errc::not_found,
                 fmt::format("row {} is not in the data of {}", a.row, table.dataset),
                 "--row takes the id of a row; --set describes a machine that is in no table"};
  return explain_row(a, p, *row);
}

result<std::string> explain_described(const arguments& a, gpu::predict::predictor& p) {
  TROUPE_TRY(rows, described(a, p.model()));
  return explain_row(a, p, rows.front());
}

/// Groups first, then features, what is worth most first.
std::vector<importance> by_worth(std::vector<importance> all) {
  std::stable_sort(all.begin(), all.end(), [](const importance& x, const importance& y) {
    return x.name.empty() != y.name.empty() ? x.name.empty() : x.points > y.points;
  });
  return all;
}

std::string importances_picture(const gpu::predict::ModelT& m, const std::vector<importance>& all) {
  std::vector<picture_bar> bars;
  for (const auto& i : by_worth(all))
    bars.push_back({i.name.empty() ? "all of " + i.group : i.group + ": " + i.name, i.points,
                    fmt::format("{:+.2f}", i.points)});
  return bars_picture(fmt::format("{} by {}: points of MAPE", m.dataset, m.kind), bars);
}

std::string importances_text(const gpu::predict::ModelT& m, size_t rows,
                             const std::vector<importance>& all) {
  std::vector<std::vector<std::string>> table = {{"group", "feature", "points of MAPE"}};
  for (const auto& i : all)
    table.push_back(
        {i.group, i.name.empty() ? "all of them" : i.name, fmt::format("{:+.3f}", i.points)});
  return fmt::format(
      "{} by {}, over {}: how much worse it gets where values are dealt out anew\n{}", m.dataset,
      m.kind, counted(rows, "row"), trace::table_text(std::move(table), 0));
}

result<std::string> explain_split(const arguments& a, gpu::predict::predictor& p,
                                  const std::string& file) {
  const auto& m = p.model();
  TROUPE_TRY(part, part_of(a.part));
  TROUPE_TRY(s, io::perf::read_split(a.split));
  TROUPE_TRY(table, io::perf::read_dataset(a.data, m.dataset, labels_of(s, m.dataset, {part})));
  TROUPE_CHECK(check_features(m, table, file));
  TROUPE_TRY(rows, io::perf::rows_of(s, table, part));
  std::erase_if(rows, [](const auto* r) { return !r->labelled(); });
  if (rows.size() < 2)
    return error{errc::bad_data,
                 fmt::format("{}: {} of {} with labels in {}; expected two at least", a.split,
                             counted(rows.size(), "row"), m.dataset, a.part),
                 "values are dealt out among the rows of a part: name another with --part"};
  const auto all = gpu::predict::importances_of(p, rows, a.seed);
  if (!a.svg.empty())
    TROUPE_CHECK(write_picture(a, m.dataset, "importance", importances_picture(m, all)));
  if (!a.json) return importances_text(m, rows.size(), all);
  nlohmann::ordered_json j{{"dataset", m.dataset},
                           {"kind", m.kind},
                           {"rows", rows.size()},
                           {"importances", nlohmann::ordered_json::array()}};
  for (const auto& i : all)
    j["importances"].push_back({{"group", i.group}, {"feature", i.name}, {"points", i.points}});
  return j.dump() + "\n";
}

}  // namespace

result<int> explain(const arguments& a) {
  const bool of_split = !a.split.empty(), of_row = !a.row.empty(), of_set = !a.set.empty();
  if (of_split + of_row + of_set != 1)
    return error{errc::usage, "expected one of --row, --set and --split",
                 "as in: troupe predict explain models/NAME.tpm --data DIR --row ID"};
  if (!a.svg.empty() && !of_split)
    return error{errc::usage, "--svg draws what features are worth, over the rows of a --split",
                 "leave it out, or name a split"};
  if (of_set != a.data.empty())
    return error{errc::usage, "--row and --split need --data, which --set has no use for",
                 "as in: troupe predict explain models/NAME.tpm --data DIR --row ID"};
  TROUPE_TRY(models, models_named(a.models));
  if (models.size() != 1)
    return error{errc::usage, fmt::format("one model is explained, not {}", models.size()),
                 "name the model's file in place of the folder"};
  const auto file = models.begin()->second.string();
  TROUPE_TRY(model, io::perf::read_model(file));
  gpu::predict::predictor p(std::move(model));
  TROUPE_TRY(text, of_split ? explain_split(a, p, file)
                   : of_row ? explain_row_of_data(a, p, file)
                            : explain_described(a, p));
  TROUPE_CHECK(print(text));
  return 0;
}

}  // namespace troupe::apps::predict
