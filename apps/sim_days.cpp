// `troupe sim --days D`: a large cluster over days.
#include "apps/sim_days.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "actors/health/spares_policy.hpp"
#include "actors/sim/days/assumptions.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/base/text.hpp"
#include "io/file.hpp"
#include "trace/text.hpp"

namespace troupe::apps {

namespace {

constexpr double rate_ceiling = 1000;
/// The ledger tells so many apart.
constexpr double days_ceiling = health::time_ledger_policy::hours_kept / 24;

template <class T>
void add(command* verb, days_arguments& a, const std::string& name, T& into,
         const std::string& about) {
  a.given.emplace_back(name, verb->add_option(name, into, about));
}

error misuse(std::string what, std::string hint) {
  return {errc::usage, std::move(what), std::move(hint)};
}

bool was_given(const days_arguments& a, std::string_view name) {
  return std::any_of(a.given.begin(), a.given.end(),
                     [&](const auto& g) { return g.first == name && g.second->count() > 0; });
}

result<sim::fault_mix> mix_of(const std::string& name) {
  if (name == "llama3") return sim::llama3_mix();
  if (name == "byterobust") return sim::byterobust_mix();
  if (!name.ends_with(".csv")) {
    constexpr std::string_view known[] = {"llama3", "byterobust"};
    const auto near = nearest(name, known);
    return misuse(fmt::format("unknown mix: {}", name),
                  near.empty() ? "it is llama3, byterobust, or a file whose name ends with .csv"
                               : fmt::format("did you mean {}?", near));
  }
  TROUPE_TRY(text, io::read_file(name, sim::fault_mix::most_bytes));
  auto mix = sim::parse_mix(text, name);
  if (!mix) return mix.error().within(name);
  return mix;
}

/// Options that do not go together.
status check_together(const days_arguments& a) {
  if (a.as == "ours") return {};
  const bool known = std::any_of(sim::published.begin(), sim::published.end(),
                                 [&](const auto& p) { return p.name == a.as; });
  if (!known)
    return misuse(fmt::format("unknown --as: {}", a.as), "it is ours, megascale or ft-hsdp");
  for (const auto* name : {"--spares", "--copies", "--planned", "--sensitivity", "--measure-nodes"})
    if (was_given(a, name))
      return misuse(fmt::format("{} has no meaning with --as {}", name, a.as),
                    "published times are the same whatever a cluster has; leave --as out");
  return {};
}

status check_numbers(const days_arguments& a, const days_cluster& c) {
  if (!(a.days > 0 && a.days <= days_ceiling))
    return misuse(fmt::format("--days is above 0, and at most {}", days_ceiling), "");
  if (a.rate < 0 || a.rate > rate_ceiling)
    return misuse(fmt::format("--rate is from 0 to {} per 1,000 node-days", rate_ceiling), "");
  if (a.detect_s < 0 || a.restart_s < 0)
    return misuse("--detect-s and --restart-s are not below 0", "");
  if (a.spares < 0 || a.spares > c.nodes)
    return misuse(fmt::format("--spares is from 0 to the number of nodes, {}", c.nodes), "");
  if (a.measure_nodes < 0 || a.measure_nodes > c.nodes)
    return misuse(fmt::format("--measure-nodes is from 1 to the number of nodes, {}", c.nodes),
                  "a smaller cluster is measured, and what it takes is scaled up");
  if (c.checkpoint_every && *c.checkpoint_every == 0)
    return misuse("--checkpoint-every is at least 1 with --days", "");
  return {};
}

/// As `troupe plan` counts them.
int spares_asked_for(const sim::day_options& o) {
  const auto n = health::spares_for(o.nodes, std::min(o.mix.rate(), rate_ceiling));
  return static_cast<int>(std::min<int64_t>(n, o.nodes));
}

result<sim::day_options> options_of(const days_arguments& a, const days_cluster& c) {
  TROUPE_CHECK(check_together(a));
  TROUPE_CHECK(check_numbers(a, c));
  TROUPE_TRY(mix, mix_of(a.mix));
  sim::day_options o;
  o.days = a.days;
  o.nodes = c.nodes;
  o.workers = c.workers;
  o.seed = c.seed;
  o.mix = was_given(a, "--rate") ? mix.at_rate(a.rate) : std::move(mix);
  o.as = a.as;
  if (was_given(a, "--detect-s")) o.detect_s = a.detect_s;
  if (was_given(a, "--restart-s")) o.restart_s = a.restart_s;
  if (was_given(a, "--steps-lost")) o.steps_lost = a.steps_lost;
  o.checkpoint_every =
      c.checkpoint_every.value_or(static_cast<uint64_t>(sim::assumed::checkpoint_every.value));
  if (a.as != "ours") return o;
  o.spares = was_given(a, "--spares") ? a.spares : spares_asked_for(o);
  o.copies =
      was_given(a, "--copies") ? a.copies : static_cast<uint64_t>(sim::assumed::copies_every.value);
  o.heads = static_cast<int>(sim::assumed::heads.value);
  o.planned = a.planned;
  return o;
}

sim::day_outcome simulate(const sim::day_options& o, const sim::protocol_times& protocol) {
  const auto schedule =
      sim::draw_schedule(o.mix, o.nodes, static_cast<int64_t>(o.days * 86'400e9), o.seed);
  const auto times = sim::times_of(o, protocol);
  return sim::simulate_days(o, times, schedule);
}

/// Keys of the job's configuration, and what is planned.
template <class Row>
void vary_keys(Row row) {
  row("recovery.stuck_after_s = 0", [](auto& o) { o.recovery.stuck_after_s = 0; });
  row("recovery.fewer_replicas = false", [](auto& o) { o.recovery.fewer_replicas = false; });
  row("recovery.return_s = 300", [](auto& o) { o.recovery.return_s = 300; });
  row("recovery.evict_slow = true", [](auto& o) { o.recovery.evict_slow = true; });
  row("health.digest_every = 0", [](auto& o) { o.health.digest_every = 0; });
  row("health.recheck_every = 0", [](auto& o) { o.health.recheck_every = 0; });
  row("one head", [](auto& o) { o.heads = 1; });
  row("with what is planned", [](auto& o) { o.planned = true; });
}

/// One thing is varied, the others stay.
std::vector<sensitivity_row> vary(const days_told& told) {
  std::vector<sensitivity_row> out;
  const auto row = [&](std::string what, auto change) {
    auto o = told.options;
    change(o);
    const auto done = simulate(o, told.protocol);
    out.push_back({std::move(what), done.effective(), unaided_of(done)});
  };
  row("as asked for", [](auto&) {});
  for (const uint64_t every : {1, 10, 50, 100, 300})
    row(fmt::format("checkpoint every {}, no copies", counted(every, "step")), [&](auto& o) {
      o.checkpoint_every = every;
      o.copies = 0;
    });
  for (const uint64_t every : {1, 5, 20})
    row("copy every " + counted(every, "step"), [&](auto& o) { o.copies = every; });
  for (const int spares : {0, 1, 2, 4, 8, 32})
    row(counted(spares, "spare"), [&](auto& o) { o.spares = spares; });
  for (const double detect_s : {1, 10, 60, 600})
    row(fmt::format("each fault is noticed after {} s", detect_s),
        [&](auto& o) { o.detect_s = detect_s; });
  vary_keys(row);
  return out;
}

std::string sensitivity_text(const std::vector<sensitivity_row>& rows) {
  std::vector<std::vector<std::string>> table = {{"varied", "effective", "unaided"}};
  for (const auto& r : rows)
    table.push_back({r.what, fmt::format("{:.2f} %", 100 * r.effective),
                     fmt::format("{:.1f} %", 100 * r.unaided)});
  return "\n" + trace::table_text(std::move(table), 0);
}

}  // namespace

argument* add_days(command* verb, days_arguments& a) {
  auto* days =
      verb->add_option("--days", a.days, "A large cluster over so many days, event by event");
  add(verb, a, "--mix", a.mix, "Faults: llama3, byterobust, or a FILE.csv");
  add(verb, a, "--rate", a.rate, "Faults per 1,000 node-days, in place of the mix's own");
  add(verb, a, "--as", a.as, "Whose times: ours, megascale or ft-hsdp");
  add(verb, a, "--detect-s", a.detect_s, "Seconds until a fault is noticed, whatever it is");
  add(verb, a, "--restart-s", a.restart_s, "Seconds from its name to the next step");
  add(verb, a, "--steps-lost", a.steps_lost, "Steps that are made again after each");
  add(verb, a, "--spares", a.spares, "Spare nodes; else as many as `troupe plan` asks for");
  add(verb, a, "--copies", a.copies, "Steps between copies in memory (1; 0: none are taken)");
  add(verb, a, "--measure-nodes", a.measure_nodes, "Nodes that the protocol is measured on");
  add(verb, a, "--svg", a.svg, "Draw effective time and incidents into this file");
  a.given.emplace_back("--planned", verb->add_flag("--planned", a.planned,
                                                   "With what the product does not have yet"));
  a.given.emplace_back("--sensitivity", verb->add_flag("--sensitivity", a.sensitivity,
                                                       "Also what intervals, spares and "
                                                       "detection change"));
  return days;
}

std::string days_option_given(const days_arguments& a) {
  for (const auto& [name, argument] : a.given)
    if (argument->count() > 0) return name;
  return {};
}

result<int> run_days(const days_arguments& a, const days_cluster& c) {
  const auto begun = std::chrono::steady_clock::now();
  days_told told;
  TROUPE_TRY(options, options_of(a, c));
  told.options = std::move(options);
  told.spares_by_plan = a.as == "ours" && !was_given(a, "--spares");
  if (a.as == "ours") {
    const int nodes =
        a.measure_nodes > 0 ? a.measure_nodes : std::min(c.nodes, days_arguments::measured_nodes);
    TROUPE_TRY(protocol, sim::measure_protocol(nodes, c.workers, c.seed));
    told.protocol = protocol;
  }
  told.times = sim::times_of(told.options, told.protocol);
  told.outcome = simulate(told.options, told.protocol);
  const auto rows = a.sensitivity ? vary(told) : std::vector<sensitivity_row>();
  told.sim_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  if (!a.svg.empty()) TROUPE_CHECK(io::write_atomic(a.svg, days_svg(told)));
  if (c.json) {
    TROUPE_CHECK(print(days_json(told, rows) + "\n"));
  } else {
    TROUPE_CHECK(print(days_text(told) + (rows.empty() ? "" : sensitivity_text(rows))));
  }
  return 0;
}

}  // namespace troupe::apps
