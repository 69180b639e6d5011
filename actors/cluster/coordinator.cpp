// From an empty cluster to a run, and back.
#include "actors/cluster/coordinator.hpp"

#include <unistd.h>
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/base/blocking.hpp"
#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "actors/base/hardware.hpp"
#include "actors/checkpoint/committer.hpp"
#include "actors/checkpoint/replicator.hpp"
#include "actors/cluster/coordinating.hpp"
#include "actors/cluster/node.hpp"
#include "actors/train/run.hpp"
#include "actors/train/swap_ranks.hpp"
#include "io/config/load.hpp"
#include "messages/text.hpp"

namespace troupe::cluster {

namespace coordinating {

message_context context(coordinator_pointer self) {
  return context_of(*self, self->state.record.epoch);
}

void say(coordinator_pointer self, std::string text, fbs::NoticeLevel level) {
  self->send(self->state.record.reporter, make_msg<fbs::Notice>(context(self), [&](auto& n) {
               n.level = level;
               n.text = std::move(text);
             }));
}

void give_up(coordinator_pointer self, const error& why) {
  self->send(self->state.record.run,
             make_msg<fbs::AdmissionFailed>(context(self), [&](auto& f) { put_error(why, f); }));
}

/// The gateway may ask the process's observer from now on (CRD-4); told again once it has ranks.
void let_observe(coordinator_pointer self, const member& who, std::string ranks) {
  auto& st = self->state;
  if (!st.record.gateway || !who.observer) return;
  self->send(st.record.gateway,
             make_msg<fbs::Observe>(context(self),
                                    [&](auto& o) {
                                      o.node = who.name;
                                      o.host = who.hello.host;
                                      o.pid = who.hello.pid;
                                      o.process = who.hello.process;
                                      o.ranks = std::move(ranks);
                                    }),
             who.observer);
}

bool has_launcher(const coordinator_state& st) {
  return st.record.plan.job.cluster.launch != config::launch_mode::external;
}

member* member_named(coordinator_state& st, std::string_view name) {
  const auto it = std::find_if(st.members.begin(), st.members.end(),
                               [&](const auto& m) { return m.second.name == name; });
  return it == st.members.end() ? nullptr : &it->second;
}

bool is_there(const coordinator_state& st, uint32_t node) {
  const auto it = st.members.find(node);
  return it != st.members.end() && !it->second.gone;
}

/// CRD-3.
void quit_when_alone(coordinator_pointer self) {
  auto& st = self->state;
  const bool alone = std::all_of(st.members.begin(), st.members.end(),
                                 [](const auto& m) { return m.second.gone; });
  const auto since_ns = now_ns(*self) - st.ended_ns;
  if (!st.ended || (!alone && since_ns < ns_of(defaults::nodes_leave))) return;
  if (st.heads_to_hear) return;  // CAF drops what it has not sent at its end
  self->send_exit(st.record.run, caf::exit_reason::user_shutdown);
  if (st.record.replicator) self->send_exit(st.record.replicator, caf::exit_reason::user_shutdown);
  self->send_exit(st.record.committer, caf::exit_reason::user_shutdown);
  self->quit();
}

}  // namespace coordinating

using namespace coordinating;

namespace {

/// CRD-2, CRD-3.
void end(coordinator_pointer self, const msg<fbs::RunEnded>& m) {
  auto& st = self->state;
  if (std::exchange(st.ended, true)) return;
  st.ended_ns = now_ns(*self);
  show(self);
  self->send(st.record.reporter, m);
  tell_heads(self, text_of(m->message()));
  for (auto& [index, who] : st.members)
    if (who.handle && !who.gone)
      self->send(who.handle, make_msg<fbs::Shutdown>(context(self), [&](auto& s) {
                   s.reason = m->message() ? m->message()->str() : "";
                   s.graceful = true;
                 }));
  quit_when_alone(self);
}

/// The run and what it saves with; it begins once it is told of its crew.
void make_run_and_tiers(coordinator_pointer self) {
  auto& r = self->state.record;
  const auto storage = self->state.storage;
  if (!r.committer) r.committer = spawn_blocking(self, checkpoint::committer, r, storage);
  note_spawned("committer", r.committer);
  if (r.plan.job.checkpoint.second.dir.empty())
    r.replicator = replicator_actor{};
  else if (!r.replicator)
    r.replicator = spawn_blocking(self, checkpoint::replicator, r, storage);
  if (r.replicator) note_spawned("replicator", r.replicator);
  if (!r.run) {
    auto of_run = r;
    of_run.coordinator = self;
    r.run = self->spawn(train::run, std::move(of_run));
  }
  note_spawned("run", r.run);
  self->monitor(r.run);
  if (r.elector) self->monitor(r.elector);
  if (r.pacer) self->monitor(r.pacer);
}

// -- members ------------------------------------------------------------------------------------

void let_observe_head(coordinator_pointer self) {
  member head;
  head.name = "head";
  head.hello.host = hardware_facts().hostname;
  head.hello.pid = static_cast<uint32_t>(getpid());
  head.hello.process = process_tag();
  head.observer = caf::actor_cast<caf::strong_actor_ptr>(self->state.record.observer);
  let_observe(self, head, "");
}

/// Its row of the status, in the order in which nodes joined first.
fbs::NodeUsageT& usage_of(coordinator_state& st, fbs::CoordinatorStatusT& s, uint32_t node) {
  const auto [it, fresh] = st.rows.emplace(node, s.nodes.size());
  if (fresh) s.nodes.push_back(std::make_unique<fbs::NodeUsageT>());
  return *s.nodes[it->second];
}

/// CRD-16, then as the membership has it.
result<uint32_t> admit(coordinator_state& st, const fbs::HelloT& hello) {
  const bool has_lived = hello.epoch > 0 && hello.epoch <= st.record.epoch;
  const bool of_lost_head = goes_on(st) && hello.epoch < st.first_epoch;
  const bool comes_back =
      !st.record.plan.job.cluster.heads.empty() && hello.epoch < st.record.epoch;
  if (has_lived && !of_lost_head && !comes_back) {
    st.membership->note_refused();
    return left_the_cluster(hello.node);
  }
  return st.membership->admit({hello.node, hello.schema_hash, hello.program_version,
                               hello.hardware ? hello.hardware->instance_id : "", hello.epoch});
}

caf::result<msg<fbs::Welcome>> join(coordinator_pointer self, const msg<fbs::Hello>& m,
                                    const caf::strong_actor_ptr& handle,
                                    const caf::strong_actor_ptr& observer) {
  auto& st = self->state;
  auto hello = m.unpack();
  if (st.ended || !handle) return to_caf(cluster_ends());
  if (st.evictions.is_evicted(hello.node)) {  // CRD-12
    const auto why = node_evicted(hello.node, st.evictions.why(hello.node));
    st.membership->note_refused();
    say(self, fmt::format("refused a node: {}", why.message), fbs::NoticeLevel::warning);
    return to_caf(why);
  }
  auto node = admit(st, hello);
  if (!node) {
    say(self, fmt::format("refused a node: {}", node.error().message), fbs::NoticeLevel::warning);
    return to_caf(node.error());
  }
  st.launches.joined(hello.node);
  st.unreachable.erase(hello.node);
  if (st.record.monitor) self->send(st.record.monitor, m);
  auto& who = st.members[*node];
  who = {};
  who.name = hello.node;
  st.liveness->left(who.name);
  who.handle = caf::actor_cast<node_actor>(handle);
  who.hello = std::move(hello);
  who.observer = observer;
  self->monitor(who.handle);
  st.liveness->heard(who.name, now_ns(*self));
  publish_values(self, [&](fbs::CoordinatorStatusT& s) {
    usage_of(st, s, *node) = {};
    usage_of(st, s, *node).node = who.name;
  });
  if (st.recovering && !st.assigning) {
    fill_places(self);
    grow_back(self);
  }
  st.may_grow = true;
  say_joined(self, who, !st.places.place_of(*node));
  warn_of_shared_name(self, who);
  let_observe(self, who, "");
  auto welcome = make_msg<fbs::Welcome>(context(self), [&](fbs::WelcomeT& w) {
    w.epoch = st.record.epoch;
    w.node_index = *node;
    w.config_toml = st.config_toml;
  });
  // The welcome must be on its way before the ranks are.
  if (may_assign(st)) self->delayed_send(self, std::chrono::milliseconds(0), caf::tick_atom_v);
  return welcome;
}

caf::result<msg<fbs::HeartbeatAck>> beat(coordinator_pointer self, const msg<fbs::Heartbeat>& m) {
  auto& st = self->state;
  const auto it = st.members.find(m->node_index());
  if (it == st.members.end()) return to_caf({errc::not_found, "no such node"});
  if (it->second.gone || it->second.handle.address() != self->current_sender())
    return to_caf(left_the_cluster(it->second.name));  // NOD-1 ends it
  st.liveness->heard(it->second.name, now_ns(*self));
  st.unreachable.erase(it->second.name);
  if (st.record.monitor) self->send(st.record.monitor, m);
  if (st.record.pacer) self->send(st.record.pacer, m);
  publish_values(self, [&](fbs::CoordinatorStatusT& s) {
    auto& usage = usage_of(st, s, it->first);
    usage.rss_bytes = m->rss_bytes();
    usage.cpu_s = m->cpu_seconds();
    usage.step = m->step();
  });
  return make_msg<fbs::HeartbeatAck>(context_of(*self, m.header()), [&](auto& a) {
    a.sequence = m->sequence();
    a.sent_ns = m->sent_ns();
    a.coordinator_ns = now_ns(*self);
  });
}

/// CRD-10, CRD-11: what becomes of a node that has no place is no event of the run.
void spare_lost(coordinator_pointer self, const std::string& name, const loss& what) {
  say(self, fmt::format("spare {} {}", name, what.how), fbs::NoticeLevel::warning);
  if (!self->state.evictions.is_evicted(name)) launch(self, name, what.how);
  show(self);
}

/// In a recovery, before ranks are given out: another spare, or the place waits for its node.
void lost_before_ranks(coordinator_pointer self, const std::string& name, const loss& what) {
  auto& st = self->state;
  st.returns.ended(name);
  fill_places(self);
  if (!st.evictions.is_evicted(name)) launch(self, name, what.how);
  show(self);
  if (may_assign(st)) self->delayed_send(self, std::chrono::milliseconds(0), caf::tick_atom_v);
}

}  // namespace

namespace coordinating {

void launch(coordinator_pointer self, const std::string& name, const std::string& how) {
  auto& st = self->state;
  const bool needed = has_place(st, name);
  if (!st.record.launcher) {
    st.launches.awaits(name);
    return say(self, fmt::format("waiting for node {} to join again{}", name,
                                 needed ? "" : ", as a spare"));
  }
  using verdict = launches_policy::verdict;
  const auto may = st.launches.order(name, needed, now_ns(*self));
  if (may == verdict::start)
    return self->send(st.record.launcher,
                      make_msg<fbs::Launch>(context(self), [&](auto& l) { l.node = name; }));
  const auto why = does_not_join(name, launches_policy::most_launches, how);
  if (needed && go_on_with_fewer(self, why.message)) return;
  if (needed) return give_up(self, why);
  if (may == verdict::used_up)
    say(self,
        fmt::format("spare {} was started {} times within an hour and ended each time: it is "
                    "tried again after that hour, or once a person says `replace {}`",
                    name, launches_policy::most_launches, name),
        fbs::NoticeLevel::warning);
}

/// CRD-10: told once. Where ranks are not given out yet, the epoch goes on without a word to the
/// run.
void node_lost(coordinator_pointer self, const std::string& name, const loss& what) {
  auto& st = self->state;
  st.membership->leave(name);
  if (st.ended) return;
  if (auto* who = member_named(st, name)) {
    who->broken_ns.reset();
    who->gone = true;
    st.fallen[name] = who->hello.pid;
    if (what.worded || !who->told) st.launches.ended(name, what.worded);
    if (std::exchange(who->told, true)) return;
    self->send_exit(who->handle, caf::exit_reason::user_shutdown);  // it may live, or wake up
  }
  if (!has_place(st, name)) return spare_lost(self, name, what);
  st.evictions.note_loss(name, now_ns(*self));
  if (st.recovering && !st.assigning) return lost_before_ranks(self, name, what);
  self->send(st.record.run, make_msg<fbs::NodeLost>(context(self), [&](auto& l) {
               l.node = name;
               l.how = what.how;
               l.finding = what.finding;
               l.silent_ns = static_cast<uint64_t>(what.silent_ns);
             }));
}

}  // namespace coordinating

namespace {

/// A process is over that never joined.
void ended_before_it_joined(coordinator_pointer self, const std::string& name, const loss& what) {
  auto& st = self->state;
  if (!st.ended && !has_place(st, name)) return spare_lost(self, name, what);
  if (!st.ended && st.recovering && !st.assigning) return lost_before_ranks(self, name, what);
  node_lost(self, name, what);
}

/// CRD-10.
void depart(coordinator_pointer self, const msg<fbs::Leave>& m) {
  auto& st = self->state;
  const auto name = text_of(m->node());
  if (!st.membership->index_of(name) || st.evictions.is_evicted(name)) return;
  const auto how = m->reason() ? m->reason()->str() : "left";
  const auto* who = member_named(st, name);
  const bool joined = who != nullptr && !who->gone;
  const auto fallen = st.fallen.find(name);
  const bool late = joined ? who->hello.pid != m->pid()
                           : fallen != st.fallen.end() && fallen->second == m->pid();
  if (m->pid() != 0 && late) return;
  const bool next = !joined && (who == nullptr || who->told);
  if (next && m->pid() == 0 && !st.launches.ended_unnamed(name, how, now_ns(*self))) return;
  const auto told = text_of(m->finding());
  const auto finding = told.empty() ? std::string("dead_process") : told;  // outlives `what`
  const auto silent_ns = std::min(m->silent_ns(), static_cast<uint64_t>(now_ns(*self)));
  const loss what{how, finding, static_cast<int64_t>(silent_ns), told.empty()};
  if (next) return ended_before_it_joined(self, name, what);
  node_lost(self, name, what);
}

/// CRD-20, CRD-21.
void hear_finding(coordinator_pointer self, const msg<fbs::FindingTold>& m) {
  const auto* told = m->finding();
  if (told == nullptr || m->gone()) return;
  const auto name = health::find_finding(text_of(told->name()));
  const auto node = text_of(told->node());
  if (name == health::finding_name::lost_host) self->state.unreachable.insert(node);
  if (name == health::finding_name::half_open_link)
    take_sick_out(self, node, text_of(told->text()));
}

void explain(coordinator_pointer self);

void await_word(coordinator_pointer self) {
  explain(self);
  if (!self->state.ended) self->delayed_send(self, defaults::launcher_word, caf::tick_atom_v);
}

void down(coordinator_pointer self, const caf::down_msg& m) {
  auto& st = self->state;
  const auto& r = st.record;
  const bool is_elector = r.elector && m.source == r.elector.address();
  const auto reason = from_caf(m.reason).message;
  const bool budgeted = r.plan.job.power.is_budgeted();
  // The run ends first: its end is told behind its last word.
  if (!st.ended && budgeted && r.pacer && m.source == r.pacer.address()) {
    st.pacer_ended = "its pacer has ended: " + reason;
    self->send_exit(r.run, caf::exit_reason::kill);
  }
  if (m.source == r.run.address() || is_elector) {
    const auto why = run_died(st.pacer_ended.value_or(reason));  // a bug also where it was killed
    end(self, make_msg<fbs::RunEnded>(context(self), [&](auto& e) { put_error(why, e); }));
  }
  for (auto& [index, who] : st.members)
    if (who.handle && m.source == who.handle.address()) {
      who.gone = true;
      st.liveness->link_lost(who.name);
      who.broken_ns = now_ns(*self);
      await_word(self);
    }
  quit_when_alone(self);
}

/// LAU-1, LAU-3.
void start_again(coordinator_pointer self) {
  auto& st = self->state;
  for (const auto& [name, how] : st.launches.late_ends(now_ns(*self)))
    if (!st.evictions.is_evicted(name))
      ended_before_it_joined(self, name, {how, "dead_process", 0, true});
  for (const auto& name : st.launches.due(now_ns(*self))) {
    const auto* who = member_named(st, name);
    const bool there = who != nullptr && !who->gone;
    if (!st.ended && !there && !st.evictions.is_evicted(name)) launch(self, name, "");
  }
}

/// CRD-8: an end that nobody explained within the time is told as it looks from here.
void explain(coordinator_pointer self) {
  auto& st = self->state;
  const auto patience = has_launcher(st) ? ns_of(defaults::launcher_word) : 0;
  for (auto& [index, who] : st.members)
    if (!st.ended && who.broken_ns && now_ns(*self) - *who.broken_ns >= patience)
      node_lost(self, who.name, {"is lost: its connection broke", "lost_host",
                                 now_ns(*self) - *who.broken_ns});
}

void start_missing(coordinator_pointer self);

/// CRD-15.
void start_those_that_stay_away(coordinator_pointer self) {
  auto& st = self->state;
  if (st.ended || !st.returns.stay_away(now_ns(*self))) return;
  fill_places(self);
  start_missing(self);
}

/// CRD-17. Before the run would end for want of them.
void do_without_those_that_stay_away(coordinator_pointer self) {
  auto& st = self->state;
  const auto& rules = st.record.plan.job.recovery;
  const auto patience_s = std::min(rules.return_s, rules.wait_s);
  const auto waited_ns = now_ns(*self) - st.started_ns;
  if (!st.recovering || st.assigning || waited_ns < patience_s * 1000 * ns_per_ms) return;
  const auto lost = lost_places(st);
  const bool awaited = std::any_of(lost.begin(), lost.end(), [&](uint32_t place) {
    return st.returns.awaits(st.membership->names()[st.places.node_of(place)]);
  });
  if (!lost.empty() && !awaited)
    go_on_with_fewer(self, fmt::format("{} did not come back within {} s", missing_from_places(st),
                                       patience_s));
}

}  // namespace

namespace coordinating {

void tick(coordinator_pointer self) {
  auto& st = self->state;
  explain(self);
  start_again(self);
  start_those_that_stay_away(self);
  remember(self);
  elect(self);
  do_without_those_that_stay_away(self);
  if (may_assign(st)) assign_ranks(self);
  ask_to_grow(self);
  const auto& job = st.record.plan.job;
  const auto patience_ms = st.recovering ? job.recovery.wait_s * 1000 : job.cluster.join_timeout_ms;
  if (!st.assigning && !st.ended && now_ns(*self) - st.started_ns > patience_ms * ns_per_ms)
    give_up(self, nodes_missing(patience_ms / 1000, missing_from_places(st),
                                st.recovering ? "recovery.wait_s" : "cluster.join_timeout_ms"));
  for (const auto& change : st.liveness->judge(now_ns(*self))) {
    if (change.state == liveness::suspect)
      say(self,
          fmt::format("node {} has been silent for {:.1f} s", change.node,
                      static_cast<double>(change.silent_ns) / 1e9),
          fbs::NoticeLevel::warning);
    const bool is_lost = st.unreachable.contains(change.node);
    if (change.state == liveness::dead && change.silent_ns > 0)
      node_lost(self, change.node,
                {fmt::format("has been silent for {:.1f} s{}",
                             static_cast<double>(change.silent_ns) / 1e9,
                             is_lost ? ", and its host makes no connection" : ""),
                 is_lost ? "lost_host" : "frozen_process", change.silent_ns});
  }
  quit_when_alone(self);
}

}  // namespace coordinating

namespace {

// -- epochs ---------------------------------------------------------------------------------------

/// Those that places wait for, and beside them the spares to be (CRD-11); of these, who is being
/// started already is left alone.
void start_missing(coordinator_pointer self) {
  auto& st = self->state;
  for (const auto& name : st.membership->missing()) {
    const bool needed = has_place(st, name);
    if (needed && st.evictions.is_evicted(name) && st.evictions.admit(name))  // CRD-12
      say(self, fmt::format("node {} is needed: no spare is left for its place", name),
          fbs::NoticeLevel::warning);
    if (st.evictions.is_evicted(name)) continue;
    if (needed) st.launches.forget(name);
    if (!st.launches.on_its_way(name)) launch(self, name, "");
  }
}

/// CRD-10: who is gone without a word until now needs none: the run begins anew.
void note_untold(coordinator_pointer self) {
  auto& st = self->state;
  for (auto& [index, who] : st.members) {
    if (!who.gone || std::exchange(who.told, true)) continue;
    const bool placed = has_place(st, who.name);
    st.fallen[who.name] = who.hello.pid;
    st.launches.ended(who.name, false);
    if (placed) st.evictions.note_loss(who.name, now_ns(*self));
    say(self, fmt::format("{} {} is lost, too: its connection broke", placed ? "node" : "spare",
                          who.name),
        fbs::NoticeLevel::warning);
  }
}

/// CRD-17: who is evicted will not come.
void do_without_evicted(coordinator_pointer self) {
  const auto& st = self->state;
  for (const auto place : lost_places(st)) {
    const auto& name = st.membership->names()[st.places.node_of(place)];
    if (!st.evictions.is_evicted(name)) continue;
    go_on_with_fewer(self, fmt::format("node {} {}", name, st.evictions.why(name)));
    return;
  }
}

/// CRD-10.
void renew(coordinator_pointer self, const msg<fbs::Recover>& m) {
  auto& st = self->state;
  if (st.ended || m.epoch() <= st.record.epoch) return;
  note_untold(self);
  const bool one_is_lost = !lost_places(st).empty() || !st.ordered_out.empty();
  fill_places(self);  // faults first
  take_out(self);
  if (!one_is_lost) let_leave(self);  // CRD-14
  self->live_in(m.epoch());
  st.record.epoch = m.epoch();
  st.membership->live_in(m.epoch());
  st.recovering = true;
  st.returns.give_up();
  st.assigning = st.ready = false;
  st.assigned = 0;
  st.stages.clear();
  st.started_ns = now_ns(*self);
  show(self);
  for (const auto& [index, who] : st.members)
    if (who.gone) {
      st.membership->leave(who.name);
      st.liveness->left(who.name);
    }
  std::erase_if(st.members, [](const auto& who) { return who.second.gone; });
  st.asked_to_grow_ns.reset();
  st.may_grow = true;
  grow_back(self);
  do_without_evicted(self);
  start_missing(self);
  suspend_once_elected(self);
}

// -- where others are -----------------------------------------------------------------------------

/// For another node, which wants to speak to it.
caf::result<msg<fbs::Ack>, caf::strong_actor_ptr> find_node(coordinator_pointer self,
                                                            const msg<fbs::FindNode>& m) {
  const auto name = text_of(m->node());
  const auto* who = member_named(self->state, name);
  if (who == nullptr || who->gone) return to_caf(node_not_here(name));
  return {make_msg<fbs::Ack>(context_of(*self, m.header())),
          caf::actor_cast<caf::strong_actor_ptr>(who->handle)};
}

}  // namespace

coordinator_actor::behavior_type coordinator(coordinator_pointer self, train::spawn_record record,
                                             io::storage* storage) {
  guard_mailbox(self);
  introduce(self, "coordinator", record.epoch);
  note_spawn_record(record);
  auto& st = self->state;
  st.record = std::move(record);
  st.storage = storage;
  const auto& job = st.record.plan.job;
  self->set_timeouts(call_timeouts(job));
  st.membership.emplace(names_by_index(st), own_schema_hash(), own_version(), st.record.epoch,
                        job.cluster.launch == config::launch_mode::external &&
                            job.cluster.heads.empty());  // voters are known by name
  st.first_epoch = st.record.epoch;
  st.places = places_policy(static_cast<size_t>(job.cluster.places()));
  st.whole = st.record.plan;
  st.replicas = job.parallel.data;
  st.replica_counts = train::replica_counts_that_fit(st.whole);
  st.recovering = goes_on(st);
  if (st.recovering) st.returns = {now_ns(*self), ns_of(defaults::rejoin_patience)};
  st.liveness.emplace(job.cluster.suspect_after_ms * ns_per_ms,
                      job.cluster.dead_after_ms * ns_per_ms, job.health.detector);
  st.config_toml = config::to_toml(job);
  make_run_and_tiers(self);  // who know the whole job
  if (st.record.cluster) recall(self, *st.record.cluster);
  let_observe_head(self);
  st.started_ns = now_ns(*self);
  show(self);
  self->set_down_handler([self](const caf::down_msg& m) { down(self, m); });
  const auto pulse =
      std::chrono::milliseconds(std::max<int64_t>(10, job.cluster.heartbeat_interval_ms / 2));
  self->delayed_send(self, pulse, caf::ping_atom_v);
  return {
      status_handler(self),
      [self](const msg<fbs::Hello>& m, const caf::strong_actor_ptr& handle,
             const caf::strong_actor_ptr& observer) {
        auto answer = join(self, m, handle, observer);
        show(self);
        return answer;
      },
      [self](const msg<fbs::FindGateway>& m) { return find_gateway(self, m); },
      [self](const msg<fbs::DrainNode>& m) { return drain(self, m); },
      [self](const msg<fbs::EvictNode>& m) { return evict(self, m); },
      [self](const msg<fbs::AdmitNode>& m) { return admit(self, m); },
      [self](const msg<fbs::ReplaceNode>& m) { return replace(self, m); },
      [self](const msg<fbs::SparesRequest>& m) { return list_spares(self, m); },
      [self](const msg<fbs::Heartbeat>& m) { return beat(self, m); },
      [self](const msg<fbs::Leave>& m) { depart(self, m); },
      [self](const msg<fbs::FindingTold>& m) { hear_finding(self, m); },
      [self](const msg<fbs::StopTraining>& m) { stop(self, m); },
      [self](const msg<fbs::RunEnded>& m) { end(self, m); },
      [self](const msg<fbs::Recover>& m) { renew(self, m); },
      [self](const msg<fbs::FindNode>& m) { return find_node(self, m); },
      [self](const msg<fbs::FindHead>& m, const caf::strong_actor_ptr& asker) {
        return find_head(self, m, asker);
      },
      [self](const msg<fbs::PromiseEpoch>& m) { return promise(self, m); },
      [self](const msg<fbs::HoldRecord>& m) { return hold(self, m); },
      [self](caf::tick_atom) { tick(self); },
      [self, pulse](caf::ping_atom) {
        tick(self);
        watch_ingress(self);
        self->delayed_send(self, pulse, caf::ping_atom_v);
      },
  };
}

}  // namespace troupe::cluster
