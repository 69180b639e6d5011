// Links that medics test: of nodes whose ranks wait for each other, and of nodes that come back.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/ranges.h>

#include "actors/health/checkup_policy.hpp"
#include "actors/health/culprit_policy.hpp"
#include "actors/health/finding_text.hpp"
#include "actors/health/group_policy.hpp"
#include "actors/health/medic.hpp"
#include "actors/health/monitoring.hpp"

namespace troupe::health::monitoring {

std::vector<std::string> evicted_nodes(monitor_pointer self) {
  const auto coordinator = self->runtime().registry.find("coordinator");
  const auto values = coordinator ? coordinator->values() : fbs::StatusValuesT{};
  return values.coordinator ? values.coordinator->evicted : std::vector<std::string>();
}

namespace {

/// Which tests: those of a circle of waits, or of a node that has come back.
using tests = link_policy monitor_state::*;

/// Nodes that can be asked, in the order of the job.
std::vector<std::string> nodes_that_answer(monitor_pointer self) {
  auto& st = self->state;
  auto unheard = evicted_nodes(self);
  for (const auto& s : st.progress.silent(now_ns(*self))) unheard.push_back(s.node);
  std::vector<std::string> out;
  const auto allowed_ns = st.options.job.cluster.suspect_after_ms * ns_per_ms;
  const auto is_heard = [&](const std::string& n) {  // of an ended epoch nobody counts as silent
    const auto it = st.heard.find(n);
    return it != st.heard.end() && now_ns(*self) - it->second.heard_ns <= allowed_ns;
  };
  for (const auto& n : st.nodes)
    if (is_heard(n) && std::ranges::count(unheard, n) == 0) out.push_back(n);
  return out;
}

/// What is slow beside other work says nothing (GRP-1).
bool has_other_work(const findings_policy& findings, const std::string& node) {
  return findings.stands({finding_name::cpu_starved, node});
}

finding half_open(const link_policy& links, const std::string& node) {
  const auto with = links.failed_with(node);
  return {{finding_name::half_open_link, node},
          {static_cast<double>(with.size()), 0, "pairs",
           fmt::format("no test between it and {} comes to an end, and others do",
                       fmt::join(with, ", or "))}};
}

void note_circle(monitor_pointer self) {
  auto& st = self->state;
  const auto& named = st.links.named();
  if (!named) return;
  const auto now = now_ns(*self);
  for (const auto& node : named->culprits) {
    const auto f = half_open(st.links, node);
    st.findings.holds(f.who, f.shown, now);
  }
  for (const auto& [one, other] : named->cut)
    st.findings.holds(
        {finding_name::cut_pair, one},
        {1, 0, "pairs",
         fmt::format("it and {} do not reach each other, and do well with others", other)},
        now);
}

/// RTN-1.
void tell_unclear(monitor_pointer self, const std::string& node) {
  self->send(self->state.options.reporter,
             make_msg<fbs::Notice>(context_of(*self, self->epoch()), [&](auto& n) {
               n.level = fbs::NoticeLevel::warning;
               n.text = fmt::format(
                   "whether the links of {} are well is not known since it came back: {} tests of "
                   "them said nothing",
                   node, returned_policy::most_tests);
             }));
}

/// MON-9.
void note_returned(monitor_pointer self) {
  auto& st = self->state;
  const auto& named = st.returned_links.named();
  if (!named) return;
  const auto node = st.returned.under_way();
  if (!st.returned.over(st.returned_links.is_clear_about(node), now_ns(*self)))
    tell_unclear(self, node);  // RTN-1
  if (std::ranges::count(named->culprits, node) == 0) return;
  const auto f = half_open(st.returned_links, node);
  st.findings.happened(f.who, f.shown, now_ns(*self));
  tell_coordinator(self, f);
}

/// What the coordinator says of a node that is not there (actors/cluster/coordinator.hpp).
constexpr std::string_view absent_node = "node_not_here";

/// Whether a failure is about the two: else a medic did something else (MED-7), or was not heard.
bool is_about_the_pair(const error& e) {
  return !e.is(not_heard) && !e.is(no_answer) && !e.is(exchange_under_way) &&
         !e.is(exchange_interrupted) && !e.is(nobody_waits) && !e.is(member_absent) &&
         e.kind != absent_node;
}

void test_links(monitor_pointer self, tests which);

void tested(monitor_pointer self, tests which, uint64_t time, const link_policy::pair& who,
            fbs::CheckVerdict verdict) {
  (self->state.*which).tell(time, who, verdict);
  test_links(self, which);
  which == &monitor_state::links ? note_circle(self) : note_returned(self);
}

/// Over the data plane, whose connections are others than those of messages.
void test_sums(monitor_pointer self, tests which, uint64_t time, const link_policy::pair& who) {
  constexpr uint32_t rounds = 4;
  const auto question =
      make_msg<fbs::TestGroup>(context_of(*self, self->epoch()), [&](fbs::TestGroupT& t) {
        t.nodes = names_of({who.first, who.second});
        t.rounds = rounds;
      });
  ask_medic<fbs::GroupReport>(
      self, who.first, question, fmt::format("sums of {} and {}", who.first, who.second),
      defaults::group_patience, [self, which, time, who](const result<fbs::GroupReportT>& r) {
        const auto& findings = self->state.findings;
        group_seen seen;
        seen.tried = !r && is_about_the_pair(r.error());
        if (r) seen = seen_in(*r);
        seen.busy = has_other_work(findings, who.first) || has_other_work(findings, who.second);
        tested(self, which, time, who, verdict_of(seen));
      });
}

/// By messages first: where those do not come through, no group can be asked for.
void test_pair(monitor_pointer self, tests which, uint64_t time, const link_policy::pair& who) {
  constexpr uint32_t exchanges = 8;
  const auto question =
      make_msg<fbs::TestPair>(context_of(*self, self->epoch()), [&](fbs::TestPairT& t) {
        t.peer = who.second;
        t.exchanges = exchanges;
      });
  ask_medic<fbs::PairReport>(
      self, who.first, question, fmt::format("bytes of {} and {}", who.first, who.second),
      defaults::pair_patience, [self, which, time, who](const result<fbs::PairReportT>& r) {
        if (r && r->wrong == 0) return test_sums(self, which, time, who);
        const bool bad = r || is_about_the_pair(r.error());
        tested(self, which, time, who, bad ? fbs::CheckVerdict::bad : fbs::CheckVerdict::unknown);
      });
}

void test_links(monitor_pointer self, tests which) {
  if (which == &monitor_state::returned_links && self->state.stands_still) return;  // RTN-2
  auto& links = self->state.*which;
  const auto time = links.time();
  for (const auto& pair : links.due()) test_pair(self, which, time, pair);
}

}  // namespace

void tell_coordinator(monitor_pointer self, const finding& f) {
  if (!self->state.coordinator) return;
  self->send(self->state.coordinator,
             make_msg<fbs::FindingTold>(context_of(*self, 0), [&](auto& t) {
               t.finding = std::make_unique<fbs::FindingT>(to_message(f));
             }));
}

void test_circle(monitor_pointer self, const std::vector<std::string>& circle) {
  self->state.links.stands_still(circle, nodes_that_answer(self));
  test_links(self, &monitor_state::links);
}

std::vector<std::string> meant_by(const monitor_state& st, const finding& f) {
  const auto& named = st.links.named();
  const bool by_tests = may_be_a_link(f) && named && !named->culprits.empty();
  return by_tests ? named->culprits : std::vector{f.who.node};
}

finding shown_of(const monitor_state& st, const finding& f, const std::string& node) {
  const auto& named = st.links.named();
  const auto is_cut = [&](const std::string& one) {
    return named && std::ranges::any_of(named->cut, [&](const auto& pair) {
             return pair.first == one && (pair.first == node || pair.second == node);
           });
  };
  for (const auto& other : st.findings.standing())
    if (other.who == subject{finding_name::half_open_link, node} ||
        (other.who.name == finding_name::cut_pair && is_cut(other.who.node)))
      return other;
  return f;
}

void look_at_returned(monitor_pointer self) {
  auto& st = self->state;
  test_links(self, &monitor_state::returned_links);  // those that waited until the job moved again
  std::map<std::string, int64_t> heard;
  for (const auto& n : nodes_that_answer(self)) heard[n] = st.heard.at(n).heard_ns;
  const auto node = st.returned.begin(heard, st.trains && !st.stands_still, now_ns(*self));
  if (!node) return;
  heard.erase(*node);
  std::vector<std::string> others;
  for (const auto& [name, when] : heard) others.push_back(name);
  st.returned_links.moves();  // what comes of earlier tests counts no more
  st.returned_links.stands_still({*node, others.front()}, others);
  test_links(self, &monitor_state::returned_links);
}

}  // namespace troupe::health::monitoring
