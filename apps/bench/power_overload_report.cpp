// Rows and the aim of overloads (power_overload_report.hpp).
#include "apps/bench/power_overload_report.hpp"

#include <cmath>

#include <fmt/format.h>

#include "apps/bench/power_figures.hpp"

namespace troupe::apps::power_bench {

namespace {

std::string seconds_shown(double s) {
  if (std::isnan(s)) return "-";
  return std::isinf(s) ? "never" : fmt::format("{:.3f}", s);
}

overload_times times_of_way(const overload_row& row, double wanted_s) {
  overload_times out{median_of(row.effect_s), p99_of(row.effect_s), worst_of(row.effect_s)};
  out.is_met = out.p99_s <= wanted_s;
  return out;
}

std::string row_text(const overload_row& row, const overload_times& t) {
  return fmt::format("{:<6} {:>6} {:>9} {:>11.2f} {:>9} {:>9} {:>9}  {}\n",
                     overload_ways[static_cast<size_t>(row.way)].id, row.effect_s.size(),
                     row.left_out, row.processors, seconds_shown(t.median_s),
                     seconds_shown(t.p99_s), seconds_shown(t.worst_s),
                     row.effect_s.empty() ? "not judged" : met(t.is_met));
}

}  // namespace

overload_verdict verdict_of(const overload_measurement& m) {
  overload_verdict out{m.telemetry_s + m.longest_op_s + overload_slack_s, {}, m.same_bits};
  for (const auto& row : m.rows) out.ways.push_back(times_of_way(row, out.wanted_s));
  return out;
}

std::string text_of(const overload_measurement& m) {
  const auto v = verdict_of(m);
  auto out = fmt::format("{:<6} {:>6} {:>9} {:>11} {:>9} {:>9} {:>9}\n", "way", "cases", "left out",
                         "processors", "median s", "p99", "worst");
  for (size_t i = 0; i < m.rows.size(); ++i) out += row_text(m.rows[i], v.ways[i]);
  out += fmt::format(
      "\nfrom the start of the tool until the processes of both jobs, by their clocks, keep no "
      "more "
      "than that\nbusy, of {:.2f} without it; left out: they drew no more than that before\n",
      m.free_processors);
  for (const auto& w : overload_ways)
    out += fmt::format("  {:<6} {}; kept for {:.2g} s\n", w.id, w.about, w.stretch_s);
  return out +
         fmt::format(
             "\nwanted at the 99th percentile: telemetry {:.3f} s, the longest operation {:.3f} s, "
             "and {} s: {:.3f} s\nlosses: {}\n",
             m.telemetry_s, m.longest_op_s, overload_slack_s, v.wanted_s,
             v.same_bits ? "the same of both jobs, bit by bit" : "NOT THE SAME");
}

nlohmann::ordered_json json_of(const overload_measurement& m) {
  const auto v = verdict_of(m);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (size_t i = 0; i < m.rows.size(); ++i) {
    const auto& t = v.ways[i];
    rows.push_back({{"way", overload_ways[static_cast<size_t>(m.rows[i].way)].id},
                    {"processors", m.rows[i].processors},
                    {"cases", m.rows[i].effect_s.size()},
                    {"left_out", m.rows[i].left_out},
                    {"median_s", number_or_null(t.median_s)},
                    {"p99_s", number_or_null(t.p99_s)},
                    {"worst_s", number_or_null(t.worst_s)},
                    {"met", t.is_met}});
  }
  return {{"free_processors", m.free_processors},
          {"telemetry_s", m.telemetry_s},
          {"longest_op_s", m.longest_op_s},
          {"wanted_s", v.wanted_s},
          {"rows", rows},
          {"same_bits", v.same_bits}};
}

}  // namespace troupe::apps::power_bench
