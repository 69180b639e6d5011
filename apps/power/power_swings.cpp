// Reading a trace, or a table of statistics of several, and planning (swings.hpp).
#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/power/power.hpp"
#include "apps/power/swings.hpp"
#include "apps/talk.hpp"
#include "io/file.hpp"
#include "io/perf/csv.hpp"
#include "trace/text.hpp"

namespace troupe::apps::power_verb {

namespace {

using io::perf::csv;
using nlohmann::ordered_json;

struct swings_arguments {
  std::string trace, svg, out;
  power::swing_rules rules;
  argument *tdp = nullptr, *ramp = nullptr;
  bool json = false;
};

// -- a table of statistics ------------------------------------------------------------------------

/// Its columns: watts that are not exceeded in so much of the time.
constexpr std::array<std::pair<double, const char*>, 9> quantile_columns = {{{0.01, "p1_w"},
                                                                             {0.05, "p5_w"},
                                                                             {0.10, "p10_w"},
                                                                             {0.25, "p25_w"},
                                                                             {0.50, "p50_w"},
                                                                             {0.75, "p75_w"},
                                                                             {0.90, "p90_w"},
                                                                             {0.99, "p99_w"},
                                                                             {1.00, "max_w"}}};

struct statistics_row {
  std::string run;
  double fall_w = 0, rise_w = 0, dips_share = 0, filler = 0;
};

/// By its heading: a trace's begins with t_s.
result<bool> is_statistics(const std::string& path) {
  TROUPE_TRY(file, io::mapped_file::open(path));
  const auto bytes = file->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.substr(0, text.find('\n')).find("p50_w") != text.npos;
}

result<double> number_of(const csv& table, const io::perf::csv_row& row, std::string_view column) {
  TROUPE_TRY(at, table.need(column));
  if (const auto x = io::perf::number_in(row.cells[at]); x && *x >= 0) return *x;
  return io::perf::bad_csv(table.name, row.line,
                           fmt::format("{} is \"{}\", and not a number from 0 on", column,
                                       io::perf::trimmed(row.cells[at])));
}

result<std::vector<statistics_row>> read_statistics(const csv& table,
                                                    const power::swing_rules& rules) {
  std::vector<statistics_row> out;
  for (const auto& row : table.rows) {
    statistics_row r;
    TROUPE_TRY(run, table.need("run"));
    r.run = row.cells[run];
    std::vector<std::pair<double, double>> quantiles;
    for (const auto& [share, column] : quantile_columns) {
      TROUPE_TRY(w, number_of(table, row, column));
      if (quantiles.empty()) quantiles.emplace_back(0, w);
      if (w < quantiles.back().second)
        return io::perf::bad_csv(table.name, row.line, fmt::format("{} falls", column));
      quantiles.emplace_back(share, w);
    }
    TROUPE_TRY(mean, number_of(table, row, "mean_w"));
    TROUPE_TRY(fall, number_of(table, row, "max_fall_2s_w"));
    TROUPE_TRY(rise, number_of(table, row, "max_rise_2s_w"));
    TROUPE_TRY(dips, number_of(table, row, "dip_time_frac"));
    if (quantiles.back().second > 2 * rules.tdp_w)
      return io::perf::bad_csv(table.name, row.line,
                               fmt::format("max_w is {:.5g}, and --tdp-w is {:g}: both are watts "
                                           "of all devices together",
                                           quantiles.back().second, rules.tdp_w));
    if (dips > 1) return io::perf::bad_csv(table.name, row.line, "dip_time_frac is above 1");
    if (mean <= 0) return io::perf::bad_csv(table.name, row.line, "mean_w is 0");
    r.fall_w = fall;
    r.rise_w = rise;
    r.dips_share = dips;
    r.filler = power::filler_cost(quantiles, mean, rules.floor * rules.tdp_w);
    out.push_back(std::move(r));
  }
  if (out.empty()) return io::perf::bad_csv(table.name, size_t{1}, "a heading, and no row");
  return out;
}

result<int> run_statistics(const swings_arguments& a, const csv& table) {
  if (a.tdp->count() == 0)
    return error{errc::usage, "a table of statistics wants --tdp-w",
                 "watts that all devices may draw at most: 8 of 700 W are 5600"};
  if (!a.svg.empty() || !a.out.empty())
    return error{errc::usage, "a table of statistics has no trace to draw or to write",
                 "--svg and --out want one: t_s,watts"};
  TROUPE_TRY(rows, read_statistics(table, a.rules));
  const auto& r = a.rules;
  if (a.json) {
    auto all = ordered_json::array();
    for (const auto& row : rows)
      all.push_back({{"run", row.run},
                     {"fall", row.fall_w / r.tdp_w},
                     {"rise", row.rise_w / r.tdp_w},
                     {"dips_time", row.dips_share},
                     {"filler_energy", row.filler}});
    TROUPE_CHECK(
        print(ordered_json{{"tdp_w", r.tdp_w}, {"floor", r.floor}, {"rows", all}}.dump() + "\n"));
    return 0;
  }
  std::vector<std::vector<std::string>> text = {
      {"run", "fall in 2 s", "rise in 2 s", "idle", "filler's energy"}};
  for (const auto& row : rows)
    text.push_back({row.run, fmt::format("{:.0f} %", 100 * row.fall_w / r.tdp_w),
                    fmt::format("{:.0f} %", 100 * row.rise_w / r.tdp_w),
                    fmt::format("{:.1f} %", 100 * row.dips_share),
                    fmt::format("{:+.1f} %", 100 * row.filler)});
  TROUPE_CHECK(print(trace::table_text(std::move(text), 0) +
                     fmt::format("\nfalls and rises are of {:g} W; idle: of the time; filler keeps "
                                 "{:.0f} % of that, its energy is\nof the trace's own, by its "
                                 "distribution (the slope of falls left out)\n",
                                 r.tdp_w, 100 * r.floor)));
  return 0;
}

// -- a trace --------------------------------------------------------------------------------------

std::string csv_of(const std::vector<double>& watts, double step_s) {
  std::string out = "t_s,watts\n";
  for (size_t i = 0; i < watts.size(); ++i)
    out += fmt::format("{:.12g},{:.9g}\n", static_cast<double>(i + 1) * step_s, watts[i]);
  return out;
}

result<int> run_trace(swings_arguments& a) {
  TROUPE_TRY(trace, read_trace(a.trace));
  swings_told told{a.trace, {}, trace.step_s, a.rules, a.tdp->count() > 0, {}};
  for (size_t i = 0; i < trace.samples(); ++i) told.watts.push_back(trace.row_w(i));
  const auto most = *std::max_element(told.watts.begin(), told.watts.end());
  if (most <= 0) return error{errc::bad_data, a.trace + ": nothing is drawn in it"};
  if (!told.tdp_given) told.rules.tdp_w = most;
  TROUPE_CHECK(power::check(told.rules));
  if (most > 2 * told.rules.tdp_w)
    return error{errc::bad_data,
                 fmt::format("{}: the most is {:.5g} W, and --tdp-w is {:g}", a.trace, most,
                             told.rules.tdp_w),
                 "both are watts of all devices together"};
  told.plan = power::plan_swings(told.watts, told.step_s, told.rules);
  if (!a.out.empty())
    TROUPE_CHECK(io::write_atomic(a.out, csv_of(told.plan.together.watts, told.step_s)));
  if (!a.svg.empty()) TROUPE_CHECK(io::write_atomic(a.svg, swings_svg(told)));
  TROUPE_CHECK(print(a.json ? swings_json(told) + "\n" : swings_text(told)));
  return 0;
}

result<int> run_swings(swings_arguments& a) {
  if (a.tdp->count() == 0) a.rules.tdp_w = 1;  // until the trace is read
  if (a.ramp->count() == 0)
    a.rules.ramp_per_s = 0.8 * a.rules.most_swing / power::swing_rules::window_s;
  TROUPE_CHECK(power::check(a.rules));
  TROUPE_TRY(statistics, is_statistics(a.trace));
  if (statistics) {
    TROUPE_TRY(table, io::perf::read_csv(a.trace));
    return run_statistics(a, table);
  }
  return run_trace(a);
}

}  // namespace

void add_swings(shell& sh, command* parent) {
  auto* verb = parent->add_subcommand(
      "swings", "How a training job's watts fall and rise, and what would smooth them");
  auto a = std::make_shared<swings_arguments>();
  auto& r = a->rules;
  verb->add_option("trace", a->trace,
                   "CSV: t_s,watts, a sample a second or more; or statistics of several runs")
      ->required();
  a->tdp = verb->add_option("--tdp-w", r.tdp_w,
                            "Watts that all devices may draw; default: the most of the trace");
  verb->add_option("--most-swing", r.most_swing,
                   "Of the TDP within 2 s, up or down: what is wanted")
      ->capture_default_str();
  a->ramp = verb->add_option("--ramp", r.ramp_per_s,
                             "Of the TDP a second: a bounded slope; default: four fifths of what "
                             "--most-swing allows, since work is not even");
  verb->add_option("--floor", r.floor, "Of the TDP: what filler keeps")->capture_default_str();
  verb->add_option("--most-filler-energy", r.most_filler_cost,
                   "Of the energy: filler that costs more is not wanted")
      ->capture_default_str();
  verb->add_option("--longest-save-s", r.longest_save_s,
                   "A dip that lasts longer is no save, and stays")
      ->capture_default_str();
  verb->add_option("--jobs", r.jobs, "That share a feed, and need not dip together")
      ->capture_default_str();
  verb->add_option("--svg", a->svg, "Draw the trace before and after into this file");
  verb->add_option("--out", a->out, "Write the trace after what is wanted into this file");
  verb->add_flag("--json", a->json, "As one JSON object");
  on_run(sh, verb, [a] { return run_swings(*a); });
}

}  // namespace troupe::apps::power_verb
