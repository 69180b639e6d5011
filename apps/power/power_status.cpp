// `troupe power status`.
#include "apps/power/power_status.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/control/session.hpp"
#include "apps/power/power.hpp"
#include "apps/power/prometheus.hpp"
#include "apps/power/rack_rows.hpp"
#include "apps/power/tree_report.hpp"
#include "apps/power/watts.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/base/printable.hpp"

namespace troupe::apps::power_verb {

namespace {

using nlohmann::ordered_json;

bool is_modelled(const job_power& job) {
  return job.pacer.source == fbs::PowerSource::modelled;
}

void add_meter(const std::string& node, const fbs::MeterStatusT& m,
               std::map<std::string, metered_machine>& machines) {
  auto& of = machines[m.machine.empty() ? node : m.machine];
  if (std::ranges::find(of.nodes, node) == of.nodes.end()) of.nodes.push_back(node);
  for (const auto& d : m.devices)
    if (d->power_brake && std::ranges::find(of.braked, d->device) == of.braked.end())
      of.braked.push_back(d->device);
  if (of.power_w >= 0 || m.power_w < 0) return;
  of.power_w = m.power_w;
  of.modelled = m.source == fbs::PowerSource::modelled;
  of.energy_j = m.energy_j;
}

void add_control(const fbs::WorkerStatusT& w, std::map<std::string, paced_ranks>& controls) {
  if (w.control.empty()) return;
  auto& of = controls[w.control];
  of.control = w.control;
  ++of.ranks;
  of.p50_ms = std::max(of.p50_ms, w.actuation_p50_ms);
  of.p99_ms = std::max(of.p99_ms, w.actuation_p99_ms);
}

/// "pace of 8 ranks by nvml_clocks, in force within 80 ms, half the time within 50 ms"
std::string control_text(const paced_ranks& c) {
  auto out = fmt::format("pace of {} {} by {}", c.ranks, c.ranks == 1 ? "rank" : "ranks",
                         printable(c.control));
  if (c.p99_ms >= 0)
    out += fmt::format(", in force within {:.3g} ms, half the time within {:.3g} ms", c.p99_ms,
                       c.p50_ms);
  return out + "\n";
}

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

bool is_budgeted(const fbs::PacerStatusT& p) {
  return p.budget_w > 0 || !p.parent.empty();
}

/// A ramp alone has a pace as long as it rises, or waits to.
bool is_paced(const fbs::PacerStatusT& p) {
  return is_budgeted(p) || !p.decided.empty() || !p.reason.empty();
}

double pace_percent(const fbs::PacerStatusT& p) {
  return is_paced(p) ? p.pace_percent : 100;
}

/// " (row0, lease 3.1 s)"; empty where no power budget is above the job.
std::string lease_text(const fbs::PacerStatusT& p) {
  if (p.parent.empty()) return "";
  if (!p.racks.empty()) return fmt::format(" (of {})", counted(p.racks.size(), "power budget"));
  return fmt::format(" ({}, {})", printable(p.parent),
                     p.cap_w < 0            ? "no lease yet"
                     : p.lease_left_ms == 0 ? "its lease has lapsed"
                                            : fmt::format("lease {:.1f} s", p.lease_left_ms / 1e3));
}

/// "~41.0 of 44 W (row0, lease 3.1 s)  93 %"
std::string budget_text(const fbs::PacerStatusT& p, bool modelled) {
  if (p.budget_w > 0) {
    auto out = watts_of(p.power_w, modelled, p.budget_w) + lease_text(p);
    if (p.power_w >= 0) out += fmt::format("  {:.0f} %", 100 * p.power_w / p.budget_w);
    return out;
  }
  return watts(p.power_w, modelled) +
         (p.parent.empty() ? ", no budget" : ", none granted" + lease_text(p));
}

}  // namespace

job_power job_power_in(const fbs::ClusterViewT& view) {
  job_power out;
  out.job = view.job;
  std::map<std::string, metered_machine> machines;
  std::map<std::string, paced_ranks> controls;
  for (const auto& n : view.nodes)
    for (const auto& a : n->actors) {
      if (!a->values || !a->ended.empty()) continue;
      if (a->values->pacer) out.pacer = *a->values->pacer;
      if (a->values->meter) add_meter(n->node, *a->values->meter, machines);
      if (a->values->worker) add_control(*a->values->worker, controls);
      if (!a->values->run) continue;
      out.energy_j = a->values->run->energy_j;
      out.waited_ms = a->values->run->power_wait_ms;
    }
  for (auto& [key, m] : machines) out.machines.push_back(std::move(m));
  for (auto& [word, c] : controls) out.controls.push_back(std::move(c));
  std::ranges::sort(out.machines, {}, [](const auto& m) { return m.nodes.front(); });
  return out;
}

std::string outside_brake_words(const metered_machine& m) {
  if (m.braked.empty()) return "";
  return printable(fmt::format(
      "{} of {}: a power brake holds {} from outside, which is no budget's "
      "here: ask who runs the rack",
      fmt::join(m.braked, ", "), fmt::join(m.nodes, ", "), m.braked.size() == 1 ? "it" : "them"));
}

std::string status_text(const job_power& job) {
  const auto& p = job.pacer;
  const bool modelled = is_modelled(job);
  std::string out = printable(job.job) + "  " + budget_text(p, modelled);
  if ((p.budget_w > 0 || !p.decided.empty()) && p.pace_percent > 0)
    out += fmt::format("  pace {:.0f} %", p.pace_percent);
  if (p.budget_w > 0 && p.full_w >= 0)
    out += fmt::format("  {} without steps, {} at full speed", watts(p.idle_w, modelled),
                       watts(p.full_w, modelled));
  if (job.energy_j >= 0)
    out += fmt::format("  {}{:.0f} J so far", modelled ? "~" : "", job.energy_j);
  if (p.actuation_p99_ms >= 0)
    out += fmt::format("  lesser caps in force within {:.3g} s, half of them within {:.3g} s",
                       p.actuation_p99_ms / 1e3, p.actuation_p50_ms / 1e3);
  if (job.waited_ms > 0) out += fmt::format("  held up for {:.1f} s", job.waited_ms / 1e3);
  out += "\n";
  if (!p.reason.empty()) out += "waits: " + printable(p.reason) + "\n";
  if (!p.parent_problem.empty() && p.racks.empty())
    out += fmt::format("{} is not heard: {}\n", printable(p.parent), printable(p.parent_problem));
  for (const auto& line : rack_lines(p)) out += line + "\n";
  if (p.reason.empty() && !p.decided.empty()) out += "changed " + printable(p.decided) + "\n";
  if (!p.slack.empty()) out += "slack " + printable(p.slack) + "\n";
  for (const auto& c : job.controls) out += control_text(c);
  for (const auto& m : job.machines)
    if (!m.braked.empty()) out += outside_brake_words(m) + "\n";
  for (const auto& m : job.machines)
    out += fmt::format("{} {}  {}\n", &m == &job.machines.back() ? "└" : "├",
                       printable(fmt::format("{}", fmt::join(m.nodes, ", "))),
                       watts(m.power_w, m.modelled));
  return out;
}

std::string status_json(const job_power& job) {
  const auto& p = job.pacer;
  ordered_json j{
      {"type", "power"},
      {"job", job.job},
      {"budget_w", number_or_null(p.budget_w)},
      {"parent", text_or_null(p.parent)},
      {"cap_w", number_or_null(p.cap_w)},
      {"lease_left_ms", p.cap_w < 0 ? ordered_json(nullptr) : ordered_json(p.lease_left_ms)},
      {"parent_problem", text_or_null(p.parent_problem)},
      {"actuation_p50_ms", number_or_null(p.actuation_p50_ms)},
      {"actuation_p99_ms", number_or_null(p.actuation_p99_ms)},
      {"power_w", number_or_null(p.power_w)},
      {"power_source", source_of(p.power_w, is_modelled(job))},
      {"pace_percent", pace_percent(p)},
      {"reason", text_or_null(p.reason)},
      {"decided", text_or_null(p.decided)},
      {"idle_w", number_or_null(p.idle_w)},
      {"full_w", number_or_null(p.full_w)},
      {"energy_j", number_or_null(job.energy_j)},
      {"power_wait_ms", job.waited_ms}};
  if (!p.racks.empty()) j["racks"] = racks_json(p);
  if (!p.slack.empty()) j["slack"] = p.slack;
  for (const auto& c : job.controls)
    j["controls"].push_back({{"control", c.control},
                             {"ranks", c.ranks},
                             {"p50_ms", number_or_null(c.p50_ms)},
                             {"p99_ms", number_or_null(c.p99_ms)}});
  j["machines"] = ordered_json::array();
  for (const auto& m : job.machines)
    j["machines"].push_back({{"nodes", m.nodes},
                             {"power_w", number_or_null(m.power_w)},
                             {"power_source", source_of(m.power_w, m.modelled)},
                             {"energy_j", number_or_null(m.energy_j)},
                             {"braked_outside", m.braked}});
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string status_prometheus(const job_power& job) {
  const auto& p = job.pacer;
  const auto name = label_value(job.job);
  std::string out =
      metric_family("troupe_power_watts", "gauge", "What a machine of the job draws.");
  for (const auto& m : job.machines)
    if (m.power_w >= 0)
      out += fmt::format("troupe_power_watts{{job={},nodes={},source=\"{}\"}} {}\n", name,
                         label_value(fmt::format("{}", fmt::join(m.nodes, ","))),
                         source_of(m.power_w, m.modelled), m.power_w);
  out += metric_family("troupe_power_outside_brake", "gauge",
                       "Devices of a machine that a power brake holds from outside.");
  for (const auto& m : job.machines)
    out += fmt::format("troupe_power_outside_brake{{job={},nodes={}}} {}\n", name,
                       label_value(fmt::format("{}", fmt::join(m.nodes, ","))), m.braked.size());
  if (p.budget_w > 0)
    out += metric_family(budget_watts_name, "gauge", budget_watts_help) +
           fmt::format("{}{{job={}}} {}\n", budget_watts_name, name, p.budget_w);
  out += caps_prometheus(job.job, p);
  out += metric_family("troupe_power_pace_ratio", "gauge",
                       "The share of its speed that its budget leaves.") +
         fmt::format("troupe_power_pace_ratio{{job={}}} {}\n", name, pace_percent(p) / 100);
  out += metric_family("troupe_power_held", "gauge", "1: no step begins, for want of power.") +
         fmt::format("troupe_power_held{{job={}}} {}\n", name, pace_percent(p) > 0 ? 0 : 1);
  if (!p.slack.empty())
    out += metric_family("troupe_power_slack_taken", "gauge",
                         "1: operations that delay nobody run at lower clocks.") +
           fmt::format("troupe_power_slack_taken{{job={}}} {}\n", name,
                       p.slack.starts_with("planned") ? 1 : 0);
  if (job.energy_j >= 0)
    out += metric_family("troupe_power_joules_total", "counter",
                         "Used since the head of the run began.") +
           fmt::format("troupe_power_joules_total{{job={},source=\"{}\"}} {}\n", name,
                       source_of(p.power_w, is_modelled(job)), job.energy_j);
  return out +
         metric_family("troupe_power_wait_seconds_total", "counter",
                       "How long the budget held it up.") +
         fmt::format("troupe_power_wait_seconds_total{{job={}}} {}\n", name, job.waited_ms / 1e3);
}

namespace {

struct status_arguments {
  connect_options connect;
  bool json = false, prometheus = false;
};

result<int> show_status(const status_arguments& a) {
  TROUPE_CHECK(one_format(a.json, a.prometheus));
  TROUPE_TRY(s, session::open(a.connect));
  if (s->is_power_budget()) {
    TROUPE_TRY(tree, s->power_tree(""));
    TROUPE_CHECK(print(a.json         ? tree_json(tree)
                       : a.prometheus ? tree_prometheus(tree)
                                      : tree_text(tree)));
    return 0;
  }
  TROUPE_TRY(view, s->view("", "", false));
  const auto job = job_power_in(view);
  TROUPE_CHECK(print(a.json         ? status_json(job)
                     : a.prometheus ? status_prometheus(job)
                                    : status_text(job)));
  return 0;
}

}  // namespace

void add_status(shell& sh, command* parent) {
  auto* verb =
      parent->add_subcommand("status", "Say what a running job's machines draw, and its budget");
  auto a = std::make_shared<status_arguments>();
  a->connect.or_budget = true;
  verb->add_flag("--json", a->json, "As one JSON object");
  verb->add_flag("--prometheus", a->prometheus, "As Prometheus's text format");
  add_connect_options(verb, a->connect);
  verb->footer(
      "A wave before watts and joules: a part of them at least is calculated, not measured.\n"
      "Of a served power budget (--job BUDGET, or where no job runs here) as power tree.\n"
      "Exit codes: 0, 69 no cluster answers.\n\n"
      "Examples:\n"
      "  troupe power status\n"
      "  troupe power status --json | jq .power_w\n"
      "  troupe console -c 'power budget 55'");
  on_run(sh, verb, [a] { return show_status(*a); });
}

}  // namespace troupe::apps::power_verb
