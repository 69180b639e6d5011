// A study of each data set, and what it comes to (predict_accuracy.hpp).
#include "apps/bench/predict_accuracy.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/predict/verbs.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "io/perf/readers.hpp"
#include "trace/text.hpp"

namespace troupe::apps::predict_bench {

namespace {

using predict::study_sum;

constexpr std::string_view judged_kind = "auto";
/// Points of MAPE that a kind may be worse than the trunk.
constexpr double over_trunk_most = 0.2;
/// Percent of rows within their interval, and of grouped ones flagged.
constexpr double random_within_least = 92, random_within_most = 98;
constexpr double grouped_within_least = 88, grouped_within_most = 99;
constexpr double flagged_most = 10;

std::string_view way_of(const accuracy_bar& bar) {
  return bar.grouped ? "grouped" : "random";
}

std::string bar_name(const accuracy_bar& bar) {
  return fmt::format("{} {}", way_of(bar), bar.dataset);
}

const study_sum* judged_of(const accuracy_row& row) {
  const auto at = std::ranges::find(row.kinds, judged_kind, &study_sum::kind);
  return at == row.kinds.end() ? nullptr : &*at;
}

std::filesystem::path file_of_rows(const accuracy_plan& plan, bool grouped) {
  return plan.data / (grouped ? "folds_by_cpu_public.csv" : "splits_public.csv");
}

/// Trunk and auto, with what else is asked for.
std::string kinds_of(const accuracy_plan& plan) {
  if (plan.kinds == "all") return plan.kinds;
  std::string out = plan.kinds;
  for (const std::string kind : {"trunk", "auto"})
    if (("," + out + ",").find("," + kind + ",") == out.npos) out += "," + kind;
  return out;
}

predict::arguments arguments_of(const accuracy_plan& plan, const accuracy_bar& bar) {
  predict::arguments out;
  out.data = plan.data.string();
  out.dataset = bar.dataset;
  out.studied = kinds_of(plan);
  out.seeds = plan.seeds;
  out.passes = plan.passes;
  (bar.grouped ? out.folds : out.split) = file_of_rows(plan, bar.grouped).string();
  out.out = (plan.kept / fmt::format("{}.csv", way_of(bar))).string();
  return out;
}

void judge_accuracy(const accuracy_row& row, accuracy_verdict& out) {
  const auto name = bar_name(row.bar);
  const auto* sum = judged_of(row);
  if (sum == nullptr) {
    out.missed.push_back(name + ": not measured");
    return;
  }
  if (!(sum->mape <= row.bar.must))
    out.missed.push_back(fmt::format("{}: {:.2f} % (must be {:g})", name, sum->mape, row.bar.must));
  if (!(sum->mape <= row.bar.aim))
    out.aims_missed.push_back(fmt::format("{}: {:.2f} % (aim {:g})", name, sum->mape, row.bar.aim));
  if (sum->over_trunk && *sum->over_trunk > over_trunk_most)
    out.missed.push_back(fmt::format("{}: {:.2f} points worse than the trunk (at most {:g})", name,
                                     *sum->over_trunk, over_trunk_most));
  const double least = row.bar.grouped ? grouped_within_least : random_within_least;
  const double most = row.bar.grouped ? grouped_within_most : random_within_most;
  if (!(sum->coverage >= least && sum->coverage <= most))
    out.missed.push_back(fmt::format("{}: intervals hold for {:.1f} % ({:g} to {:g})", name,
                                     sum->coverage, least, most));
  if (row.bar.grouped && sum->flagged_percent > flagged_most)
    out.missed.push_back(fmt::format("{}: {:.1f} % of rows flagged (at most {:g})", name,
                                     sum->flagged_percent, flagged_most));
}

std::string_view met_as(double mape, const accuracy_bar& bar) {
  return mape <= bar.aim ? "aim met" : mape <= bar.must ? "must met" : "missed";
}

std::vector<std::string> sum_cells(const accuracy_row& row, const study_sum& s) {
  const bool judged = s.kind == judged_kind;
  return {row.bar.dataset,
          std::string(way_of(row.bar)),
          s.kind,
          fmt::format("{:.2f}", s.mape),
          s.deviation ? fmt::format("{:.2f}", *s.deviation) : "-",
          judged ? fmt::format("{:g}", row.bar.must) : "",
          judged ? fmt::format("{:g}", row.bar.aim) : "",
          judged ? std::string(met_as(s.mape, row.bar)) : "",
          s.over_trunk ? fmt::format("{:+.2f}", *s.over_trunk) : "-",
          fmt::format("{:.1f}", s.coverage),
          fmt::format("{:.1f}", s.flagged_percent)};
}

std::string misses_text(std::string_view what, const std::vector<std::string>& missed) {
  if (missed.empty()) return fmt::format("{}: all met\n", what);
  return fmt::format("{}, missed:\n  {}\n", what, fmt::join(missed, "\n  "));
}

}  // namespace

std::vector<accuracy_bar> public_bars() {
  return {{"spec17_Int_rate", false, 2.65, 2.24},  {"spec17_FP_rate", false, 3.02, 2.79},
          {"spec17_Int_speed", false, 2.69, 1.42}, {"spec17_FP_speed", false, 4.70, 3.33},
          {"spr_CINT2017rate", false, 2.15, 2.07}, {"spr_CFP2017rate", false, 2.06, 1.95},
          {"spec17_Int_rate", true, 3.22, 2.98},   {"spec17_FP_rate", true, 4.16, 3.82},
          {"spr_CINT2017rate", true, 4.8, 4.0},    {"spr_CFP2017rate", true, 4.7, 4.0}};
}

accuracy_verdict verdict_of(const accuracy_measurement& m) {
  accuracy_verdict out;
  for (const auto& row : m.rows) judge_accuracy(row, out);
  return out;
}

std::optional<std::filesystem::path> missing_of(const accuracy_plan& plan) {
  std::error_code ignored;
  for (const auto& bar : plan.bars)
    if (const auto file = file_of_rows(plan, bar.grouped); !std::filesystem::exists(file, ignored))
      return file;
  return std::nullopt;
}

result<accuracy_measurement> measure_accuracy(const accuracy_plan& plan) {
  const auto there = io::perf::datasets_in(plan.data);
  accuracy_measurement out{plan.seeds, {}};
  for (const auto& bar : plan.bars) {
    if (!glob_match(plan.dataset, bar.dataset)) continue;
    auto& row = out.rows.emplace_back(accuracy_row{bar, {}});
    if (std::ranges::find(there, bar.dataset) == there.end()) {
      say(fmt::format("left out: accuracy: no {} in {}", bar.dataset, plan.data.string()));
      continue;
    }
    say(bar_name(bar));
    TROUPE_TRY(sums, predict::studied(arguments_of(plan, bar)));
    row.kinds = std::move(sums);
  }
  if (out.rows.empty())
    return error{errc::usage, fmt::format("no data set with a bar is named {}", plan.dataset),
                 "troupe bench predict --help says what --dataset takes"};
  return out;
}

std::string text_of(const accuracy_measurement& m) {
  std::vector<std::vector<std::string>> table = {{"data set", "rows by", "kind", "MAPE %", "+-",
                                                  "must", "aim", "", "over trunk", "in 95 %",
                                                  "flagged %"}};
  for (const auto& row : m.rows) {
    for (const auto& s : row.kinds) table.push_back(sum_cells(row, s));
    if (row.kinds.empty())
      table.push_back({row.bar.dataset, std::string(way_of(row.bar)), "-", "-", "-",
                       fmt::format("{:g}", row.bar.must), fmt::format("{:g}", row.bar.aim),
                       "not measured", "-", "-", "-"});
  }
  const auto v = verdict_of(m);
  return trace::table_text(std::move(table), 0) +
         fmt::format(
             "{}. random: of the published split; grouped: folds by CPU model, pooled. What must "
             "be is judged of auto:\nits error, no more than {:g} points over the trunk's, "
             "intervals that hold for {:g} to {:g} % (grouped: {:g} to {:g}),\nno more than {:g} % "
             "of grouped rows flagged. What is estimated here are no SPEC results.\n",
             counted(m.seeds, "seed"), over_trunk_most, random_within_least, random_within_most,
             grouped_within_least, grouped_within_most, flagged_most) +
         misses_text("what must be", v.missed) + misses_text("aims", v.aims_missed);
}

nlohmann::ordered_json json_of(const accuracy_measurement& m) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& row : m.rows) {
    auto kinds = nlohmann::ordered_json::array();
    for (const auto& s : row.kinds)
      kinds.push_back({{"kind", s.kind},
                       {"mape_percent", s.mape},
                       {"mape_deviation", s.deviation ? nlohmann::ordered_json(*s.deviation)
                                                      : nlohmann::ordered_json(nullptr)},
                       {"over_trunk_points", s.over_trunk ? nlohmann::ordered_json(*s.over_trunk)
                                                          : nlohmann::ordered_json(nullptr)},
                       {"within_percent", s.coverage},
                       {"flagged_percent", s.flagged_percent}});
    rows.push_back({{"dataset", row.bar.dataset},
                    {"grouped", row.bar.grouped},
                    {"must_percent", row.bar.must},
                    {"aim_percent", row.bar.aim},
                    {"kinds", std::move(kinds)}});
  }
  const auto v = verdict_of(m);
  return {{"seeds", m.seeds},
          {"rows", std::move(rows)},
          {"missed", v.missed},
          {"aims_missed", v.aims_missed},
          {"met", v.met()}};
}

}  // namespace troupe::apps::predict_bench
