// Heartbeats to policies, what they find to whoever asks.
#include "actors/health/monitor.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "actors/health/check_text.hpp"
#include "actors/health/checkup_policy.hpp"
#include "actors/health/culprit_policy.hpp"
#include "actors/health/finding_text.hpp"
#include "actors/health/machine_policy.hpp"
#include "actors/health/monitoring.hpp"
#include "actors/health/rank_vitals.hpp"
#include "actors/health/slow_evictions_policy.hpp"
#include "messages/operations.hpp"
#include "messages/text.hpp"

namespace troupe::health {

using namespace monitoring;

namespace {

/// Findings that the wait graph makes: they go when the training moves.
constexpr finding_name of_graph[] = {finding_name::stuck_collective, finding_name::stuck_device,
                                     finding_name::dead_process};
/// Those that tests of pairs make meanwhile; they go with them.
constexpr finding_name of_links[] = {finding_name::half_open_link, finding_name::cut_pair};

// -- what is heard --------------------------------------------------------------------------------

std::vector<rank_progress> progress_in(const fbs::Vitals& v) {
  std::vector<rank_progress> out;
  if (v.ranks() == nullptr) return out;
  for (const auto* r : *v.ranks()) {
    if (out.size() == most_ranks_told) break;
    const auto op = static_cast<train::pipeline_op>(r->op());
    out.push_back({static_cast<int>(r->rank()), r->finished(), r->median_us() / 1e3,
                   op == train::pipeline_op::await_copies, r->braked()});
  }
  return out;
}

void hear(monitor_pointer self, const msg<fbs::Heartbeat>& m) {
  auto& st = self->state;
  if (m->node_index() >= st.nodes.size() || m->vitals() == nullptr) return;
  st.coordinator = caf::actor_cast<coordinator_actor>(self->current_sender());
  const auto& node = st.nodes[m->node_index()];
  const auto now = now_ns(*self);
  st.heard[node] = {m, now};
  st.progress.hear(node, m.epoch(), m->sequence(), progress_in(*m->vitals()), now);
  if (const auto* machine = m->vitals()->machine()) {
    judge_machine(node, *machine, now, st.findings);
    st.logs.hear(node, *machine, now, st.findings);
  }
}

void hear_of(monitor_pointer self, const msg<fbs::Hello>& m) {
  self->state.hosts.lives_at(text_of(m->node()), text_of(m->host()), m->port());
  note_machine(self->state, *m.get());
}

/// MON-5.
void hear_told(monitor_pointer self, const msg<fbs::FindingTold>& m) {
  const auto told = m.unpack();
  const auto what = told.finding ? finding_in(*told.finding) : std::nullopt;
  if (!what) return;
  auto& findings = self->state.findings;
  if (told.gone) return findings.gone(what->first, now_ns(*self));
  findings.holds(what->first, what->second, now_ns(*self));
}

/// Since the start, or the newest committed checkpoint: saves that are skipped or fail leave a run
/// that trains well.
void judge_checkpoints(monitor_pointer self, const fbs::RunStatusT& run) {
  constexpr uint64_t intervals = 3;
  auto& st = self->state;
  const auto every = static_cast<uint64_t>(st.options.job.checkpoint.every);
  if (!st.first_step) st.first_step = run.step;
  const auto since = std::max(*st.first_step, run.saved_step);
  const auto behind = run.step > since ? run.step - since : 0;
  const subject who{finding_name::checkpoint_behind};
  if (every == 0 || behind < intervals * every) return st.findings.gone(who, now_ns(*self));
  st.findings.holds(who,
                    {static_cast<double>(behind), static_cast<double>(every), "steps",
                     "steps since the newest committed checkpoint"},
                    now_ns(*self));
}

/// MON-3.
void look_at_run(monitor_pointer self) {
  const auto run = self->runtime().registry.find("run");
  if (!run) return;
  const auto view = run->view();
  auto& st = self->state;
  st.trains = view.state == stuck_policy::stepping;
  if (view.values.run) {
    st.saves = !view.values.run->saving.empty();
    st.step = view.values.run->step;
    judge_checkpoints(self, *view.values.run);
  }
  st.progress.run_is(view.state, st.step, now_ns(*self));
}

// -- who is slow ----------------------------------------------------------------------------------

evidence evidence_of(const monitor_state& st, const straggler& s,
                     const straggler_policy::verdict& of) {
  const double percent = 100 * s.cost_ms / of.step_ms;
  const auto whom = of.slow.size() > 1 ? fmt::format("all {} that are slow", of.slow.size())
                    : s.rank < 0       ? std::string("it")
                                       : fmt::format("rank {}", s.rank);
  return {percent, static_cast<double>(st.options.job.health.straggler_percent), "%",
          fmt::format("+{:.0f} % of the step, {}{}: {} ms a step, {} without {}", percent,
                      to_string(s.what), why_slow(st.findings, s.node), digits_of_ms(of.step_ms),
                      digits_of_ms(of.without_ms), whom)};
}

/// MON-1.
void tell_of_the_slow(monitor_pointer self, const straggler_policy::verdict& of) {
  auto& st = self->state;
  const auto slow = std::ranges::find_if(
      of.slow, [](const straggler& s) { return s.for_long && !s.node.empty(); });
  if (slow == of.slow.end() || !st.coordinator) return;
  const auto& known = self->runtime().registry;
  const auto run = known.find("run"), coordinator = known.find("coordinator");
  const auto of_run = run ? run->values() : fbs::StatusValuesT{};
  const auto of_cluster = coordinator ? coordinator->values() : fbs::StatusValuesT{};
  if (!of_run.run || !of_cluster.coordinator) return;
  std::vector<past_recovery> past;
  for (const auto& i : of_run.run->incidents) past.push_back({i->finding, i->ago_s});
  const auto& rules = st.options.job.recovery;
  if (!slow_evictions_policy::allows(rules, of_cluster.coordinator->spares, past)) return;
  self->send(st.coordinator, make_msg<fbs::Leave>(context_of(*self, 0), [&](auto& l) {
               l.node = slow->node;
               l.reason = fmt::format("takes {:.0f} % of each step ({})",
                                      100 * slow->cost_ms / of.step_ms, to_string(slow->what));
               l.finding = facts_of(finding_name::straggler).name;
             }));
}

void judge_window(monitor_pointer self, const step_window& window) {
  auto& st = self->state;
  const auto now = now_ns(*self);
  const auto found = st.stragglers.judge(window, nodes_of_ranks(st, window.epoch));
  std::set<subject> slow;
  for (const auto& s : found.slow) {
    const subject who{finding_name::straggler, s.node, s.rank};
    st.findings.holds(who, evidence_of(st, s, found), now);
    slow.insert(who);
  }
  st.findings.gone_but(
      finding_name::straggler, [&](const subject& who) { return slow.contains(who); }, now);
  const subject all{finding_name::step_regression};
  if (const auto longer = st.regression.judge(window))
    st.findings.holds(
        all,
        {longer->step_ms,
         longer->best_ms *
             (1 + static_cast<double>(st.options.job.health.regression_percent) / 100),
         "ms",
         fmt::format("steps take longer than the {} ms that they took in this epoch at best",
                     digits_of_ms(longer->best_ms))},
        now);
  else
    st.findings.gone(all, now);
  tell_of_the_slow(self, found);
}

void watch_ranks(monitor_state& st) {
  const auto& job = st.options.job;
  const auto part = [](int64_t percent) { return static_cast<double>(percent) / 100; };
  st.steps = step_windows_policy(job.health.window_s * 1000 * ns_per_ms,
                                 static_cast<size_t>(job.grid().ranks()));
  st.stragglers =
      straggler_policy(job.grid(), job.micro_batches(), part(job.health.straggler_percent));
  watch_parts(st);
}

/// An epoch may have fewer replicas than the job, or more than the one before; the run says so
/// before its first step.
void count_replicas(monitor_pointer self) {
  auto& st = self->state;
  const auto run = self->runtime().registry.find("run");
  const auto values = run ? run->values() : fbs::StatusValuesT{};
  auto& known = st.options.job.parallel.data;
  if (!values.run || values.run->replicas == 0 || values.run->replicas == known) return;
  known = values.run->replicas;
  watch_ranks(st);
}

/// What was slow in an epoch may have other ranks, or none, in the next one.
void hear_step(monitor_pointer self, const msg<fbs::StepDone>& m) {
  auto& st = self->state;
  if (m.epoch() != st.steps.epoch()) count_replicas(self);
  st.progress.step_done(m.epoch(), now_ns(*self));
  hear_parts(self, m);
  const auto before = st.steps.epoch();
  const auto window = st.steps.hear(rank_step_in(*m.get(), m.epoch()), now_ns(*self));
  if (window) return judge_window(self, *window);
  if (st.steps.epoch() == before) return;
  for (const auto name : {finding_name::straggler, finding_name::step_regression})
    st.findings.gone_but(
        name, [](const subject&) { return false; }, now_ns(*self));
}

// -- who is silent --------------------------------------------------------------------------------

/// MON-8. Who is silent, and no more than these.
void note_silences(monitor_pointer self, const std::vector<stuck_policy::silence>& silent,
                   bool stuck) {
  auto& st = self->state;
  const auto now = now_ns(*self);
  const auto lost = st.hosts.silent_now(silent, now);
  const auto allowed_ns = st.options.job.cluster.suspect_after_ms * ns_per_ms;
  for (const auto& n : silent)
    if (const auto f = st.hosts.finding_of(n, allowed_ns)) {
      st.findings.holds(f->who, f->shown, now);
      if (lost.contains(n.node)) tell_coordinator(self, *f);
    }
  const auto is_silent = [&](const subject& who) {
    return std::ranges::any_of(silent, [&](const auto& n) { return n.node == who.node; });
  };
  st.findings.gone_but(finding_name::lost_host, is_silent, now);
  st.findings.gone_but(
      finding_name::frozen_process,  // and whom the wait graph named, until something moves
      [&](const subject& who) { return (stuck && !st.hosts.judges(who.node)) || is_silent(who); },
      now);
}

// -- who holds up the others ----------------------------------------------------------------------

void take_answer(monitor_pointer self, const msg<fbs::ClusterView>& view) {
  auto& st = self->state;
  const auto now = now_ns(*self);
  const auto verdict = st.progress.judge(now);
  if (!verdict.stuck || now - verdict.still_ns > st.asked_ns) return;  // MON-2
  const auto cluster = trace::waits_of(*view.get());
  const auto report = trace::find_culprits(cluster, {});
  const auto found = culprits_of(cluster, report, static_cast<double>(verdict.still_ns) / 1e9,
                                 static_cast<double>(verdict.allowed_ns) / 1e9);
  for (const auto& f : found)
    if (f.who.name != finding_name::frozen_process || !st.hosts.judges(f.who.node))  // MON-8
      st.findings.holds(f.who, f.shown, now);
  if (found.empty()) return;
  test_circle(self, nodes_of_links(cluster, report));                               // MON-7
  const auto kept = trace::shortened(report, most_waits_kept, most_culprits_kept);  // MON-4
  st.evidence.named({trace::wait_text(cluster, report), trace::wait_json(cluster, kept),
                     trace::wait_dot(cluster, kept), st.asked_ns},
                    now);
}

void ask_who_waits(monitor_pointer self) {
  auto& st = self->state;
  st.asking = true;
  st.asked_ns = now_ns(*self);
  ++st.questions;
  ask_for<fbs::ClusterView>(
      self, st.options.gateway,
      make_msg<fbs::ListActors>(context_of(*self, self->epoch()), [](auto&) {}),
      {"gateway", "who waits for whom"},
      [self](const msg<fbs::ClusterView>& view) {
        self->state.asking = false;
        take_answer(self, view);
      },
      [self](const error&) { self->state.asking = false; });
}

// -- who is examined ------------------------------------------------------------------------------

void examined(monitor_pointer self, const subject& who, const result<fbs::CheckupReportT>& r) {
  auto& st = self->state;
  const auto text = r ? report_text(*r) : "unknown, since " + r.error().message;
  st.suspicions.over(who, text, now_ns(*self));
  const bool bad = r && verdict_of(*r) == fbs::CheckVerdict::bad;
  self->send(st.options.reporter,
             make_msg<fbs::Notice>(context_of(*self, self->epoch()), [&](auto& n) {
               n.level = bad ? fbs::NoticeLevel::warning : fbs::NoticeLevel::info;
               n.text = fmt::format("node {} {} ({}): {}", who.node,
                                    r ? "was examined" : "could not be examined",
                                    facts_of(who.name).name, text);
             }));
}

/// MON-6.
void examine(monitor_pointer self, const subject& who) {
  ask_medic<fbs::CheckupReport>(
      self, who.node, make_msg<fbs::RunCheckup>(context_of(*self, self->epoch())),
      fmt::format("the examination of {}", who.node), defaults::checkup_patience,
      [self, who](const result<fbs::CheckupReportT>& r) { examined(self, who, r); });
}

/// Whoever is accused, where it disturbs nobody.
void examine_suspects(monitor_pointer self, const findings_policy::changes& news, bool stuck,
                      const std::vector<stuck_policy::silence>& silent) {
  auto& st = self->state;
  if (!st.options.job.health.checkup_on_suspicion) return;
  const auto now = now_ns(*self);
  st.suspicions.raised(news.raised, now);
  suspicion_policy::surroundings around{st.trains && !stuck, st.saves};
  for (const auto& s : silent) around.unheard.insert(s.node);
  for (const auto& n : evicted_nodes(self)) around.unheard.insert(n);
  if (const auto who = st.suspicions.begin(around, now)) examine(self, *who);
}

// -- what is told ---------------------------------------------------------------------------------

/// With what an examination showed of its node (MON-6).
std::unique_ptr<fbs::FindingT> told(const monitor_state& st, const finding& f, int64_t now) {
  auto out = std::make_unique<fbs::FindingT>(to_message(f));
  out->doctor = st.suspicions.text_for(f.who, now);
  return out;
}

msg<fbs::Findings> answer(monitor_pointer self, const msg<fbs::FindingsRequest>& question) {
  auto& st = self->state;
  return make_msg<fbs::Findings>(context_of(*self, question.header()), [&](fbs::FindingsT& out) {
    for (const auto& f : st.findings.standing())
      out.findings.push_back(told(st, f, now_ns(*self)));
    out.now_ns = now_ns(*self);
    out.step = st.step;
    out.raised = st.findings.raised();
    if (question->parts()) put_parts(st, out);
  });
}

void put_findings(const monitor_state& st, int64_t now, fbs::EvidenceT& out) {
  for (const auto& f : st.findings.standing()) out.findings.push_back(told(st, f, now));
  for (const auto& [f, gone_ns] : st.evidence.lately(now)) {
    if (st.findings.stands(f.who)) continue;  // it came again
    out.findings.push_back(told(st, f, now));
    out.findings.back()->gone_ns = gone_ns;
  }
}

/// MON-4: whose fault it is first.
void put_vitals(const monitor_state& st, const std::string& culprit, fbs::EvidenceT& out) {
  const auto put = [&](const std::string& node, const monitor_state::last_word& last) {
    auto& said = *out.vitals.emplace_back(std::make_unique<fbs::NodeVitalsT>());
    said.node = node;
    said.heard_ns = last.heard_ns;
    said.vitals.reset(last.said->vitals()->UnPack());
  };
  if (const auto it = st.heard.find(culprit); it != st.heard.end()) put(it->first, it->second);
  for (const auto& [node, last] : st.heard) {
    if (node == culprit) continue;
    if (out.vitals.size() < most_vitals_kept)
      put(node, last);
    else
      ++out.vitals_left_out;
  }
}

/// What stands now goes where incidents are kept.
void prove(monitor_pointer self, const msg<fbs::IncidentReport>& m) {
  const auto* fault = m->incident();
  if (fault == nullptr) return;
  auto& st = self->state;
  const auto now = now_ns(*self);
  const auto over = find_finding(text_of(fault->finding()));
  if (over && fault->node() && fault->node()->size() > 0)
    st.returned.lost(fault->node()->str(), *over, now);  // MON-9
  self->send(st.options.reporter,
             make_msg<fbs::Evidence>(context_of(*self, m.header()), [&](fbs::EvidenceT& out) {
               out.incident.reset(fault->UnPack());
               out.now_ns = now;
               put_findings(st, now, out);
               put_vitals(st, text_of(fault->node()), out);
               if (const auto* graph = st.evidence.graph(now)) {
                 out.waits_text = graph->text;
                 out.waits_json = graph->json;
                 out.waits_dot = graph->dot;
                 out.waits_ns = graph->asked_ns;
               }
             }));
}

void tell(monitor_pointer self, const findings_policy::changes& news) {
  auto& st = self->state;
  for (const auto& f : news.raised)
    self->send(
        st.options.reporter, make_msg<fbs::Notice>(context_of(*self, self->epoch()), [&](auto& n) {
          n.level =
              f.matters() == severity::info ? fbs::NoticeLevel::info : fbs::NoticeLevel::warning;
          n.text = line_of(to_message(f));
        }));
  const auto standing = st.findings.standing();
  publish(self, standing.empty() ? "watching" : "finding", [&](fbs::MonitorStatusT& s) {
    s.findings.clear();
    for (const auto& f : standing)
      s.findings.push_back(line_of(*told(st, f, now_ns(*self))));
    s.examinations = st.suspicions.begun();
    s.raised = st.findings.raised();
    s.questions = st.questions;
  });
}

/// MON-1.
void tell_of_the_stuck(monitor_pointer self) {
  auto& st = self->state;
  const auto& rules = st.options.job.recovery;
  if (!rules.enabled || rules.stuck_after_s == 0 || !st.coordinator) return;
  std::set<std::string> hold_up;
  for (const auto& f : st.findings.standing()) {
    const auto for_s = (now_ns(*self) - f.since_ns) / 1'000'000'000;
    const bool by_graph =
        std::find(std::begin(of_graph), std::end(of_graph), f.who.name) != std::end(of_graph);
    if (!by_graph || !f.who.rule.empty() || f.who.node.empty()) continue;
    if (for_s < rules.stuck_after_s) continue;
    if (may_be_a_link(f) && st.links.is_open()) continue;  // MON-7
    for (const auto& node : meant_by(st, f)) {
      if (!hold_up.insert(node).second || st.told_of.contains(node)) continue;
      const auto shown = shown_of(st, f, node);
      st.returned.lost(node, shown.who.name, now_ns(*self));  // an incident names one of several
      self->send(st.coordinator, make_msg<fbs::Leave>(context_of(*self, 0), [&](auto& l) {
                   l.node = node;
                   l.reason =
                       fmt::format("holds up all others for {} s ({})", for_s, shown.shown.text);
                   l.finding = facts_of(shown.who.name).name;
                   l.silent_ns = static_cast<uint64_t>(st.progress.still_ns(now_ns(*self)));
                 }));
    }
  }
  st.told_of = std::move(hold_up);
}

/// Nothing is expected of a node that was taken out.
void forget_evicted(monitor_pointer self, std::vector<stuck_policy::silence>& silent) {
  const auto out = evicted_nodes(self);
  std::erase_if(silent, [&](const auto& s) {
    return std::find(out.begin(), out.end(), s.node) != out.end();
  });
}

/// What stood still moves.
void forget_the_stuck(monitor_state& st, int64_t now) {
  const auto none = [](const subject&) { return false; };
  for (const auto name : of_graph) st.findings.gone_but(name, none, now);
  for (const auto name : of_links) st.findings.gone_but(name, none, now);
  st.links.moves();
}

void look(monitor_pointer self) {
  auto& st = self->state;
  look_at_run(self);
  const auto now = now_ns(*self);
  const auto verdict = st.progress.judge(now);
  auto silent = st.progress.silent(now);
  forget_evicted(self, silent);
  if (!verdict.stuck) forget_the_stuck(st, now);
  note_silences(self, silent, verdict.stuck);
  st.stands_still = verdict.stuck;
  // MON-2, MON-7: medics have time for one test each.
  const bool may_ask = !st.asking && !st.links.is_open() && !st.returned_links.is_testing();
  if (verdict.stuck && may_ask && now - st.asked_ns >= ns_of(defaults::monitor_question_pause))
    ask_who_waits(self);
  if (verdict.stuck) st.evidence.still_stuck(now);
  const auto news = st.findings.judge(now);
  st.evidence.cleared(news.cleared, now);
  tell(self, news);
  examine_suspects(self, news, verdict.stuck, silent);
  look_at_returned(self);
  tell_of_the_stuck(self);
  self->delayed_send(self, defaults::monitor_period, caf::tick_atom_v);
}

}  // namespace

monitor_actor::behavior_type monitor(monitor_pointer self, monitor_options options) {
  guard_mailbox(self);
  introduce(self, "monitor", options.epoch);
  auto& st = self->state;
  st.options = std::move(options);
  assert(st.options.gateway);
  const auto& job = st.options.job;
  for (const auto& n : job.cluster.node) st.nodes.push_back(n.name);
  st.evidence = evidence_policy(ns_of(defaults::evidence_memory));
  st.logs = log_findings_policy(job.health.log_rule);
  st.suspicions = suspicion_policy(ns_of(defaults::suspicion_pause));
  st.returned = returned_policy(returned_policy::usual_pause_s * 1'000'000'000);
  const auto part = [](int64_t percent) { return static_cast<double>(percent) / 100; };
  watch_ranks(st);
  st.hosts = silent_hosts(st.options.ask_host, ns_of(defaults::host_patience));
  st.regression = regression_policy(part(job.health.regression_percent));
  st.progress = stuck_policy(job.health.stuck_after_s * 1000 * ns_per_ms,
                             job.cluster.suspect_after_ms * ns_per_ms,
                             job.timeouts.operation_s * 1000 * ns_per_ms);
  tell(self, {});
  self->delayed_send(self, defaults::monitor_period, caf::tick_atom_v);
  return {
      status_handler(self),
      [self](const msg<fbs::Hello>& m) { hear_of(self, m); },
      [self](const msg<fbs::Heartbeat>& m) { hear(self, m); },
      [self](const msg<fbs::FindingsRequest>& m) { return answer(self, m); },
      [self](const msg<fbs::IncidentReport>& m) { prove(self, m); },
      [self](const msg<fbs::FindingTold>& m) { hear_told(self, m); },
      [self](const msg<fbs::StepDone>& m) { hear_step(self, m); },
      [self](const msg<fbs::Suspect>& m) { hear_doubt(self, m); },
      [self](caf::tick_atom) { look(self); },
  };
}

}  // namespace troupe::health
