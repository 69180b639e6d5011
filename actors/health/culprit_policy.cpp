// Culprits of the wait graph to names of findings.
#include "actors/health/culprit_policy.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "io/base/counted.hpp"

namespace troupe::health {

namespace {

using trace::culprit;
using trace::culprit_kind;
using trace::waiting_process;

/// 3 of "worker/3", "stage/3" and "swapper/3"; -1: it is none of a rank.
int rank_of(std::string_view path) {
  for (const std::string_view stem : {"worker/", "stage/", "swapper/"}) {
    if (!path.starts_with(stem)) continue;
    int rank = -1;
    const auto digits = path.substr(stem.size());
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    return fault == std::errc() && end == digits.data() + digits.size() ? rank : -1;
  }
  return -1;
}

double seconds(int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

/// What an actor is at; empty where it is not there.
std::string state_of(const waiting_process& p, const std::string& path) {
  for (const auto& a : p.actors)
    if (a.path == path) return a.state;
  return {};
}

finding silent(const waiting_process& p, const culprit& c) {
  return {{finding_name::frozen_process, p.node},
          {seconds(c.for_ns), 0, "s", "its process does not answer while no rank moves"}};
}

finding of_actor(const waiting_process& p, const culprit& c, double still_s, double allowed_s) {
  const auto path = c.actors.empty() ? std::string("?") : c.actors.front();
  const auto waiting = counted(c.waiters, "other waits", "others wait") + " for it";
  const auto make = [&](finding_name name, std::string node, std::string text) {
    return finding{{name, std::move(node), rank_of(path)},
                   {still_s, allowed_s, "s", std::move(text)}};
  };
  if (c.kind == culprit_kind::missing)
    return make(finding_name::dead_process, "", fmt::format("{} is not there", path));
  const bool of_drive = path.starts_with("swapper/");
  const bool of_device = of_drive || path.starts_with("worker/");
  if (c.kind == culprit_kind::busy)
    return make(of_device ? finding_name::stuck_device : finding_name::stuck_collective, p.node,
                fmt::format("{} has been handling one message for {:.1f} s, {}", path,
                            seconds(c.for_ns), waiting));
  const auto state = state_of(p, path);
  if (of_drive)
    return make(finding_name::stuck_device, p.node,
                fmt::format("its drive does not answer ({} of {}), {}", state, path, waiting));
  if (of_device && !state.empty() && state != "ready" && state != "empty")
    return make(finding_name::stuck_device, p.node,
                fmt::format("its {} does not end, {}", state, waiting));
  return make(finding_name::stuck_collective, p.node,
              fmt::format("{} waits for nobody, {}", path, waiting));
}

std::vector<trace::wait_edge>::const_iterator longest_of(
    const std::vector<trace::wait_edge>& cycle) {
  return std::max_element(cycle.begin(), cycle.end(),
                          [](const auto& a, const auto& b) { return a.for_ns < b.for_ns; });
}

/// A deadlock: the pair that has waited for each other the longest.
finding of_cycle(const std::vector<waiting_process>& cluster,
                 const std::vector<trace::wait_edge>& cycle, double still_s, double allowed_s) {
  const auto longest = longest_of(cycle);
  const auto path = [&](const trace::actor_place& at) {
    return cluster[at.process].actors[at.actor].path;
  };
  return {{finding_name::stuck_collective, cluster[longest->from.process].node,
           rank_of(path(longest->from)), rank_of(path(longest->to))},
          {still_s, allowed_s, "s",
           fmt::format("{} waits for {} of {}, which waits for it in turn", path(longest->from),
                       longest->what, path(longest->to))}};
}

void add_once(std::vector<std::string>& nodes, const std::string& node) {
  if (!node.empty() && std::find(nodes.begin(), nodes.end(), node) == nodes.end())
    nodes.push_back(node);
}

/// Of the ranks in other processes that wait for it directly, the longest wait first; then its own.
std::vector<std::string> nodes_around(const std::vector<waiting_process>& cluster,
                                      const trace::wait_report& report, const culprit& c) {
  std::vector<std::string> out;
  if (c.kind != culprit_kind::idle || c.actors.empty()) return out;
  const auto& path = [&](const trace::actor_place& at) -> const std::string& {
    return cluster[at.process].actors[at.actor].path;
  };
  for (const auto& e : report.edges)
    if (e.to.process == c.process && e.from.process != c.process &&
        path(e.to) == c.actors.front() && rank_of(path(e.from)) >= 0)
      add_once(out, cluster[e.from.process].node);
  if (!out.empty()) add_once(out, cluster[c.process].node);
  return out;
}

}  // namespace

std::vector<finding> culprits_of(const std::vector<waiting_process>& cluster,
                                 const trace::wait_report& report, double still_s,
                                 double allowed_s) {
  std::vector<finding> out;
  for (const auto& c : report.culprits)
    if (c.kind == culprit_kind::silent) out.push_back(silent(cluster[c.process], c));
  if (!out.empty()) return out;
  if (!report.culprits.empty()) {
    const auto& first = report.culprits.front();
    return {of_actor(cluster[first.process], first, still_s, allowed_s)};
  }
  if (!report.cycles.empty()) return {of_cycle(cluster, report.cycles.front(), still_s, allowed_s)};
  return {};
}

std::vector<std::string> nodes_of_links(const std::vector<trace::waiting_process>& cluster,
                                        const trace::wait_report& report) {
  if (!report.culprits.empty()) return nodes_around(cluster, report, report.culprits.front());
  std::vector<std::string> out;
  if (report.cycles.empty()) return out;
  const auto add = [&](const trace::actor_place& at) {
    const auto& p = cluster[at.process];
    if (rank_of(p.actors[at.actor].path) >= 0) add_once(out, p.node);
  };
  const auto& cycle = report.cycles.front();
  const auto longest = longest_of(cycle);
  for (auto from = longest; from != cycle.end(); ++from) add(from->from), add(from->to);
  for (auto from = cycle.begin(); from != longest; ++from) add(from->from), add(from->to);
  return out;
}

bool may_be_a_link(const finding& f) {
  return f.who.name == finding_name::stuck_collective;
}

}  // namespace troupe::health
