// Joining, beating, spawning, going.
#include "actors/cluster/node.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <caf/send.hpp>

#include "actors/base/ask.hpp"
#include "actors/base/blocking.hpp"
#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "actors/base/hardware.hpp"
#include "actors/base/processes.hpp"
#include "actors/cluster/coordinator.hpp"
#include "actors/cluster/network.hpp"
#include "actors/cluster/node_answers.hpp"
#include "actors/cluster/node_companions.hpp"
#include "actors/cluster/tls_links.hpp"
#include "actors/heads/voter.hpp"
#include "actors/health/checkup_policy.hpp"
#include "actors/health/log_rules_policy.hpp"
#include "actors/health/medic.hpp"
#include "actors/swap/swapper.hpp"
#include "actors/train/loader.hpp"
#include "actors/train/received_job.hpp"
#include "actors/train/stage.hpp"
#include "actors/train/worker.hpp"
#include "io/config/heads.hpp"

namespace troupe::cluster {

namespace {

void connect(node_pointer self);
void lose_coordinator(node_pointer self);
void end_ranks(node_pointer self);
void answer_if_quiet(node_pointer self);

caf::actor connector_of(node_pointer self) {
  const auto& o = self->state.options;
  return o.connector ? o.connector : connector(self->system());
}

void be(node_pointer self, fbs::NodeState state) {
  self->state.doing = state;
  publish(self, fbs::EnumNameNodeState(state), [&](fbs::NodeStatusT& s) {
    s.stages = static_cast<uint32_t>(self->state.stages.size());
    s.probe_s = self->state.probing.took_s;
  });
}

void end(node_pointer self, const error& why) {
  auto& st = self->state;
  if (std::exchange(st.over, true)) return;
  st.going.request_stop();
  st.examining.request_stop();
  be(self, fbs::NodeState::leaving);
  if (st.options.ended) st.options.ended(why);
  self->quit();
}

// -- joining ------------------------------------------------------------------------------------

void schedule_beat(node_pointer self) {
  const std::chrono::milliseconds interval(self->state.job->cluster.heartbeat_interval_ms);
  self->delayed_send(self, interval, caf::tick_atom_v);
}

void take_probed(node_pointer self);
uint64_t last_step(const node_state& st);

/// NOD-6.
void check_bits(node_pointer self, const medic_actor& medic) {
  auto& st = self->state;
  st.checking = true;
  const auto over = [self] {
    self->state.checking = false;
    if (self->state.assignment) take_probed(self);
  };
  auto m = make_msg<fbs::RunCheckup>(context_of(*self, self->epoch()),
                                     [](auto& c) { c.bits_only = true; });
  request_within(self, medic, defaults::join_checkup_patience, m)
      .then(
          [self, over](const msg<fbs::CheckupReport>& r) {
            if (self->state.over) return;
            if (const auto bad = bad_parts(r.unpack()); !bad.empty())
              return end(self, wrong_bits(self->state.options.name, bad));
            over();
          },
          [over](const caf::error& e) {
            spdlog::warn("this machine is not checked: {}", from_caf(e).message);
            over();
          });
}

// -- heads ----------------------------------------------------------------------------------------

bool has_heads(const node_state& st) {
  return st.job && !st.job->cluster.heads.empty();
}

/// NOD-9. Of what came from another process.
bool is_of_own_head(const node_state& st, const caf::node_id& process) {
  return !has_heads(st) || (st.coordinator && st.coordinator.node() == process);
}

/// Whether who asks now lives where its coordinator does.
bool asks_for_coordinator(node_pointer self) {
  return in_one_process(self->runtime(), self->current_sender(),
                        caf::actor_cast<caf::strong_actor_ptr>(self->state.coordinator));
}

bool asked_by_own_head(node_pointer self) {
  const auto& st = self->state;
  return !has_heads(st) || (st.coordinator && asks_for_coordinator(self));
}

msg<fbs::FindHead> question_for(node_pointer self) {
  const auto& st = self->state;
  return make_msg<fbs::FindHead>(context_of(*self, 0), [&](fbs::FindHeadT& f) {
    f.name = st.options.name;
    f.step = last_step(st);
  });
}

/// It has joined a head of several, whose elector may ask it for its vote from now on (NOD-8).
void follow(node_pointer self) {
  auto& st = self->state;
  const auto& cluster = st.job->cluster;
  if (cluster.heads.empty()) return;
  st.options.heads = cluster.heads;
  if (cluster.launch != config::launch_mode::external) return;
  if (!st.voter)
    st.voter = keep(self, "voter",
                    spawn_blocking(self, heads::voter,
                                   heads::voter_options{st.options.name, st.job->job.output,
                                                         &st.options.host->files()}));
  request(self, st.coordinator, question_for(self), caf::actor_cast<caf::strong_actor_ptr>(self))
      .then([](const msg<fbs::HeadFound>&) {}, [](const caf::error&) {});  // it is asked again
}

/// NOD-8.
template <class T>
auto by_voter(node_pointer self) {
  return [self](const msg<T>& m) -> caf::result<msg<fbs::Promised>> {
    auto& st = self->state;
    if (!st.voter) return to_caf(no_voter(st.options.name));
    if (st.coordinator && !asks_for_coordinator(self))
      return to_caf(has_head(st.options.name));
    auto rp = self->make_response_promise<msg<fbs::Promised>>();
    ask_for<fbs::Promised>(
        self, st.voter, m, {fmt::format("voter/{}", st.options.name), "a vote on the disk"},
        [self, rp](const msg<fbs::Promised>& vote) mutable {
          self->state.promised = std::max(self->state.promised, vote->epoch());
          rp.deliver(vote);
        },
        [rp](const error& e) mutable { rp.deliver(to_caf(e)); });
    return rp;
  };
}

void welcome(node_pointer self, const msg<fbs::Welcome>& m) {
  auto& st = self->state;
  auto job = train::received_job(m->config_toml());
  if (!job) return end(self, job.error());
  if (!(*job)->inject.empty() && !st.options.makes_drills)
    return end(self, makes_no_drills(st.options.name));
  st.job = std::move(*job);
  self->set_timeouts(call_timeouts(*st.job));
  self->live_in(m->epoch());
  st.index = m->node_index();
  st.answered_ns = now_ns(*self);
  const bool is_new = !std::exchange(st.rejoins, false);
  spdlog::log(is_new ? spdlog::level::debug : spdlog::level::info,
              "node {} joined epoch {} as number {}", st.options.name, m->epoch(), st.index);
  if (is_new) {
    st.meter = keep(self, "meter", make_meter(self, m->epoch()));
    st.vitals = keep(self, "vitals", make_vitals(self, m->epoch()));
  }
  be(self, fbs::NodeState::idle);
  follow(self);
  const auto medic = keep(self, "medic", make_medic(self, m->epoch()));
  if (medic && is_new && st.job->health.checkup_at_join) check_bits(self, medic);
  schedule_beat(self);
}

/// Whether a coordinator said no, in its own words, or the way to it broke.
bool is_refusal(const error& e) {
  return !e.kind.empty() && !e.is(no_answer);
}

void retry(node_pointer self, const error& why);

void say_hello(node_pointer self) {
  auto& st = self->state;
  auto m = make_msg<fbs::Hello>(context_of(*self, 0), [&](fbs::HelloT& h) {
    h.node = st.options.name;
    h.schema_hash = own_schema_hash();
    h.program_version = own_version();
    h.hardware = std::make_unique<fbs::HardwareFactsT>(st.options.host->facts());
    if (!st.options.accelerators.empty()) h.hardware->gpus = st.options.accelerators;
    h.pid = static_cast<uint32_t>(getpid());
    h.host = st.options.advertise;
    h.port = st.port;
    h.epoch = self->epoch();
    h.process = process_tag();
  });
  request(self, st.coordinator, m, caf::actor_cast<caf::strong_actor_ptr>(self),
          st.options.observer.lock())
      .then([self](const msg<fbs::Welcome>& w) { welcome(self, w); },
            [self](const caf::error& e) {
              const auto why = from_caf(e);
              const bool again = !is_refusal(why) || (has_heads(self->state) &&
                                                      why.is(left_the_cluster));  // NOD-7
              if (self->state.rejoins && again) return retry(self, why);
              end(self, why.within("the coordinator refused us"));
            });
}

/// Connections fail while the coordinator starts, or when a heartbeat tick falls into a handshake.
void retry(node_pointer self, const error& why) {
  auto& st = self->state;
  if (const auto before = std::exchange(st.coordinator, coordinator_actor{}))
    self->demonitor(before.address());
  const auto misplaced = why_not(st.options.coordinator_port);
  const bool too_long = now_ns(*self) - st.first_try_ns > st.try_for_ms * ns_per_ms;
  if (too_long && st.rejoins)
    return end(self, coordinator_lost().within(fmt::format(
                         "no other one came within {} s", st.job->recovery.head_grace_s)));
  if (too_long)
    return end(self,
               no_coordinator(
                   st.options.coordinator_host, st.options.coordinator_port,
                   misplaced.value_or(why.message),
                   misplaced ? "its certificate must name the host that is joined"
                             : "is `troupe up` running there, with the same key or certificates?"));
  self->delayed_send(self, defaults::connect_pause, caf::tick_atom_v);
}

/// NOD-7: a node that has ranks leaves them first.
void greet(node_pointer self) {
  auto& st = self->state;
  if (!st.rejoins) return say_hello(self);
  if (const auto lost = st.options.host->lost_device())  // NOD-4
    return end(self, device_lost(lost->message));
  st.greets = true;
  end_ranks(self);
  answer_if_quiet(self);
}

void join_head(node_pointer self, const coordinator_actor& head) {
  self->state.coordinator = head;
  self->monitor(head);
  greet(self);
}

/// Whether this head acts, where there are several; it knows the node as a voter then (NOD-7).
void seek(node_pointer self, const coordinator_actor& head) {
  auto& st = self->state;
  if (st.options.heads.size() < 2) return join_head(self, head);
  request(self, head, question_for(self), caf::actor_cast<caf::strong_actor_ptr>(self))
      .then(
          [self, head](const msg<fbs::HeadFound>& found) {
            if (self->state.over) return;
            if (found->open() && found->epoch() >= self->state.promised)
              return join_head(self, head);
            retry(self, {errc::unavailable, "the head there stands by"});
          },
          [self](const caf::error& e) { retry(self, from_caf(e)); });
}

void connect(node_pointer self) {
  auto& o = self->state.options;
  auto patience = defaults::connect_timeout;
  if (o.heads.size() > 1)
    if (const auto at = config::head_place_of(o.heads[self->state.head++ % o.heads.size()])) {
      o.coordinator_host = at->host;
      o.coordinator_port = at->port;
      patience = defaults::head_knock;
      expect_head(at->host, at->port);
    }
  expect_host(o.coordinator_host, o.coordinator_port);
  self->request(connector_of(self), patience, caf::connect_atom_v, o.coordinator_host,
                o.coordinator_port)
      .then(
          [self](const caf::node_id&, const caf::strong_actor_ptr& peer,
                 const std::set<std::string>&) {
            if (!peer) return retry(self, {errc::unavailable, "nothing is published there"});
            seek(self, caf::actor_cast<coordinator_actor>(peer));
          },
          [self](const caf::error& e) { retry(self, from_caf(e)); });
}

/// Other nodes reach this one at a port of its own; then it knocks at the coordinator.
void publish_self(node_pointer self) {
  auto& st = self->state;
  const node_actor me = self;
  self->request(connector_of(self), defaults::connect_timeout, caf::publish_atom_v, uint16_t{0},
                caf::actor_cast<caf::strong_actor_ptr>(me), self->system().message_types(me),
                st.options.advertise, true)
      .then(
          [self](uint16_t port) {
            self->state.port = port;
            connect(self);
          },
          [self](const caf::error& e) {
            end(self,
                from_caf(e).within(fmt::format("listen on {}", self->state.options.advertise)));
          });
}

// -- beating ------------------------------------------------------------------------------------

void answered(node_pointer self, const msg<fbs::HeartbeatAck>& a) {
  auto& st = self->state;
  st.answered_ns = now_ns(*self);
  st.clock.heard(a->sent_ns(), a->coordinator_ns(), st.answered_ns);
  if (const auto now = st.clock.at(st.answered_ns))
    self->runtime().set_clock({now->offset_ns, now->bound_ns});
}

/// The last training step that all of its ranks finished, as their all_stats say.
uint64_t last_step(const node_state& st) {
  std::optional<uint64_t> out;
  for (const auto& stage : st.stages)
    if (const auto* stats = stats_of(stage)) {
      const auto values = stats->values();
      const auto step = values.stage ? values.stage->step : 0;
      out = std::min(out.value_or(step), step);
    }
  return out.value_or(0);
}

void beat(node_pointer self) {
  auto& st = self->state;
  const int64_t silent_ms = (now_ns(*self) - st.answered_ns) / ns_per_ms;
  if (silent_ms > st.job->cluster.dead_after_ms) {  // NOD-1
    if (!has_heads(st)) return end(self, coordinator_silent(silent_ms));
    self->delayed_send(self, defaults::connect_pause, caf::tick_atom_v);
    return lose_coordinator(self);
  }
  const auto usage = st.options.host->usage();
  auto m = make_msg<fbs::Heartbeat>(context_of(*self, self->epoch()), [&](auto& h) {
    h.node_index = st.index;
    h.sequence = ++st.beats;
    h.sent_ns = now_ns(*self);
    h.rss_bytes = usage.rss_bytes;
    h.cpu_seconds = usage.cpu_seconds;
    h.step = last_step(st);
    h.state = st.doing;
    h.vitals = std::make_unique<fbs::VitalsT>(vitals_of(self));
  });
  request(self, st.coordinator, m)
      .then([self](const msg<fbs::HeartbeatAck>& a) { answered(self, a); },
            [](const caf::error&) {});  // silence is judged by answered_ns
  schedule_beat(self);
}

// -- ranks --------------------------------------------------------------------------------------

/// Makes direct links to the other nodes, so that their stages need not speak through the
/// coordinator. One end connects: with TLS, CAF 0.17.6 breaks other links when two nodes knock at
/// each other at once.
void connect_peers(node_pointer self, const fbs::AssignT& a) {
  const auto& st = self->state;
  std::set<std::pair<std::string, uint16_t>> seen;
  for (const auto& peer : a.peers) {
    if (peer->node >= st.options.name || !seen.emplace(peer->host, peer->port).second) continue;
    expect_host(peer->host, peer->port);
    self->request(connector_of(self), defaults::connect_timeout, caf::connect_atom_v, peer->host,
                  peer->port)
        .then(
            [](const caf::node_id&, const caf::strong_actor_ptr&, const std::set<std::string>&) {},
            [name = peer->node, port = peer->port](const caf::error& e) {
              spdlog::warn("no direct link to node {} ({}): its messages go by the coordinator",
                           name, why_not(port).value_or(from_caf(e).message));
            });
  }
}

/// None where the job has no swap folder.
swapper_actor make_swapper(node_pointer self, const train::spawn_record& record) {
  const auto& st = self->state;
  if (st.job->swap.dir.empty()) return {};
  return monitored(self, spawn_blocking(self, swap::swapper, record, st.options.host));
}

void take_ranks(node_pointer self, asked_to_assign asked) {
  auto& st = self->state;
  const auto a = asked.assign.unpack();
  train::spawn_record record{self->epoch()};
  record.node = st.options.name;
  std::vector<caf::strong_actor_ptr> handles;
  if (a.loader)
    st.loader = monitored(self, spawn_blocking(self, train::loader, record, st.going.get_token()));
  handles.push_back(caf::actor_cast<caf::strong_actor_ptr>(st.loader));
  fbs::AssignedT out;
  for (const auto& rank : a.ranks) {
    record.rank = rank->rank;
    record.worker = worker_actor{};
    record.swapper = make_swapper(self, record);
    st.swappers.push_back(record.swapper);
    st.workers.push_back(self->spawn(train::worker, record, st.options.host));
    record.worker = st.workers.back();
    st.stages.push_back(monitored(self, self->spawn(train::stage, record)));
    handles.push_back(caf::actor_cast<caf::strong_actor_ptr>(st.stages.back()));
    st.ranks.push_back(rank->rank);
    out.ranks.push_back(rank->rank);
  }
  out.profile = own_profile(st);
  be(self, fbs::NodeState::training);
  connect_peers(self, a);
  asked.promise.deliver(make_msg<fbs::Assigned>(context_of(*self, asked.assign.header()), out),
                        std::move(handles));
}

/// NOD-12.
void take_probed(node_pointer self) {
  probe_machine(self, [self] {
    if (auto asked = std::exchange(self->state.assignment, {})) take_ranks(self, std::move(*asked));
  });
}

caf::result<msg<fbs::Assigned>, std::vector<caf::strong_actor_ptr>> assign(
    node_pointer self, const msg<fbs::Assign>& m) {
  auto& st = self->state;
  if (!asked_by_own_head(self)) return to_caf(not_its_head(st.options.name));
  if (!st.stages.empty() || st.assignment)  // NOD-2
    return to_caf(has_ranks(st.options.name));
  asked_to_assign asked{
      self->make_response_promise<msg<fbs::Assigned>, std::vector<caf::strong_actor_ptr>>(), m};
  auto promise = asked.promise;
  st.assignment = std::move(asked);
  if (!st.checking) take_probed(self);
  return promise;
}

/// NOD-2.
void answer_if_quiet(node_pointer self) {
  auto& st = self->state;
  if (!st.leaving.empty()) return;
  for (auto& s : std::exchange(st.suspensions, {}))
    s.promise.deliver(make_msg<fbs::Suspended>(context_of(*self, s.cause), [](auto&) {}));
  if (std::exchange(st.greets, false) && st.coordinator) say_hello(self);
}

/// Of the epoch before; those that end are waited for (NOD-2).
void end_ranks(node_pointer self) {
  auto& st = self->state;
  if (auto asked = std::exchange(st.assignment, {})) asked->promise.deliver(to_caf(suspended()));
  std::exchange(st.going, {}).request_stop();
  const auto end_one = [&](const auto& actor) {
    st.leaving.insert(actor.address());
    self->send_exit(actor, caf::exit_reason::user_shutdown);
  };
  for (const auto& s : std::exchange(st.stages, {})) end_one(s);
  for (size_t i = 0; i < st.swappers.size(); ++i)
    if (const auto& swapper = st.swappers[i]) {  // NOD-10
      st.leaving.insert(swapper.address());
      st.behind.emplace(st.workers[i].address(), swapper);
    }
  st.swappers.clear();
  for (const auto& w : std::exchange(st.workers, {})) end_one(monitored(self, w));
  if (const auto loader = std::exchange(st.loader, {})) end_one(loader);
  be(self, st.ranks.empty() ? fbs::NodeState::idle : fbs::NodeState::preparing);
  st.ranks.clear();
}

caf::result<msg<fbs::Suspended>> suspend(node_pointer self, const msg<fbs::Suspend>& m) {
  auto& st = self->state;
  if (!asked_by_own_head(self)) return to_caf(not_its_head(st.options.name));
  if (const auto lost = st.options.host->lost_device()) {  // NOD-4
    end(self, device_lost(lost->message));
    return to_caf(device_lost(lost->message));
  }
  self->live_in(m.epoch());
  end_ranks(self);
  auto rp = self->make_response_promise<msg<fbs::Suspended>>();
  st.suspensions.push_back({rp, m.header()});
  answer_if_quiet(self);
  return rp;
}

/// Which of its actors has ended; empty: none, but a coordinator of before. A worker ends with its
/// stage.
std::string_view kind_of(const node_state& st, const caf::actor_addr& who) {
  for (const auto& c : st.companions)
    if (c.actor->address() == who) return c.kind;
  if (st.loader && st.loader.address() == who) return "loader";
  for (const auto& s : st.swappers)
    if (s && s.address() == who) return "swapper";
  const bool is_stage = std::any_of(st.stages.begin(), st.stages.end(),
                                    [&](const auto& s) { return s.address() == who; });
  return is_stage ? "stage" : "";
}

/// NOD-1, NOD-7. A tick is under way: the next heartbeat's, or what asked the coordinator.
void lose_coordinator(node_pointer self) {
  auto& st = self->state;
  const int64_t grace_s =
      st.job && st.job->recovery.enabled ? st.job->recovery.head_grace_s : 0;
  if (grace_s == 0) return end(self, coordinator_lost());
  if (!std::exchange(st.rejoins, true)) {
    spdlog::warn("the coordinator is lost: what this node holds is kept for {} s, while it looks "
                 "for another one at {}:{}",
                 grace_s, st.options.coordinator_host, st.options.coordinator_port);
    st.first_try_ns = now_ns(*self);
    st.try_for_ms = grace_s * 1000;
    dismiss(self, "medic");  // it knows the coordinator that is lost
  }
  if (const auto before = std::exchange(st.coordinator, coordinator_actor{}))
    self->demonitor(before.address());
  if (std::exchange(st.greets, false))  // nothing ticks while it ends its ranks
    self->delayed_send(self, defaults::connect_pause, caf::tick_atom_v);
}

void down(node_pointer self, const caf::down_msg& m) {
  auto& st = self->state;
  if (st.over) return;
  if (st.leaving.erase(m.source) > 0) {
    if (const auto last = st.behind.extract(m.source))
      self->send_exit(last.mapped(), caf::exit_reason::user_shutdown);
    return answer_if_quiet(self);
  }
  if (st.coordinator && m.source == st.coordinator.address()) return lose_coordinator(self);
  const auto kind = kind_of(st, m.source);
  if (kind.empty()) return;
  const auto why = from_caf(m.reason).within(fmt::format("a {} ended", kind));
  const auto* contract = find_service(kind);
  if (contract == nullptr || contract->on_death != death::without) return end(self, why);
  spdlog::warn("node {} continues without: {}", st.options.name, why.message);
}

}  // namespace

/// NOD-3.
node_state::~node_state() {
  going.request_stop();
  examining.request_stop();
  probing.stop.request_stop();
  if (measured) measured->close();
  for (const auto& s : stages) caf::anon_send_exit(s, caf::exit_reason::kill);
  for (const auto& w : workers) caf::anon_send_exit(w, caf::exit_reason::kill);
  for (const auto& s : swappers) caf::anon_send_exit(s, caf::exit_reason::user_shutdown);  // SWA-1
  for (const auto& [worker, s] : behind) caf::anon_send_exit(s, caf::exit_reason::user_shutdown);
  if (loader) caf::anon_send_exit(loader, caf::exit_reason::kill);
  for (const auto& c : companions) caf::anon_send_exit(c.actor, caf::exit_reason::kill);
  if (!over && options.ended) options.ended(node_killed());
}

node_actor::behavior_type node(node_pointer self, node_options options) {
  guard_mailbox(self);
  auto& st = self->state;
  st.options = std::move(options);
  introduce(self, fmt::format("node/{}", st.options.name));
  st.measured = std::make_shared<completion_queue>(caf::actor_cast<caf::weak_actor_ptr>(self));
  be(self, fbs::NodeState::joining);
  st.first_try_ns = now_ns(*self);
  st.try_for_ms = st.options.join_timeout_ms;
  self->set_down_handler([self](const caf::down_msg& m) { down(self, m); });
  self->set_exit_handler([self](const caf::exit_msg& m) {
    const auto process = m.source ? m.source.node() : self->node();
    if (process == self->node() || is_of_own_head(self->state, process))
      if (m.reason) self->quit(m.reason);
  });
  publish_self(self);
  return {
      status_handler(self),
      [self](const msg<fbs::Assign>& m) { return assign(self, m); },
      [self](const msg<fbs::MeasureLayers>& m) -> caf::result<msg<fbs::LayersMeasured>> {
        if (self->state.job && asked_by_own_head(self)) return measure_layers(self, m);
        return to_caf(not_its_head(self->state.options.name));
      },
      [self](const msg<fbs::Suspend>& m) { return suspend(self, m); },
      [self](const msg<fbs::Shutdown>&) {
        if (asked_by_own_head(self)) end(self, {errc::none, ""});
      },
      [self](const msg<fbs::PairProbe>& m) { return echo(self, m); },
      by_medic<fbs::OpenTestGroup, fbs::TestGroupEnd>(self),
      by_medic<fbs::JoinTestGroup, fbs::TestGroupSeen>(self),
      by_voter<fbs::PromiseEpoch>(self),
      by_voter<fbs::HoldRecord>(self),
      [self](caf::tick_atom) {
        if (self->state.coordinator)
          beat(self);
        else
          connect(self);
      },
      [self](caf::update_atom) { hear_measured(self); },
  };
}

}  // namespace troupe::cluster
