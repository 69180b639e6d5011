// `troupe power sim`: one row.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/power/power.hpp"
#include "apps/report/report.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/file.hpp"
#include "trace/text.hpp"

namespace troupe::apps::power_verb {

namespace {

using nlohmann::ordered_json;

double rounded(double x, double to) {
  return std::round(x * to) / to;
}

/// What has no value because a tick is longer than its time.
ordered_json or_null(const std::optional<double>& x) {
  return x ? ordered_json(*x) : ordered_json(nullptr);
}
std::string or_dash(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f} %", 100 * *share) : "-";
}

/// The greatest of each span of ticks: peaks are what a breaker sees.
std::vector<report::point> peaks_of(const row_told& t, size_t points) {
  std::vector<report::point> out;
  const size_t each = std::max<size_t>(1, (t.ticks.size() + points - 1) / points);
  for (size_t i = 0; i < t.ticks.size(); i += each) {
    double most = 0;
    for (size_t k = i; k < std::min(t.ticks.size(), i + each); ++k)
      most = std::max(most, static_cast<double>(t.ticks[k].power));
    const double hour = static_cast<double>(i) * t.options.telemetry_s / 3600;
    out.push_back({std::lround(hour), most});
  }
  return out;
}

}  // namespace

std::string thresholds_text(const sim::row_options& o) {
  const auto percent = [](double t) { return fmt::format("{:g}", rounded(100 * t, 100)); };
  auto out = percent(o.thresholds.t1) + "-" + percent(o.thresholds.t2);
  if (o.rule == power::row_rule::ladder) out += "-" + percent(o.thresholds.t3);
  return out;
}

double added_percent(const sim::row_options& o) {
  const double own = o.budget_w / sim::row_server_w;
  return rounded(100 * (o.servers / own - 1), 100);
}

std::string row_json(const row_told& t) {
  const auto& o = t.options;
  const auto& done = t.outcome;
  const auto& [lp, hp] = done.of;
  return ordered_json{{"policy", t.policy},
                      {"added_pct", added_percent(o)},
                      {"intensity", o.power_scale},
                      {"T1_T2", thresholds_text(o)},
                      {"seed", o.seed},
                      {"servers", o.servers},
                      {"max_power", done.max_power},
                      {"max_5min", or_null(done.max_5min)},
                      {"mean_power", done.mean_power},
                      {"spike_2s", or_null(done.spike_2s)},
                      {"spike_40s", or_null(done.spike_40s)},
                      {"brakes", done.brakes},
                      {"ticks_over_1", done.ticks_over_1},
                      {"frac_LP_capped", lp.capped_share},
                      {"frac_HP_capped", hp.capped_share},
                      {"LP_p50_s", lp.p50_s},
                      {"LP_p99_s", lp.p99_s},
                      {"HP_p50_s", hp.p50_s},
                      {"HP_p99_s", hp.p99_s},
                      {"LP_done", lp.done},
                      {"HP_done", hp.done},
                      {"LP_dropped", lp.dropped},
                      {"HP_dropped", hp.dropped},
                      {"MWh", done.mwh},
                      {"safe_t2", power::safe_t2(done.spike_answer)}}
      .dump();
}

std::string row_text(const row_told& t) {
  const auto& o = t.options;
  const auto& done = t.outcome;
  auto out =
      fmt::format("{} ({:+g} %) under {:.1f} kW, {} {}, clocks follow in {:g} s, {}, seed {}\n\n",
                  counted(o.servers, "server"), added_percent(o), o.budget_w / 1000, t.policy,
                  thresholds_text(o), o.actuation_s, counted(o.weeks, "week"), o.seed);
  report::canvas canvas;
  canvas.columns = std::min(100, terminal_columns(1, 80));
  canvas.utf8 = speaks_utf8();
  canvas.unit = "hour";
  const auto curve = report::curve(peaks_of(t, 400), canvas);
  if (!curve.empty()) out += "peaks, of the budget\n" + curve + "\n";
  out += fmt::format(
      "power   {:.1f} % at most, {} over 5 minutes, {:.1f} % in the mean; {:.1f} MWh\n"
      "rises   {} in 2 s, {} in 40 s\n"
      "brakes  {} ({} above the budget)\n\n",
      100 * done.max_power, or_dash(done.max_5min), 100 * done.mean_power, done.mwh,
      or_dash(done.spike_2s), or_dash(done.spike_40s), done.brakes,
      counted(done.ticks_over_1, "tick"));
  std::vector<std::vector<std::string>> rows = {
      {"priority", "p50", "p99", "done", "dropped", "time capped"}};
  for (int c = 0; c < sim::row_classes; ++c) {
    const auto& of = done.of[static_cast<size_t>(c)];
    rows.push_back({c == 0 ? "low" : "high", fmt::format("{:.1f} s", of.p50_s),
                    fmt::format("{:.1f} s", of.p99_s), grouped(static_cast<int64_t>(of.done)),
                    grouped(static_cast<int64_t>(of.dropped)),
                    fmt::format("{:.1f} %", 100 * of.capped_share)});
  }
  out += trace::table_text(std::move(rows), 0);
  const double safe = power::safe_t2(done.spike_answer);
  if (o.rule != power::row_rule::none && o.thresholds.t2 > safe)
    out += fmt::format(
        "\nT2 is {:.0f} %; the largest rise within telemetry and actuation asks for {:.0f} %\n",
        100 * o.thresholds.t2, 100 * safe);
  return out;
}

std::string trace_csv(const row_told& t) {
  fmt::memory_buffer out;
  fmt::format_to(std::back_inserter(out), "t_s,watts\n");
  for (size_t i = 0; i < t.ticks.size(); ++i)
    fmt::format_to(std::back_inserter(out), "{},{:.1f}\n",
                   static_cast<double>(i + 1) * t.options.telemetry_s,
                   static_cast<double>(t.ticks[i].power) * t.options.budget_w);
  return fmt::to_string(out);
}

result<int> run_sim(sim_arguments& a) {
  TROUPE_CHECK(settle(a.policy));
  TROUPE_CHECK(check_run(a.policy.row));
  if (a.column_given->count() > 0 && a.rates.empty())
    return error{errc::usage, "--rates-column has no meaning without --rates", ""};
  if (!a.rates.empty()) {
    TROUPE_TRY(profile, read_profile(a.rates, a.column));
    a.policy.row.profile = std::move(profile);
  }
  if (a.table) return run_table(a);
  row_told told{a.policy.policy, a.policy.row, {}, {}};
  std::optional<io::atomic_file> journal;
  status journalled;
  sim::row_listener listener;
  if (!a.journal.empty()) {
    TROUPE_TRY(file, io::atomic_file::create(a.journal));
    journal.emplace(std::move(file));
    TROUPE_CHECK(journal->write(power::to_line(terms_of(told.options))));
    listener = [&](const power::row_record& r) {
      if (journalled) journalled = journal->write(power::to_line(r));
    };
  }
  const bool seen = !a.json || !a.svg.empty() || !a.out.empty();
  {
    progress_line line;
    line.tell(fmt::format("{} of {} ...", counted(told.options.weeks, "week"),
                          counted(told.options.servers, "server")));
    told.outcome = sim::simulate_row(told.options, seen ? &told.ticks : nullptr, listener);
    TROUPE_CHECK(journalled);
    if (journal) TROUPE_CHECK(journal->commit());
    if (!a.out.empty()) TROUPE_CHECK(io::write_atomic(a.out, trace_csv(told)));
    if (!a.svg.empty()) TROUPE_CHECK(io::write_atomic(a.svg, row_svg(told)));
  }
  TROUPE_CHECK(print(a.json ? row_json(told) + "\n" : row_text(told)));
  return 0;
}

}  // namespace troupe::apps::power_verb
