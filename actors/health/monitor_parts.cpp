// The monitor's part that looks at where ranks' steps went: see monitoring.hpp, blame_policy.hpp.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "actors/base/processes.hpp"
#include "actors/health/machine_values_policy.hpp"
#include "actors/health/monitoring.hpp"
#include "io/base/rank_grid.hpp"
#include "io/perf/machine_print.hpp"
#include "messages/operations.hpp"
#include "messages/rejection.hpp"
#include "messages/text.hpp"

namespace troupe::health::monitoring {

namespace {

/// A save that is being written takes processors and drives after the last copy, too.
fbs::StepOddity oddity_seen(const monitor_state& st, const fbs::StepDone& done,
                            const blame_policy::parts& parts) {
  return train::odder_of(st.saves ? fbs::StepOddity::beside_save : fbs::StepOddity::none,
                         train::oddity_of(parts, done.pace_of_1024()));
}

std::vector<blamed_place> places_of(const monitor_state& st) {
  std::vector<blamed_place> out;
  for (auto& node : nodes_of_ranks(st, st.blames.epoch())) {
    const auto kind = st.machine_kinds.find(node);
    out.push_back({node, kind == st.machine_kinds.end() ? "" : kind->second});
  }
  return out;
}

/// Names of what else is wrong with the node that could make it slow.
std::vector<std::string_view> slowing(const findings_policy& findings, const std::string& node) {
  std::vector<std::string_view> names;
  for (const auto& f : findings.standing()) {
    const bool slows = f.who.name == finding_name::cpu_starved ||
                       f.who.name == finding_name::memory_pressure ||
                       f.who.name == finding_name::device_hot;
    const auto name = facts_of(f.who.name).name;
    if (slows && !node.empty() && f.who.node == node && std::ranges::count(names, name) == 0)
      names.push_back(name);
  }
  return names;
}

/// "; 162 ms were expected, 151 to 173": by the predictor; or nothing.
std::string expected_of(const monitor_state& st, const blame& b) {
  const auto* doubt = st.doubts.of(st.blames.epoch(), b.rank, b.part, b.node);
  if (doubt == nullptr) return "";
  return fmt::format("; {} ms were expected, {} to {}", digits_of_ms(doubt->expected_ms),
                     digits_of_ms(doubt->least_ms), digits_of_ms(doubt->most_ms));
}

/// Nothing where no heartbeat has told of the machine.
std::optional<machine_values> machine_values_of(const monitor_state& st, const std::string& node) {
  const auto last = st.heard.find(node);
  if (last == st.heard.end()) return std::nullopt;
  return values_in(*last->second.said->vitals());
}

size_t ranks_told(const monitor_state& st, const std::string& node) {
  const auto last = st.heard.find(node);
  if (last == st.heard.end()) return 0;
  const auto* ranks = last->second.said->vitals()->ranks();
  return ranks != nullptr ? ranks->size() : 0;
}

/// Other nodes whose machines are of the same kind, of ranks of the same stage or of all.
std::set<std::string_view> peers_of(const rank_grid& grid, const blame& b,
                                    std::span<const blamed_place> places, bool of_stage) {
  constexpr size_t enough = 64;
  const auto& own = places[static_cast<size_t>(b.rank)];
  std::set<std::string_view> out;
  for (int rank = 0; rank < std::ssize(places) && out.size() < enough; ++rank) {
    const auto& place = places[static_cast<size_t>(rank)];
    const bool is_peer =
        !of_stage || grid.place_of(rank).pipeline == grid.place_of(b.rank).pipeline;
    if (is_peer && place.kind == own.kind && place.node != own.node) out.insert(place.node);
  }
  return out;
}

/// "its GPU runs at 1,410 MHz, the others at 1,980": beside machines of its kind, those of its
/// stage where there are such; or nothing.
std::string apart_of(const monitor_state& st, const blame& b, const machine_values& own,
                     std::span<const blamed_place> places) {
  if (places[static_cast<size_t>(b.rank)].kind.empty()) return "";
  const auto grid = st.options.job.grid();
  auto peers = peers_of(grid, b, places, true);
  if (peers.empty()) peers = peers_of(grid, b, places, false);
  std::vector<machine_values> others;
  for (const auto node : peers)
    if (const auto its = machine_values_of(st, std::string(node))) others.push_back(*its);
  return differing_values(own, others);
}

/// The same, and what of a node that never was as it should be needs no other machine to be wrong.
std::string differs_of(const monitor_state& st, const blame& b,
                       std::span<const blamed_place> places) {
  const bool is_of_node = b.cause == blame_cause::slow || b.cause == blame_cause::misconfigured;
  if (!is_of_node || b.rank < 0 || b.rank >= std::ssize(places) || b.node.empty()) return "";
  const auto own = machine_values_of(st, b.node);
  if (!own) return "";
  auto apart = apart_of(st, b, *own, places);
  if (b.cause != blame_cause::misconfigured) return apart;
  const auto crowded = crowded_threads(*own, ranks_told(st, b.node));
  return apart + (apart.empty() || crowded.empty() ? "" : "; ") + crowded;
}

/// "slow: backward takes 198 ms a step, 161 +- 4 until step 4210 (device_hot); its GPU runs at
/// 1,410 MHz, the others at 1,980; 162 ms were expected, 151 to 173"
evidence shown_of(const monitor_state& st, const blame& b, std::span<const blamed_place> places) {
  const bool never = b.cause == blame_cause::misconfigured;
  const auto differs = differs_of(st, b, places);
  return {100 * b.off, static_cast<double>(st.options.job.predict.suspect_percent), "%",
          fmt::format("{}: {} takes {} ms a step, {} +- {}{}{}{}{}{}", to_string(b.cause),
                      train::facts_of(b.part).name, digits_of_ms(b.now_ms),
                      digits_of_ms(b.normal_ms), digits_of_ms(b.spread_ms),
                      never               ? std::string(" on its peers")
                      : b.since_step == 0 ? std::string(" before")
                                          : fmt::format(" until step {}", b.since_step - 1),
                      why_slow(st.findings, b.node), differs.empty() ? "" : "; ", differs,
                      expected_of(st, b))};
}

using beyond_parts = std::vector<doubts_policy::beyond_part>;

/// Of the parts that take longer than in any earlier run, whose that is: where most ranks' do, it
/// is the job, and nobody's. Of very many not all are told of.
blame_cause cause_of(const doubts_policy::beyond_part& b, const beyond_parts& all, int64_t ranks) {
  if (b.is.by_probes) return blame_cause::misconfigured;
  constexpr int64_t enough_ranks = 32;
  const auto alike = std::ranges::count_if(
      all, [&](const auto& other) { return other.is.by_past && other.part == b.part; });
  const bool is_of_most = ranks > 1 && 2 * alike > std::min(ranks, enough_ranks);
  return is_of_most ? blame_cause::job : blame_cause::slow;
}

/// "misconfigured: backward takes 900 ms a step, at most 240 by what its node was probed to do
/// (cpu_starved); its processors run at 1,200 MHz, the others at 3,100"
evidence shown_beyond(const monitor_state& st, const doubts_policy::beyond_part& b,
                      blame_cause cause, std::span<const blamed_place> places) {
  blame as;
  as.cause = cause;
  as.node = cause == blame_cause::job ? "" : b.is.node;
  as.rank = static_cast<int>(b.rank);
  as.part = b.part;
  const auto differs = differs_of(st, as, places);
  const auto by = b.is.by_probes ? std::string("what its node was probed to do")
                                 : fmt::format("{} earlier runs of the same work there", b.is.runs);
  return {
      b.is.seen_ms, b.is.most_ms, "ms",
      fmt::format("{}: {} takes {} ms a step{}, at most {} by {}{}{}{}", to_string(cause),
                  train::facts_of(b.part).name, digits_of_ms(b.is.seen_ms),
                  cause == blame_cause::job ? fmt::format(" on rank {} as on most", b.rank) : "",
                  digits_of_ms(b.is.most_ms), by, why_slow(st.findings, as.node),
                  differs.empty() ? "" : "; ", differs)};
}

/// Of a whole step: who has a part far beyond what its own node was probed to do, or ever took in
/// earlier runs, and no finding by the parts of others or by its own before (MON-11).
void find_beyond(monitor_state& st, std::set<subject>& standing, int64_t now) {
  if (!st.doubts.has_beyond(st.blames.epoch())) return;
  const auto places = places_of(st);
  std::vector<std::string> nodes;
  for (const auto& p : places) nodes.push_back(p.node);
  const auto all = st.doubts.beyond(st.blames.epoch(), nodes);
  for (const auto& b : all) {
    if (standing.size() == straggler_policy::most_told) break;
    const auto cause = cause_of(b, all, std::ssize(places));
    const bool is_of_job = cause == blame_cause::job;
    const subject who{finding_name::slow_part, is_of_job ? "" : b.is.node,
                      is_of_job ? -1 : static_cast<int>(b.rank)};
    if (standing.insert(who).second)
      st.findings.holds(who, shown_beyond(st, b, cause, places), now);
  }
}

}  // namespace

std::vector<std::string> nodes_of_ranks(const monitor_state& st, uint32_t epoch) {
  std::vector<std::string> out(static_cast<size_t>(st.options.job.grid().ranks()));
  for (const auto& [node, last] : st.heard) {
    const auto* ranks = last.said->vitals()->ranks();
    if (last.said.epoch() != epoch || ranks == nullptr) continue;
    for (const auto* r : *ranks)
      if (r->rank() < out.size()) out[r->rank()] = node;
  }
  return out;
}

std::string why_slow(const findings_policy& findings, const std::string& node) {
  const auto names = slowing(findings, node);
  return names.empty() ? "" : fmt::format(" ({})", fmt::join(names, ", "));
}

std::string digits_of_ms(double ms) {
  return ms >= 100 ? fmt::format("{:.0f}", ms) : fmt::format("{:.3g}", ms);
}

void watch_parts(monitor_state& st) {
  const auto& job = st.options.job;
  blame_options o;
  o.suspect = static_cast<double>(job.predict.suspect_percent) / 100;
  o.quiet_steps = static_cast<size_t>(job.predict.quiet_steps);
  st.blames = blame_policy(o, job.grid());
  st.doubts = doubts_policy(job.grid().ranks());
}

void note_machine(monitor_state& st, const fbs::Hello& said) {
  const auto* h = said.hardware();
  if (h == nullptr || said.node() == nullptr) return;
  std::vector<std::string> gpus;
  if (h->gpus() != nullptr)
    for (const auto* gpu : *h->gpus()) gpus.push_back(text_of(gpu));
  const auto model = text_of(h->cpu_model()), node = text_of(said.node());
  // Of how much memory it has a part's time knows nothing; what of its processors a process may use
  // is what may be set up wrong.
  const auto cpus = std::max(h->machine_cpus(), h->cores());
  auto kind = io::perf::print_of({model, cpus, 0, gpus, {}}).kind;
  if (std::ranges::count(st.nodes, node) > 0) st.machine_kinds[node] = std::move(kind);
}

void put_parts(const monitor_state& st, fbs::FindingsT& out) {
  const auto places = places_of(st);
  const auto all = st.blames.look_at_all(places);
  const auto beyond = st.doubts.beyond(st.blames.epoch(), nodes_of_ranks(st, st.blames.epoch()));
  for (const auto& [b, suspected] : all.rows) {
    auto& to = *out.parts.emplace_back(std::make_unique<fbs::ExpectedPartT>());
    to.node = b.node;
    to.rank = b.rank;
    to.part = train::facts_of(b.part).name;
    to.expected_ms = b.normal_ms;
    to.spread_ms = b.spread_ms;
    to.seen_ms = b.now_ms;
    to.off_percent = 100 * b.off;
    const auto is_beyond = std::ranges::find_if(
        beyond, [&, &row = b](const auto& d) { return d.rank == row.rank && d.part == row.part; });
    if (!suspected && is_beyond == beyond.end()) continue;
    auto as = b;
    if (!suspected) as.cause = cause_of(*is_beyond, beyond, std::ssize(places));
    to.suspected = to_string(as.cause);
    if (suspected) to.since_step = b.since_step;
    const auto names = slowing(st.findings, b.node);
    to.beside.assign(names.begin(), names.end());
    to.differs = differs_of(st, as, places);
  }
  out.parts_left_out = static_cast<uint32_t>(all.left_out);
  out.quiet_steps = st.blames.quiet_steps();
  out.quiet_steps_needed = st.blames.quiet_steps_needed();
}

void hear_doubt(monitor_pointer self, const msg<fbs::Suspect>& m) {
  if (!is_told_by(self, "predictor"))
    return note_rejection(reject::forbidden, m.type(), "a suspect of another than the predictor");
  const auto* of = m->expected();
  const auto* facts = of != nullptr ? train::operation_named(text_of(of->part())) : nullptr;
  if (facts == nullptr) return;
  auto& doubts = self->state.doubts;
  if (m->gone())
    return doubts.gone(m.epoch(), m->rank(), facts->kind, of->by_probes(), m->by_past());
  doubts.hear(m.epoch(), m->rank(), facts->kind,
              {std::string(text_of(m->node())), of->mean_ms(), of->least_ms(), of->most_ms(),
               m->seen_ms(), of->by_probes(), m->by_past(), of->configurations()});
}

/// A whole job that is slower is step_regression's.
void hear_parts(monitor_pointer self, const msg<fbs::StepDone>& m) {
  auto& st = self->state;
  if (st.options.job.predict.suspect_percent == 0) return;
  auto parts = train::parts_of(m->parts());
  const auto oddity = oddity_seen(st, *m.get(), parts);
  const auto epoch = st.blames.epoch();
  const bool whole = st.blames.hear(m.epoch(), m->step(), m->rank(), std::move(parts), oddity);
  if (!whole && epoch == st.blames.epoch()) return;
  const auto now = now_ns(*self);
  std::set<subject> standing;
  const bool may_find = whole && st.blames.may_find();
  const auto places = may_find ? places_of(st) : std::vector<blamed_place>{};
  const auto found = may_find ? st.blames.found(places) : std::vector<blame>{};
  for (const auto& b : found) {
    if (standing.size() == straggler_policy::most_told) break;  // as of who is slow in all
    if (b.cause == blame_cause::job) continue;
    const subject who{finding_name::slow_part, b.node, b.rank};
    if (!standing.insert(who).second) continue;  // what is most off of it is told
    st.findings.holds(who, shown_of(st, b, places), now);
  }
  if (!self->runtime().registry.find("predictor")) st.doubts.drop_beyond();  // DBT-3
  if (whole) find_beyond(st, standing, now);
  st.findings.gone_but(
      finding_name::slow_part, [&](const subject& who) { return standing.contains(who); }, now);
}

}  // namespace troupe::health::monitoring
