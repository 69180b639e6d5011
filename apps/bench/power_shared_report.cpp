// Rows and aims of two jobs (power_shared_report.hpp).
#include "apps/bench/power_shared_report.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "apps/bench/power_figures.hpp"
#include "apps/bench/power_live_report.hpp"

namespace troupe::apps::power_bench {

namespace {

using shared_field = std::function<std::optional<double>(const shared_run&)>;

/// A column of the table, and its key.
struct shared_column {
  const char* key;
  const char* head;
  int digits;
  shared_field of;
};

const std::vector<shared_column>& shared_columns() {
  static const std::vector<shared_column> all{
      {"first_step_ms", "first job's step ms", 1, [](const auto& r) { return r.step_ms[0]; }},
      {"second_step_ms", "second job's", 1, [](const auto& r) { return r.step_ms[1]; }},
      {"busy_processors", "busy", 2, [](const auto& r) { return std::optional(r.processors); }},
      {"others_processors", "others", 2, [](const auto& r) { return std::optional(r.others); }},
      {"mean_share", "of budget", 3, [](const auto& r) { return r.mean_share; }},
      {"most_share", "most in 10 s", 3, [](const auto& r) { return r.most_share; }},
  };
  return all;
}

/// Of the rounds that say it.
std::vector<double> values_of(const shared_row& row, const shared_field& of) {
  std::vector<double> out;
  for (const auto& r : row.rounds)
    if (const auto v = of(r)) out.push_back(*v);
  return out;
}

const shared_row& row_of(const shared_measurement& m, shared_way way) {
  return m.rows[static_cast<size_t>(way)];
}

/// Of rounds that nobody disturbed; NaN in the place of what one of them does not say.
std::vector<double> quiet_of(const shared_row& row, const shared_field& of) {
  std::vector<double> out;
  for (const auto& r : row.rounds)
    if (!r.disturbed()) out.push_back(of(r).value_or(std::nan("")));
  return out;
}

/// How fast the first job is under its budget, beside how fast in the same round without one.
std::vector<double> speeds_of(const shared_measurement& m) {
  const auto &free = row_of(m, shared_way::free).rounds,
             &prior = row_of(m, shared_way::prior).rounds;
  std::vector<double> out;
  for (size_t i = 0; i < std::min(free.size(), prior.size()); ++i) {
    if (free[i].disturbed() || prior[i].disturbed()) continue;
    const auto without = free[i].step_ms[0], with = prior[i].step_ms[0];
    out.push_back(without && with ? *without / *with : std::nan(""));
  }
  return out;
}

std::string shared_aims(const shared_verdict& v) {
  const auto judged = [](const char* what, double found, bool reached, const std::string& wanted) {
    return std::isnan(found)
               ? fmt::format("{}: not judged, its rounds were disturbed or too short\n", what)
               : fmt::format("{}: {:.3f}, wanted {}: {}\n", what, found, wanted, met(reached));
  };
  auto out =
      judged(fmt::format("any {} s under a budget, at worst", window_s).c_str(), v.worst_share,
             v.worst_share <= most_share, fmt::format("{} of it at most", most_share)) +
      judged("equal: used of the budget while both are hungry", v.mean_share,
             v.mean_share >= least_mean_share, fmt::format("{}", least_mean_share)) +
      judged("prior: speed of the first job, beside the other one without a budget", v.speed,
             v.speed >= least_speed, fmt::format("{}", least_speed));
  if (v.disturbed > 0)
    out += fmt::format(
        "{} of these runs were disturbed, others kept more than {} of a processor busy: left out "
        "here\n",
        v.disturbed, most_others);
  return out + fmt::format("losses: {}\n",
                           v.same_bits ? "the same of all jobs, bit by bit" : "NOT THE SAME");
}

bool all_same_bits(const shared_row& row) {
  return std::all_of(row.rounds.begin(), row.rounds.end(),
                     [](const shared_run& r) { return r.same_bits; });
}

}  // namespace

shared_verdict verdict_of(const shared_measurement& m) {
  const auto most = [](const shared_run& r) { return r.most_share; };
  auto shares = quiet_of(row_of(m, shared_way::equal), most);
  const auto of_prior = quiet_of(row_of(m, shared_way::prior), most);
  shares.insert(shares.end(), of_prior.begin(), of_prior.end());
  shared_verdict out;
  out.worst_share = worst_of(shares);
  out.mean_share = median_of(
      quiet_of(row_of(m, shared_way::equal), [](const shared_run& r) { return r.mean_share; }));
  out.speed = median_of(speeds_of(m));
  for (const auto& row : m.rows)
    out.disturbed += static_cast<int>(std::count_if(
        row.rounds.begin(), row.rounds.end(), [](const shared_run& r) { return r.disturbed(); }));
  out.same_bits = std::all_of(m.rows.begin(), m.rows.end(), all_same_bits);
  return out;
}

std::string text_of(const shared_measurement& m) {
  const auto line = [](const auto& cell_of) {
    std::string out;
    for (const auto& c : shared_columns()) out += fmt::format(" {:>20}", cell_of(c));
    return out;
  };
  auto out = fmt::format("{:<6}{}\n", "way", line([](const auto& c) { return c.head; }));
  for (const auto& r : m.rows)
    out += fmt::format("{:<6}{}\n", shared_ways[static_cast<size_t>(r.way)].id,
                       line([&](const auto& c) { return shown(values_of(r, c.of), c.digits); }));
  out += fmt::format(
      "\nmedian (least-most) of rounds; busy: processors of both jobs' processes, by /proc, {:.2f} "
      "without a budget;\nof budget: what they kept busy of its processors, from {} s after both "
      "had made a step on\n",
      m.free_processors, leases_settle_s);
  for (const auto& w : shared_ways) out += fmt::format("  {:<6} {}\n", w.id, w.about);
  return out + "\n" + shared_aims(verdict_of(m));
}

nlohmann::ordered_json json_of(const shared_measurement& m) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& r : m.rows) {
    const auto& way = shared_ways[static_cast<size_t>(r.way)];
    nlohmann::ordered_json row{{"way", way.id},
                               {"budget_processors", way.budget_of * m.free_processors},
                               {"rounds", r.rounds.size()},
                               {"same_bits", all_same_bits(r)}};
    for (const auto& c : shared_columns()) add_spread(row, c.key, values_of(r, c.of));
    rows.push_back(std::move(row));
  }
  const auto v = verdict_of(m);
  return {{"free_processors", m.free_processors},
          {"rows", rows},
          {"worst_share", number_or_null(v.worst_share)},
          {"mean_share", number_or_null(v.mean_share)},
          {"speed", number_or_null(v.speed)},
          {"disturbed", v.disturbed},
          {"same_bits", v.same_bits}};
}

}  // namespace troupe::apps::power_bench
