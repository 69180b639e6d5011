// Tables, JSON and a picture of simulated days.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "actors/sim/days/assumptions.hpp"
#include "apps/sim_days.hpp"
#include "io/base/counted.hpp"
#include "trace/text.hpp"

namespace troupe::apps {

namespace {

using nlohmann::ordered_json;

constexpr double s_of(int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

/// What it assumes that the product does not have yet.
std::vector<std::string> not_yet(const sim::day_options& o) {
  return o.planned ? sim::not_in_the_product() : std::vector<std::string>();
}

/// The job's configuration, by its keys; of `cluster.heads` their number.
ordered_json configuration_json(const sim::day_options& o) {
  return {{"cluster.spares", o.spares},
          {"cluster.heads", o.heads},
          {"checkpoint.every", o.checkpoint_every},
          {"checkpoint.memory.every", o.copies},
          {"recovery.most_per_hour", o.recovery.most_per_hour},
          {"recovery.stuck_after_s", o.recovery.stuck_after_s},
          {"recovery.fewer_replicas", o.recovery.fewer_replicas},
          {"recovery.return_s", o.recovery.return_s},
          {"recovery.wait_s", o.recovery.wait_s},
          {"recovery.evict_slow", o.recovery.evict_slow},
          {"recovery.head_takeover_s", o.recovery.head_takeover_s},
          {"health.stuck_after_s", o.health.stuck_after_s},
          {"health.digest_every", o.health.digest_every},
          {"health.recheck_every", o.health.recheck_every}};
}

std::map<size_t, uint64_t> by_cause(const sim::day_outcome& outcome) {
  std::map<size_t, uint64_t> out;
  for (const auto& i : outcome.incidents) ++out[i.cause];
  return out;
}

/// Rows of a mix that are of one name are one cause.
std::vector<std::pair<std::string, uint64_t>> named_causes(const days_told& t) {
  std::vector<std::pair<std::string, uint64_t>> out;
  for (const auto& [cause, count] : by_cause(t.outcome)) {
    const auto& name = t.options.mix.causes[cause].cause;
    const auto it =
        std::find_if(out.begin(), out.end(), [&](const auto& c) { return c.first == name; });
    if (it == out.end())
      out.emplace_back(name, count);
    else
      it->second += count;
  }
  return out;
}

std::string percent_text(double share) {
  return fmt::format("{:.2f} %", 100 * share);
}

std::string seconds_text(std::optional<double> s) {
  if (!s) return "never";
  if (*s < 10) return fmt::format("{:.2f} s", *s);
  return *s < 600 ? fmt::format("{:.0f} s", *s) : fmt::format("{:.1f} min", *s / 60);
}

std::string span_text(int64_t ns) {
  const double s = s_of(ns);
  if (s < 600) return fmt::format("{:.1f} s", s);
  return s < 48 * 3600 ? fmt::format("{:.2f} h", s / 3600) : fmt::format("{:.2f} d", s / 86'400);
}

std::string heading(const days_told& t) {
  const auto& o = t.options;
  auto out = fmt::format("{} {}, {} of {}, mix {} ({:.2f} per 1,000 node-days), seed {}, as {}\n",
                         o.days, plural(o.days == 1 ? 1 : 2, "day"), counted(o.nodes, "node"),
                         o.workers, o.mix.name, o.mix.rate(), o.seed, o.as);
  if (o.as != "ours") return out;
  out += fmt::format(
      "as the product is, with {}{}, checkpoints every {}, copies in memory {}, {}\n",
      counted(o.spares, "spare"),
      t.spares_by_plan
          ? fmt::format(" (`troupe plan --failures {:.2f}` asks for them)", o.mix.rate())
          : "",
      counted(o.checkpoint_every, "step"), copies_text(o), counted(o.heads, "head"));
  if (const auto more = not_yet(o); !more.empty())
    out += fmt::format("and with what it does not have yet: {}\n", fmt::join(more, "; "));
  out += fmt::format(
      "protocol, measured on {}{}: noticed {} (killed), {} (silent), {} (failed "
      "device), quiet {}, members {}, connected {}, restored {}\n",
      counted(t.protocol.nodes, "simulated node"),
      t.protocol.nodes < o.nodes ? " and scaled up" : "",
      trace::duration_text(t.times.protocol.notice_closed_ns),
      trace::duration_text(t.times.protocol.notice_silent_ns),
      trace::duration_text(t.times.protocol.notice_error_ns),
      trace::duration_text(t.times.protocol.quiet_ns),
      trace::duration_text(t.times.protocol.members_ns),
      trace::duration_text(t.times.protocol.connect_ns),
      trace::duration_text(t.times.protocol.restore_ns));
  return out;
}

ordered_json percentiles_json(const sim::day_outcome& o, int64_t sim::day_incident::*when) {
  ordered_json out;
  for (const auto& [name, percent] : {std::pair{"p50", 50.0}, std::pair{"p99", 99.0}}) {
    const auto s = percentile_s(o, when, percent);
    out[name] = s ? ordered_json(*s) : ordered_json(nullptr);
  }
  return out;
}

ordered_json assumptions_json(const days_told& t) {
  ordered_json out;
  for (const auto& a : sim::assumed::all)
    out[a.name] = {{"value", a.value}, {"unit", a.unit}, {"source", a.source}};
  for (const auto& p : sim::published)
    out[p.name] = {
        {"value", p.detect_s + p.restart_s}, {"unit", "s a fault"}, {"source", p.source}};
  const auto& m = t.times.protocol;
  const std::pair<const char*, int64_t> measured[] = {{"notice_closed_s", m.notice_closed_ns},
                                                      {"notice_silent_s", m.notice_silent_ns},
                                                      {"notice_error_s", m.notice_error_ns},
                                                      {"quiet_s", m.quiet_ns},
                                                      {"members_s", m.members_ns},
                                                      {"connect_s", m.connect_ns},
                                                      {"restore_s", m.restore_ns}};
  if (m.nodes == 0) return out;
  for (const auto& [name, ns] : measured)
    out[name] = {{"value", s_of(ns)},
                 {"unit", "s"},
                 {"source", fmt::format("measured on {} simulated nodes", m.nodes)}};
  return out;
}

}  // namespace

std::string copies_text(const sim::day_options& o) {
  if (o.copies == 0) return "never";
  return o.copies == 1 ? "after each step" : fmt::format("every {} steps", o.copies);
}

double unaided_of(const sim::day_outcome& outcome) {
  if (outcome.incidents.empty()) return 1;
  const auto n = std::count_if(outcome.incidents.begin(), outcome.incidents.end(),
                               [](const auto& i) { return i.unaided; });
  return static_cast<double>(n) / static_cast<double>(outcome.incidents.size());
}

double worst_hour_of(const sim::day_outcome& outcome) {
  constexpr int64_t hour_ns = 3'600'000'000'000;
  double worst = 1;
  bool any = false;
  const auto& hours = outcome.ledger.hours();
  for (size_t i = 0; i < hours.size(); ++i) {
    if (hours[i].wall_ns() < hour_ns) continue;
    const auto slower_ns =
        i < outcome.slower_by_hour_ns.size() ? outcome.slower_by_hour_ns[i] : int64_t{0};
    worst = std::min(worst, hours[i].effective() - s_of(slower_ns) / s_of(hour_ns));
    any = true;
  }
  return any ? std::max(0.0, worst) : outcome.effective();
}

std::optional<double> percentile_s(const sim::day_outcome& outcome,
                                   int64_t sim::day_incident::*when, double percent) {
  std::vector<double> all;
  constexpr double never = 1e18;
  for (const auto& i : outcome.incidents)
    if (i.stops) all.push_back(i.*when < 0 ? never : s_of(i.*when));
  if (all.empty()) return std::nullopt;
  std::sort(all.begin(), all.end());
  const auto rank = static_cast<size_t>(
      std::max(1.0, std::ceil(percent / 100 * static_cast<double>(all.size()))));
  const double s = all[rank - 1];
  return s == never ? std::nullopt : std::optional(s);
}

std::string days_text(const days_told& t) {
  const auto& whole = t.outcome.ledger.whole();
  auto out = heading(t);
  out += fmt::format("\neffective {}, worst hour {}; unaided {}\n",
                     percent_text(t.outcome.effective()), percent_text(worst_hour_of(t.outcome)),
                     percent_text(unaided_of(t.outcome)));
  out += fmt::format(
      "{}, {} ended, {} made, {} repeated, {} used, {} fewer replicas, {} taken for sick\n\n",
      counted(t.outcome.incidents.size(), "incident"), counted(t.outcome.jobs_ended, "job"),
      counted(t.outcome.steps, "step"), t.outcome.ledger.steps_repeated(),
      counted(t.outcome.spares_used, "spare"), counted(t.outcome.fewer_replicas, "time"),
      counted(t.outcome.false_evictions, "healthy node"));
  std::vector<std::vector<std::string>> rows = {{"where the time went", "time", "share"}};
  for (size_t i = 0; i < health::time_uses; ++i) {
    const auto use = static_cast<health::time_use>(i);
    rows.push_back({std::string(to_string(use)), span_text(whole[use]),
                    percent_text(s_of(whole[use]) / std::max(1e-9, s_of(whole.wall_ns())))});
  }
  if (t.outcome.slower_ns > 0)
    rows.push_back({"of useful: longer steps", span_text(t.outcome.slower_ns),
                    percent_text(s_of(t.outcome.slower_ns) / s_of(whole.wall_ns()))});
  const auto where = trace::table_text(std::move(rows), 0);
  rows = {{"from the fault until it was", "p50", "p99"}};
  const std::pair<const char*, int64_t sim::day_incident::*> times[] = {
      {"noticed", &sim::day_incident::noticed_ns},
      {"named", &sim::day_incident::named_ns},
      {"back at a step", &sim::day_incident::back_ns}};
  for (const auto& [name, when] : times)
    rows.push_back({name, seconds_text(percentile_s(t.outcome, when, 50)),
                    seconds_text(percentile_s(t.outcome, when, 99))});
  out += where + "\n" + trace::table_text(std::move(rows), 0);
  rows = {{"cause", "incidents"}};
  for (const auto& [name, count] : named_causes(t)) rows.push_back({name, std::to_string(count)});
  out += "\n" + trace::table_text(std::move(rows), 0);
  return out + fmt::format("\nsimulated in {:.1f} s; --json has each assumption with its source\n",
                           t.sim_s);
}

std::string days_json(const days_told& t, const std::vector<sensitivity_row>& rows) {
  const auto& whole = t.outcome.ledger.whole();
  ordered_json j;
  j["effective"] = t.outcome.effective();
  j["effective_worst_hour"] = worst_hour_of(t.outcome);
  j["unaided"] = unaided_of(t.outcome);
  j["wall_s"] = s_of(whole.wall_ns());
  for (size_t i = 0; i < health::time_uses; ++i) {
    const auto use = static_cast<health::time_use>(i);
    j[fmt::format("{}_s", to_string(use))] = s_of(whole[use]);
  }
  j["slower_s"] = s_of(t.outcome.slower_ns);
  j["incidents"] = ordered_json::object();
  for (const auto& [name, count] : named_causes(t)) j["incidents"][name] = count;
  j["noticed_s"] = percentiles_json(t.outcome, &sim::day_incident::noticed_ns);
  j["named_s"] = percentiles_json(t.outcome, &sim::day_incident::named_ns);
  j["back_s"] = percentiles_json(t.outcome, &sim::day_incident::back_ns);
  j["steps_repeated"] = t.outcome.ledger.steps_repeated();
  j["false_evictions"] = t.outcome.false_evictions;
  j["spares_used"] = t.outcome.spares_used;
  j["fewer_replicas"] = t.outcome.fewer_replicas;
  j["jobs_ended"] = t.outcome.jobs_ended;
  if (t.options.as == "ours") j["configuration"] = configuration_json(t.options);
  j["not_in_the_product_yet"] = not_yet(t.options);
  j["assumptions"] = assumptions_json(t);
  for (const auto& r : rows)
    j["sensitivity"].push_back(
        {{"varied", r.what}, {"effective", r.effective}, {"unaided", r.unaided}});
  return j.dump();
}

}  // namespace troupe::apps
