// `troupe predict explain`: the factors of a prediction, or what the predictions of a split's rows
// hang on.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/predict/pictures.hpp"
#include "apps/predict/verbs.hpp"
#include "apps/talk.hpp"
#include "gpu/predict/explain.hpp"
#include "io/base/counted.hpp"
#include "io/perf/model_file.hpp"
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

/// What is told of a model over the rows of a split.
struct explained {
  const gpu::predict::ModelT& model;
  size_t rows = 0;
  std::vector<importance> worth;
  std::optional<gpu::predict::attention_told> attention;
  learning_curve learned;

  std::string title(std::string_view what) const {
    return fmt::format("{} by {}: {}", model.dataset, model.kind, what);
  }
};

learning_curve curve_of(const gpu::predict::ModelT& m) {
  learning_curve out;
  // A network that only says where neighbours are has answered nothing.
  if (!m.network || !io::perf::is_of_network(m.kind)) return out;
  const auto& n = *m.network;
  out.passes.assign(n.curve_passes.begin(), n.curve_passes.end());
  out.learned.assign(n.curve_learned.begin(), n.curve_learned.end());
  out.held.assign(n.curve_held.begin(), n.curve_held.end());
  return out;
}

std::string label_of(const std::string& group, const std::string& name) {
  return name.empty() ? "all of " + group : group + ": " + name;
}

std::vector<picture_bar> importance_bars(const explained& x) {
  std::vector<picture_bar> out;
  for (const auto& i : by_worth(x.worth))
    out.push_back({label_of(i.group, i.name), i.points, fmt::format("{:+.2f}", i.points)});
  return out;
}

std::vector<gpu::predict::attention_share> by_share(const gpu::predict::attention_told& told) {
  auto out = told.shares;
  std::stable_sort(out.begin(), out.end(), [](const auto& x, const auto& y) {
    return x.name.empty() != y.name.empty() ? x.name.empty() : x.share > y.share;
  });
  return out;
}

/// How far attention and importance agree.
std::string agreement_text(const gpu::predict::attention_told& told) {
  const auto one = [](const std::optional<double>& rho) {
    return rho ? fmt::format("{:+.2f}", *rho) : std::string("unknown: too few, or all alike");
  };
  return fmt::format("rank correlation of attention and worth: groups {}, features {}",
                     one(told.groups_agree), one(told.features_agree));
}

status write_explained(const arguments& a, const explained& x) {
  const auto& name = x.model.dataset;
  TROUPE_CHECK(write_picture(a, name, "importance",
                             bars_picture(x.title("points of MAPE"), importance_bars(x))));
  if (x.attention) {
    std::vector<attended_bar> bars;
    for (const auto& s : by_share(*x.attention))
      bars.push_back({label_of(s.group, s.name), s.share, s.points});
    TROUPE_CHECK(write_picture(
        a, name, "attention",
        attention_picture(x.title("attention and worth"), bars, agreement_text(*x.attention))));
  }
  if (x.learned.passes.size() < 2) return {};
  return write_picture(a, name, "learning",
                       learning_picture(x.title("how it was learned"), x.learned));
}

std::string explained_drawing(const explained& x, const report::canvas& on) {
  auto out = "\n" + bars_text(x.title("points of MAPE"), importance_bars(x), on);
  if (x.attention) {
    std::vector<picture_bar> bars;
    for (const auto& s : by_share(*x.attention))
      bars.push_back({label_of(s.group, s.name), 100 * s.share,
                      fmt::format("{:.1f} % ({:+.2f})", 100 * s.share, s.points)});
    out += "\n" + bars_text(x.title("attention, with points of MAPE"), bars, on);
  }
  if (x.learned.passes.size() >= 2)
    out += "\n" + learning_text(x.title("loss by passes"), x.learned, on);
  return out;
}

std::string explained_text(const explained& x) {
  std::vector<std::vector<std::string>> table = {{"group", "feature", "points of MAPE"}};
  for (const auto& i : x.worth)
    table.push_back(
        {i.group, i.name.empty() ? "all of them" : i.name, fmt::format("{:+.3f}", i.points)});
  auto out =
      fmt::format("{} by {}, over {}: how much worse it gets where values are dealt out anew\n{}",
                  x.model.dataset, x.model.kind, counted(x.rows, "row"),
                  trace::table_text(std::move(table), 0));
  if (!x.attention) return out;
  table = {{"group", "feature", "attention", "points of MAPE"}};
  for (const auto& s : by_share(*x.attention))
    table.push_back({s.group, s.name.empty() ? "all of them" : s.name,
                     fmt::format("{:.1f} %", 100 * s.share), fmt::format("{:+.3f}", s.points)});
  return out + "\nwhat its network attends to\n" + trace::table_text(std::move(table), 0) +
         agreement_text(*x.attention) + "\n";
}

std::string explained_json(const explained& x) {
  nlohmann::ordered_json j{{"dataset", x.model.dataset},
                           {"kind", x.model.kind},
                           {"rows", x.rows},
                           {"importances", nlohmann::ordered_json::array()}};
  for (const auto& i : x.worth)
    j["importances"].push_back({{"group", i.group}, {"feature", i.name}, {"points", i.points}});
  const auto known = [](const std::optional<double>& v) {
    return v ? nlohmann::ordered_json(*v) : nlohmann::ordered_json(nullptr);
  };
  if (x.attention) {
    auto shares = nlohmann::ordered_json::array();
    for (const auto& s : x.attention->shares)
      shares.push_back(
          {{"group", s.group}, {"feature", s.name}, {"share", s.share}, {"points", s.points}});
    j["attention"] = {{"shares", std::move(shares)},
                      {"groups_agree", known(x.attention->groups_agree)},
                      {"features_agree", known(x.attention->features_agree)}};
  }
  if (!x.learned.passes.empty())
    j["learning"] = {
        {"passes", x.learned.passes}, {"learned", x.learned.learned}, {"held_out", x.learned.held}};
  return j.dump() + "\n";
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
  explained x{m, rows.size(), gpu::predict::importances_of(p, rows, a.seed), {}, curve_of(m)};
  x.attention = gpu::predict::attention_of(p, rows, x.worth, a.seed);
  if (!a.svg.empty()) TROUPE_CHECK(write_explained(a, x));
  if (a.json) return explained_json(x);
  return explained_text(x) + (a.draw ? explained_drawing(x, canvas_here()) : "");
}

}  // namespace

result<int> explain(const arguments& a) {
  const bool of_split = !a.split.empty(), of_row = !a.row.empty(), of_set = !a.set.empty();
  if (of_split + of_row + of_set != 1)
    return error{errc::usage, "expected one of --row, --set and --split",
                 "as in: troupe predict explain models/NAME.tpm --data DIR --row ID"};
  if ((!a.svg.empty() || a.draw) && !of_split)
    return error{errc::usage,
                 "--svg and --draw show what features are worth, over the rows of a --split",
                 "leave them out, or name a split"};
  if (a.draw && a.json)
    return error{errc::usage, "--draw is for people, --json for programs", "leave one of them out"};
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
