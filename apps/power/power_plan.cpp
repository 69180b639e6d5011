// `troupe power plan`: how many servers an operator's own trace leaves room for.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/sim/row/row_plan.hpp"
#include "apps/power/power.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/file.hpp"
#include "io/formats/number_table.hpp"
#include "trace/text.hpp"

namespace troupe::apps::power_verb {

result<power::row_trace> read_trace(const std::string& path) {
  TROUPE_TRY(file, io::mapped_file::open(path));
  const auto bytes = file->bytes();
  progress_line line;
  io::number_table_options options;
  options.progress = [&](size_t read) {
    line.tell(fmt::format("{}: {:.0f} %", path,
                          100.0 * static_cast<double>(read) / static_cast<double>(bytes.size())));
  };
  auto table =
      io::parse_number_table({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options);
  if (!table) return table.error().within(path);
  auto trace = power::row_trace_of(std::move(*table));
  if (!trace) return trace.error().within(path);
  return trace;
}

namespace {

using nlohmann::ordered_json;

/// What POLCA's medians may grow by.
constexpr double paper_lp = 0.05, paper_hp = 0.01;

/// "27 %".
std::string added_text(int added, int servers) {
  return fmt::format("{:.0f} %", 100.0 * added / servers);
}

std::string weeks_text(int weeks) {
  return counted(weeks, "week");
}

std::string answer_text(const sim::row_plan& p, const sim::plan_options& o) {
  if (!p.fits)
    return fmt::format(
        "the row of {} does not fit under {:g} W as it is: {} of {} resamples of {} have "
        "no "
        "brake",
        counted(o.row.servers, "server"), o.row.budget_w, p.rows.front().clean, o.resamples,
        weeks_text(o.row.weeks));
  return fmt::format("you can add {} ({}): no brake in {} in {} of {} resamples",
                     counted(p.servers_added, "server"), added_text(p.servers_added, o.row.servers),
                     weeks_text(o.row.weeks), p.answer().clean, o.resamples);
}

/// With its thresholds, those of the answer.
std::string policy_text(const std::string& policy, const sim::row_plan& p,
                        const sim::plan_options& o) {
  const auto& best = p.answer();
  if (policy == "none") return "policy none: the brake alone";
  if (policy == "low" || policy == "all")
    return fmt::format("policy {}, T2 {:.0f} %", policy, 100 * best.t2);
  return fmt::format("policy {}, T1 {:.0f} %, T2 {:.0f} %{}{}", policy, 100 * best.t1,
                     100 * best.t2,
                     policy == "ladder" ? fmt::format(", T3 {:.0f} %", 100 * best.t3) : "",
                     o.own_thresholds ? " (as given)" : ", by the trace's rises");
}

std::string plan_text(const sim::row_plan& p, const plan_arguments& a, const sim::plan_options& o) {
  const auto& best = p.answer();
  const auto& policy = a.policy.policy;
  auto out = answer_text(p, o) + "\n\n";
  out += fmt::format("row     {} under {:g} W\n", counted(o.row.servers, "server"), o.row.budget_w);
  out += policy_text(policy, p, o) + "\n";
  out += fmt::format("rise    {:.1f} % of the budget within {:g} s (telemetry and actuation)\n",
                     100 * p.rise, p.rise_s);
  const double safe = power::safe_t2(p.rise * (o.row.servers + best.added) / o.row.servers);
  if (o.own_thresholds && policy != "none" && best.t2 > safe + 1e-9)
    out += fmt::format("T2 is {:.0f} %; with that many servers such a rise asks for {:.0f} %\n",
                       100 * best.t2, 100 * safe);
  if (best.hp_slowdown > 1 + paper_hp || best.lp_slowdown > 1 + paper_lp)
    out += fmt::format(
        "low priority is {:.1f} % slower with that many, high {:.1f} %: above what the paper "
        "allows "
        "(5, 1 %); greater thresholds\n(--t1, --t2) or fewer servers slow less\n",
        100 * (best.lp_slowdown - 1), 100 * (best.hp_slowdown - 1));
  for (const auto& note : p.notes) out += fmt::format("doubt   {}\n", note);
  std::vector<std::vector<std::string>> rows = {{"added", "servers", "T1", "T2", "peak",
                                                 "LP capped", "HP capped", "LP slower", "HP slower",
                                                 "most brakes", "without"}};
  for (const auto& r : p.rows)
    rows.push_back({fmt::format("+{}", r.added), std::to_string(o.row.servers + r.added),
                    fmt::format("{:.0f} %", 100 * r.t1), fmt::format("{:.0f} %", 100 * r.t2),
                    fmt::format("{:.1f} %", 100 * r.peak),
                    fmt::format("{:.1f} %", 100 * r.lp_capped),
                    fmt::format("{:.1f} %", 100 * r.hp_capped),
                    fmt::format("{:.2f} %", 100 * (r.lp_slowdown - 1)),
                    fmt::format("{:.2f} %", 100 * (r.hp_slowdown - 1)), std::to_string(r.brakes),
                    fmt::format("{}/{}", r.clean, o.resamples)});
  return out + "\n" + trace::table_text(std::move(rows), 0);
}

std::string plan_json(const sim::row_plan& p, const plan_arguments& a, const sim::plan_options& o) {
  ordered_json rows = ordered_json::array();
  for (const auto& r : p.rows)
    rows.push_back({{"added", r.added},
                    {"servers", o.row.servers + r.added},
                    {"t1", r.t1},
                    {"t2", r.t2},
                    {"peak", r.peak},
                    {"LP_capped", r.lp_capped},
                    {"HP_capped", r.hp_capped},
                    {"LP_slowdown", r.lp_slowdown},
                    {"HP_slowdown", r.hp_slowdown},
                    {"brakes", r.brakes},
                    {"without_brakes", r.clean}});
  return ordered_json{{"servers_added", p.servers_added},
                      {"t1", p.answer().t1},
                      {"t2", p.answer().t2},
                      {"answer", answer_text(p, o)},
                      {"fits", p.fits},
                      {"policy", a.policy.policy},
                      {"servers", o.row.servers},
                      {"budget_w", o.row.budget_w},
                      {"weeks", o.row.weeks},
                      {"resamples", o.resamples},
                      {"rise", p.rise},
                      {"rise_s", p.rise_s},
                      {"doubt", p.doubt},
                      {"doubts", p.notes},
                      {"rows", rows}}
      .dump();
}

/// A trace by server says how many there are.
status settle_servers(plan_arguments& a, const power::row_trace& trace) {
  if (!trace.by_server && a.policy.servers->count() == 0)
    return error{errc::usage, fmt::format("{} is of a whole row, of how many servers?", a.trace),
                 "say --servers N, or give a column for each server"};
  if (!trace.by_server) return {};
  const auto columns = static_cast<int>(trace.columns.size());
  if (a.policy.servers->count() > 0 && a.policy.row.servers != columns)
    return error{errc::usage,
                 fmt::format("--servers is {}, and {} has a column for each of {}",
                             a.policy.row.servers, a.trace, columns),
                 "leave --servers out: the trace says it"};
  a.policy.row.servers = columns;
  return check(a.policy.row);
}

}  // namespace

result<int> run_plan(plan_arguments& a) {
  TROUPE_CHECK(settle(a.policy));
  if (a.resamples < 1 || a.resamples > plan_arguments::most_resamples)
    return error{errc::usage,
                 fmt::format("--resamples is from 1 to {}, and not {}",
                             plan_arguments::most_resamples, a.resamples),
                 "20 tell a row that fits from one that does not"};
  if (a.policy.budget->count() == 0)
    return error{errc::usage, "--budget-w is missing",
                 "it is what the row's breaker carries, in W"};
  TROUPE_TRY(trace, read_trace(a.trace));
  TROUPE_CHECK(settle_servers(a, trace));
  sim::plan_options options{a.policy.row, false, static_cast<size_t>(a.resamples)};
  for (const auto* it : {a.policy.t1, a.policy.t2, a.policy.t3})
    options.own_thresholds |= it->count() > 0;
  const auto plan = [&] {
    progress_line line;
    return sim::plan_row_growth(trace, options, [&](int added) {
      line.tell(fmt::format("{}, {} ...", counted(options.row.servers + added, "server"),
                            counted(options.resamples, "resample")));
    });
  }();
  if (!plan) return plan.error().within(a.trace);
  if (!a.svg.empty())
    TROUPE_CHECK(io::write_atomic(
        a.svg,
        plan_svg({*plan, answer_text(*plan, options), policy_text(a.policy.policy, *plan, options),
                  options.row.servers, options.row.budget_w, options.resamples})));
  TROUPE_CHECK(print(a.json ? plan_json(*plan, a, options) + "\n" : plan_text(*plan, a, options)));
  return 0;
}

}  // namespace troupe::apps::power_verb
