// Which node is in which place, and the ranks that it is given.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/base/context.hpp"
#include "actors/base/gather.hpp"
#include "actors/base/hw_message.hpp"
#include "actors/cluster/coordinating.hpp"
#include "actors/cluster/node.hpp"
#include "actors/cluster/partners_policy.hpp"
#include "actors/train/measured_split_policy.hpp"
#include "actors/train/memory_estimate.hpp"
#include "actors/train/node_paces_policy.hpp"
#include "actors/train/roofline_policy.hpp"
#include "io/config/load.hpp"
#include "io/perf/past_pace.hpp"

namespace troupe::cluster::coordinating {

namespace {

std::string host_key(const member& m) {
  return m.hello.hardware ? m.hello.hardware->hostname + "/" + m.hello.hardware->boot_id : m.name;
}

int64_t cores_of(const member& m) {
  return m.hello.hardware ? m.hello.hardware->cores : 1;
}

int64_t gpus_of(const member& m) {
  return m.hello.hardware ? std::ssize(m.hello.hardware->gpus) : 0;
}

std::string cpu_of(const member& m) {
  return m.hello.hardware ? m.hello.hardware->cpu_model : std::string();
}

member& member_at(coordinator_state& st, uint32_t place) {
  return st.members.at(st.places.node_of(place));
}

const member& member_at(const coordinator_state& st, uint32_t place) {
  return st.members.at(st.places.node_of(place));
}

int64_t workers_at(const coordinator_state& st, uint32_t node) {
  return st.record.plan.job.cluster.node[node].workers;
}

/// Calls f(place) for each that has a node which is there.
template <class F>
void for_each_place(const coordinator_state& st, F f) {
  for (uint32_t place = 0; place < st.places.size(); ++place)
    if (st.members.contains(st.places.node_of(place))) f(place);
}

/// Workers of all places that are on the host of one.
int64_t workers_on_host(const coordinator_state& st, uint32_t place) {
  const auto& node = member_at(st, place);
  int64_t workers = 0;
  for_each_place(st, [&](uint32_t other) {
    if (host_key(member_at(st, other)) == host_key(node)) workers += workers_at(st, other);
  });
  return std::max<int64_t>(1, workers);
}

/// Threads of each worker of a place's first node: the configured number, or its share of the
/// host's cores. Spares take no share.
int64_t threads_at(const coordinator_state& st, uint32_t place) {
  const auto& cluster = st.record.plan.job.cluster;
  if (cluster.threads > 0) return cluster.threads;
  return std::max<int64_t>(1, cores_of(member_at(st, place)) / workers_on_host(st, place));
}

/// What each rank computes on, by what the nodes said they have; later of the kind that it began
/// with (PLA-2).
result<train::device_choice> devices_of(const coordinator_state& st) {
  auto wanted = st.record.plan.job.cluster.device;
  if (st.places.is_fixed())
    wanted = st.places.needs_of(0).gpus > 0 ? config::device_kind::cuda : config::device_kind::host;
  std::vector<train::node_devices> nodes;
  for_each_place(st, [&](uint32_t place) {
    const auto& m = member_at(st, place);
    nodes.push_back({m.name, host_key(m), gpus_of(m)});
  });
  std::vector<int64_t> node_of;
  for (const auto& r : st.record.plan.ranks) node_of.push_back(r.node);
  return train::choose_devices(wanted, nodes, node_of);
}

/// PLA-2.
void fix_places(coordinator_state& st) {
  const bool on_gpus = !st.devices.names.empty() && st.devices.names.front() != "host";
  for (uint32_t place = 0; place < st.places.size(); ++place) {
    const auto& m = member_at(st, place);
    place_needs needs{workers_at(st, place), threads_at(st, place), 1, 0, cpu_of(m), 0};
    needs.cores = std::min(needs.threads * needs.workers, cores_of(m));
    if (on_gpus) needs.gpus = st.devices.shared ? 1 : needs.workers;
    st.places.fix(place, std::move(needs));
  }
}

/// The loaders of the hosts and the ranks each serves, by place: the first node of a host that
/// needs batches runs it.
std::map<uint32_t, std::vector<uint32_t>> loader_places(const coordinator_state& st) {
  std::map<std::string, uint32_t> place_of_host;
  std::map<uint32_t, std::vector<uint32_t>> out;
  for (const auto& r : st.record.plan.ranks) {
    if (!r.at.reads_batches(st.record.plan.job.data.reset_attention)) continue;
    const auto place = static_cast<uint32_t>(r.node);
    const auto leader =
        place_of_host.emplace(host_key(member_at(st, place)), place).first->second;
    out[leader].push_back(static_cast<uint32_t>(r.at.rank));
  }
  return out;
}

std::vector<uint32_t> ranks_of(const coordinator_state& st, uint32_t place);

/// What its machine was probed to do, and what its ranks take by that alone.
void put_probes(const coordinator_state& st, uint32_t place,
                const std::vector<train::planned_stage>& stages, fbs::HwProfileT& m) {
  const auto& profile = *member_at(st, place).profile;
  const auto& plan = st.record.plan;
  const auto threads = static_cast<int>(st.places.needs_of(place).threads);
  m.fields = to_message(profile);
  for (const auto rank : ranks_of(st, place)) {
    const auto& of = *std::ranges::find(stages, plan.ranks[rank].at.place().pipeline,
                                        &train::planned_stage::pipeline_rank);
    auto& r = *m.ranks.emplace_back(std::make_unique<fbs::RankTimesT>());
    r.rank = rank;
    r.layers = static_cast<uint32_t>(of.layers.last - of.layers.first);
    r.threads = static_cast<uint32_t>(threads);
    r.parts = train::to_message(train::roofline_parts(plan, of, profile, threads));
  }
}

/// Told of the same node in each epoch: its ranks and layers may be others.
void tell_profile(coordinator_pointer self, uint32_t place,
                  const std::vector<train::planned_stage>& stages) {
  const auto& st = self->state;
  const auto& who = member_at(st, place);
  self->send(st.record.predictor, make_msg<fbs::HwProfile>(context(self), [&](fbs::HwProfileT& m) {
               m.node = who.name;
               m.place = place;
               m.places = static_cast<uint32_t>(st.places.size());
               m.host = host_key(who);
               if (who.hello.hardware) {
                 const auto print = print_of(*who.hello.hardware);
                 m.kind = print.kind;
                 m.gpu_ids = print.gpu_ids;
               }
               if (!stages.empty() && who.profile) put_probes(st, place, stages, m);
             }));
}

/// CRD-23. Probes say nothing of GPUs.
void tell_profiles(coordinator_pointer self) {
  const auto& st = self->state;
  const bool on_host = !st.devices.names.empty() && st.devices.names.front() == "host";
  if (!st.record.predictor) return;
  std::vector<train::planned_stage> stages;
  const auto places = std::min<uint32_t>(static_cast<uint32_t>(st.places.size()), profiled_places);
  for (uint32_t place = 0; place < places; ++place) {
    if (!st.members.contains(st.places.node_of(place))) continue;
    if (on_host && stages.empty() && member_at(st, place).profile)
      stages = train::plan_stages(st.record.plan);
    tell_profile(self, place, stages);
  }
}

/// CRD-1.
void begin_run(coordinator_pointer self) {
  auto& st = self->state;
  st.ready = true;
  tell_profiles(self);
  const auto loaders = loader_places(st);
  std::vector<caf::strong_actor_ptr> handles;
  for (const auto& stage : st.stages)
    handles.push_back(caf::actor_cast<caf::strong_actor_ptr>(stage));
  const auto m = make_msg<fbs::ClusterReady>(context(self), [&](fbs::ClusterReadyT& r) {
    r.devices = st.devices.names;
    r.shared_devices = st.devices.shared;
    r.replicas = static_cast<uint32_t>(st.replicas);
    r.layers = st.layers;
    if (!st.layers.empty()) r.order = st.whole.job.parallel.nodes;
    for (uint32_t place = 0; place < st.places.size(); ++place) {
      const auto& who = member_at(st, place);
      r.nodes.push_back(std::make_unique<fbs::ReadyNodeT>());
      auto& node = *r.nodes.back();
      node.host = who.hello.host;
      node.node = who.name;
      node.threads = static_cast<uint32_t>(st.places.needs_of(place).threads);
      const auto it = loaders.find(place);
      if (it == loaders.end()) continue;
      node.loader_ranks = it->second;
      handles.push_back(caf::actor_cast<caf::strong_actor_ptr>(who.loader));
    }
  });
  self->send(st.record.run, m, handles);
  release_again(self);  // behind it
  show(self);
}

std::vector<uint32_t> ranks_of(const coordinator_state& st, uint32_t place) {
  std::vector<uint32_t> out;
  for (const auto& r : st.record.plan.ranks)
    if (static_cast<uint32_t>(r.node) == place) out.push_back(static_cast<uint32_t>(r.at.rank));
  return out;
}

/// What a place has before it has measured: its host's memory.
train::node_pace unmeasured(const coordinator_state& st, uint32_t place) {
  const auto& who = member_at(st, place);
  return {0, who.hello.hardware ? who.hello.hardware->memory_bytes : 0, host_key(who)};
}

void tell_layers(coordinator_pointer self, const std::string& layers, const std::string& why,
                 fbs::NoticeLevel level) {
  self->send(self->state.record.reporter, make_msg<fbs::Notice>(context(self), [&](auto& n) {
               n.level = level;
               n.text = fmt::format("the stages have {} layers {}", layers, why);
               n.layers = layers;
             }));
}

/// PLA-6: no layers that a node has room for come to one that has none.
void note_memory_of_places(coordinator_state& st, const std::vector<train::node_pace>& paces) {
  const auto bytes = train::bytes_of_places(st.record.plan, paces);
  for (uint32_t place = 0; place < bytes.size(); ++place)
    st.places.takes_memory(place, bytes[place]);
}

/// PLA-6, of layers that were settled before: by a checkpoint that the run goes on from (RSM-6), by
/// a person, or by a head before this one. What swaps, or is on GPUs, takes other memory.
void note_memory_of_settled_layers(coordinator_pointer self) {
  auto& st = self->state;
  const bool on_host = !st.devices.names.empty() && st.devices.names.front() == "host";
  const auto& job = st.record.plan.job;
  if (!on_host || !job.swap.dir.empty() || job.parallel.layers.empty()) return;
  std::vector<train::node_pace> paces;
  for (uint32_t place = 0; place < st.places.size(); ++place)
    paces.push_back(unmeasured(st, place));
  note_memory_of_places(st, paces);
  remember(self);  // CRD-15
}

/// CRD-24. Whether each place has the node that it is planned with, by a name that a run that goes
/// on finds again.
bool may_change_places(const coordinator_state& st) {
  const auto& job = st.whole.job;
  if (!job.parallel.nodes.empty() || st.replicas != job.parallel.data) return false;
  for (uint32_t place = 0; place < st.places.size(); ++place)
    if (st.places.node_of(place) != place ||
        st.membership->names()[place] != job.cluster.node[place].name)
      return false;
  return true;
}

/// Asks the nodes to end the ranks that they have, and calls `then` once all have answered.
void end_ranks_of_nodes(coordinator_pointer self, std::function<void()> then);

/// CRD-24.
void change_places(coordinator_pointer self, const std::vector<size_t>& from,
                   const std::vector<train::node_pace>& paces) {
  auto& st = self->state;
  st.places.move(from);
  fix_places(st);
  std::vector<train::node_pace> moved;
  for (const auto place : from) moved.push_back(paces[place]);
  note_memory_of_places(st, moved);
  remember(self);  // CRD-15
  end_ranks_of_nodes(self, [self, epoch = self->epoch()] {
    auto& now = self->state;
    if (epoch != self->epoch() || now.ended || !lost_places(now).empty()) return;
    now.assigned = 0;
    now.stages.clear();
    assign_ranks(self);
  });
}

/// The nodes of the places once they have changed, "b,a"; empty: they stay.
std::string order_text(const coordinator_state& st, const std::vector<size_t>& from) {
  std::vector<std::string_view> names;
  for (const auto place : from) names.emplace_back(st.membership->names()[place]);
  return std::is_sorted(from.begin(), from.end()) ? "" : fmt::format("{}", fmt::join(names, ","));
}

/// What is known of how quick the nodes are, by place.
struct known_paces {
  std::vector<train::node_pace> nodes;
  train::past_of_places past;
  std::vector<std::string> names;
  std::vector<std::string> unmeasured;  ///< why a node has not measured; empty: it has
};

/// CRD-25: why somebody's pace is not known by anything.
std::string unknown_of(const known_paces& known) {
  for (size_t i = 0; i < known.nodes.size(); ++i)
    if (!(known.nodes[i].flops_s > 0)) return known.unmeasured[i];
  return {};
}

/// CRD-22, CRD-25.
void settle_split(coordinator_pointer self, known_paces known) {
  auto& st = self->state;
  if (!lost_places(st).empty()) return;  // the run is told, and decides
  train::outrank_by_past(known.nodes, known.past);
  auto layers = train::stage_layers_text(st.whole);
  auto why = unknown_of(known);
  std::vector<size_t> from;
  std::string order;
  if (why.empty()) {
    const auto may =
        may_change_places(st) ? train::node_order::may_change : train::node_order::stays;
    if (const auto split = train::measured_split(st.record.plan, known.nodes, may)) {
      layers = fmt::format("{}", fmt::join(split->layers, ","));
      from = split->nodes;
      order = order_text(st, from);
      tell_layers(self, layers,
                  "as measured: " + split->reason +
                      train::sources_text(known.nodes, known.past, known.names),
                  fbs::NoticeLevel::info);
    } else {
      why = split.error().message;
    }
  }
  if (!why.empty()) tell_layers(self, layers, "as planned: " + why, fbs::NoticeLevel::warning);
  if (!order.empty())
    say(self, fmt::format("the nodes are in the order {} from now on: each takes the ranks of its "
                          "place",
                          order));
  if (!use_layers(self, layers, order)) return;
  if (!order.empty()) return change_places(self, from, known.nodes);
  if (why.empty()) note_memory_of_places(st, known.nodes);
  remember(self);  // CRD-15
  begin_run(self);
}

/// CRD-25.
std::optional<io::perf::past_pace> past_of(const coordinator_state& st, uint32_t place) {
  const auto& who = member_at(st, place);
  if (!who.hello.hardware) return std::nullopt;
  const bool on_gpus = st.devices.names.at(ranks_of(st, place).front()) != "host";
  return pace_of(st.record.paces,
                 {who.name, print_of(*who.hello.hardware),
                  static_cast<uint32_t>(st.places.needs_of(place).threads), on_gpus});
}

/// CRD-22; who is known by runs before measures as well, unless all are (CRD-25).
void measure_layers_of_places(coordinator_pointer self) {
  auto& st = self->state;
  auto known = std::make_shared<known_paces>();
  std::vector<node_actor> nodes;
  for (uint32_t place = 0; place < st.places.size(); ++place) {
    nodes.push_back(member_at(st, place).handle);
    known->names.push_back(member_at(st, place).name);
    known->nodes.push_back(unmeasured(st, place));
    known->past.push_back(past_of(st, place));
  }
  known->unmeasured.resize(nodes.size());
  if (std::ranges::all_of(known->past, [](const auto& p) { return p.has_value(); }))
    return settle_split(self, std::move(*known));
  say(self, "each node measures a layer of the model, by which the stages get theirs");
  gather_each<fbs::LayersMeasured>(
      self, nodes,
      [&](size_t i) {
        return awaited{"node/" + known->names[i], "what a layer takes it"};
      },
      [&](size_t i) {
        const auto& needs = st.places.needs_of(static_cast<uint32_t>(i));
        const auto ranks = ranks_of(st, static_cast<uint32_t>(i));
        return std::tuple(make_msg<fbs::MeasureLayers>(context(self), [&](auto& l) {
          l.threads = static_cast<uint32_t>(needs.threads);
          l.workers = static_cast<uint32_t>(ranks.size());
          l.device = st.devices.names.at(ranks.front());
        }));
      },
      [known](size_t i, const result<msg<fbs::LayersMeasured>>& m) {
        if (m && (*m)->flops_s() > 0)
          known->nodes[i].flops_s = (*m)->flops_s();
        else
          known->unmeasured[i] = fmt::format("node {} has not measured what a layer takes it{}",
                                             known->names[i], m ? "" : ": " + m.error().message);
      },
      [self, known, epoch = self->epoch()] {
        if (epoch == self->epoch() && !self->state.ended) settle_split(self, *known);
      });
}

msg<fbs::Assign> assignment(coordinator_pointer self, uint32_t place, bool loader,
                            const std::set<uint32_t>& partners) {
  auto& st = self->state;
  return make_msg<fbs::Assign>(context(self), [&](fbs::AssignT& a) {
    a.loader = loader;
    for (const auto partner : partners) {
      const auto& m = member_at(st, partner);
      auto& peer = *a.peers.emplace_back(std::make_unique<fbs::PeerT>());
      peer.node = m.name;
      peer.host = m.hello.host;
      peer.port = m.hello.port;
    }
    for (const auto rank : ranks_of(st, place))
      a.ranks.emplace_back(std::make_unique<fbs::RankAssignmentT>())->rank = rank;
  });
}

void assigned(coordinator_pointer self, uint32_t place, const msg<fbs::Assigned>& m,
              const std::vector<caf::strong_actor_ptr>& handles) {
  auto& st = self->state;
  auto& who = member_at(st, place);
  const auto ranks = m.unpack().ranks;
  if (handles.size() != ranks.size() + 1)
    return give_up(self, handles_missing(who.name, handles.size(), ranks.size()));
  if (const auto own = ranks_of(st, place); ranks != own)
    return give_up(self, other_ranks(who.name, fmt::format("{}", fmt::join(ranks, ", ")),
                                     fmt::format("{}", fmt::join(own, ", "))));
  who.loader = caf::actor_cast<loader_actor>(handles.front());
  for (size_t i = 0; i < ranks.size(); ++i)
    st.stages[ranks[i]] = caf::actor_cast<stage_actor>(handles[i + 1]);
  if (m->profile() != nullptr) who.profile = profile_in(*m->profile());
  let_observe(self, who, fmt::format("{}", fmt::join(ranks, ", ")));
  ++st.assigned;
}

/// GPUs of a spare's machine that no place uses.
int64_t free_gpus(const coordinator_state& st, const places_policy& places, const member& spare) {
  int64_t free = gpus_of(spare);
  for (uint32_t place = 0; place < places.size(); ++place) {
    const auto it = st.members.find(places.node_of(place));
    if (it == st.members.end() || it->second.gone) continue;
    if (host_key(it->second) == host_key(spare)) free -= places.needs_of(place).gpus;
  }
  return free;
}

/// What no ranks take of the memory of a spare's machine; 0: not known.
uint64_t free_memory(const coordinator_state& st, const places_policy& places,
                     const member& spare) {
  const auto all = spare.hello.hardware ? spare.hello.hardware->memory_bytes : 0;
  uint64_t taken = 0;
  for (uint32_t place = 0; place < places.size(); ++place) {
    const auto it = st.members.find(places.node_of(place));
    if (it == st.members.end() || it->second.gone) continue;
    if (host_key(it->second) == host_key(spare)) taken += places.needs_of(place).memory_bytes;
  }
  return all == 0 ? 0 : all > taken ? all - taken : 1;
}

}  // namespace

void warn_of_shared_name(coordinator_pointer self, const member& who) {
  const auto boot_of = [](const member& m) {
    return m.hello.hardware ? m.hello.hardware->boot_id : std::string();
  };
  const auto boot = boot_of(who);
  for (const auto& [index, other] : self->state.members) {
    const auto its_boot = boot_of(other);
    const bool shares = &other != &who && !other.gone && other.hello.host == who.hello.host;
    if (!shares || boot.empty() || its_boot.empty() || boot == its_boot) continue;
    return say(
        self,
        fmt::format("nodes {} and {} are on two machines that are both called {}, or on one "
                    "that was started again: of two, other nodes reach one alone; start each "
                    "node with --advertise and an address of its own",
                    other.name, who.name, who.hello.host),
        fbs::NoticeLevel::warning);
  }
}

void evict_if_unreliable(coordinator_pointer self, const std::string& name) {
  auto& st = self->state;
  if (st.evictions.is_evicted(name) || !st.evictions.is_unreliable(name, now_ns(*self))) return;
  st.evictions.evict(name, "was lost twice within an hour");
  say(self,
      fmt::format("node {} was lost twice within an hour: it is evicted until a person says "
                  "`admit {}`",
                  name, name),
      fbs::NoticeLevel::warning);
}

/// Ends what the nodes that live run of the epoch before.
void suspend(coordinator_pointer self) {
  end_ranks_of_nodes(self, [self] { tick(self); });
}

namespace {

void end_ranks_of_nodes(coordinator_pointer self, std::function<void()> then) {
  auto& st = self->state;
  std::vector<uint32_t> who;
  std::vector<node_actor> nodes;
  for (auto& [index, m] : st.members) {
    if (m.gone) continue;
    m.quiet = false;
    who.push_back(index);
    nodes.push_back(m.handle);
  }
  gather_each<fbs::Suspended>(
      self, nodes,
      [&](size_t i) {
        return awaited{"node/" + st.members.at(who[i]).name, "the end of its ranks"};
      },
      [&](size_t) { return std::tuple(make_msg<fbs::Suspend>(context(self), [](auto&) {})); },
      [self, who, nodes](size_t i, const result<msg<fbs::Suspended>>& answer) {
        const auto it = self->state.members.find(who[i]);
        if (it == self->state.members.end() || it->second.handle != nodes[i])
          return;  // another process has its place
        if (answer)
          it->second.quiet = true;
        else
          node_lost(self, it->second.name,
                    {"did not end its ranks: " + answer.error().message,
                     answer.error().is(device_lost) ? "lost_device" : "frozen_process"});
      },
      std::move(then));
}

}  // namespace

bool may_assign(const coordinator_state& st) {
  if (st.assigning || st.ended || st.to_suspend || !is_elected(st)) return false;
  for (uint32_t place = 0; place < st.places.size(); ++place)
    if (!is_there(st, st.places.node_of(place)) || !member_at(st, place).quiet) return false;
  return true;
}

void assign_ranks(coordinator_pointer self) {
  auto& st = self->state;
  st.assigning = true;
  auto devices = devices_of(st);
  if (!devices) return give_up(self, devices.error());
  st.devices = std::move(*devices);
  if (const auto& names = st.devices.names; !names.empty() && names.front() != "host")
    say(self, fmt::format("devices: {}{}", fmt::join(names, ", "),
                          st.devices.shared ? " (shared: sums go through host memory)" : ""));
  fix_places(st);
  remember(self);  // CRD-15
  st.stages.resize(st.record.plan.ranks.size());
  const auto loaders = loader_places(st);
  auto partners = partners_of(st.record.plan, loaders);
  std::vector<node_actor> nodes;
  std::vector<std::string> names;
  for (uint32_t place = 0; place < st.places.size(); ++place) {
    nodes.push_back(member_at(st, place).handle);
    names.push_back(member_at(st, place).name);
  }
  gather_each<fbs::Assigned, std::vector<caf::strong_actor_ptr>>(
      self, nodes,
      [&](size_t i) {
        return awaited{"node/" + names[i], "its ranks' actors"};
      },
      [&](size_t i) {
        const auto place = static_cast<uint32_t>(i);
        return std::tuple(assignment(self, place, loaders.contains(place), partners[place]));
      },
      [self, names, epoch = self->epoch()](size_t i, const result<msg<fbs::Assigned>>& a,
                                           const std::vector<caf::strong_actor_ptr>& handles) {
        if (epoch != self->epoch()) return;  // CRD-5
        if (a) return assigned(self, static_cast<uint32_t>(i), *a, handles);
        if (self->state.recovering)
          return node_lost(
              self, names[i],
              {"did not take its ranks: " + a.error().message, "stuck_device"});
        give_up(self, a.error().within(fmt::format("node {} did not take its ranks", names[i])));
      },
      [self, epoch = self->epoch()] {
        auto& now = self->state;
        if (epoch != self->epoch() || now.assigned != now.places.size()) return;
        if (train::is_split_open(now.whole.job)) return measure_layers_of_places(self);
        note_memory_of_settled_layers(self);
        begin_run(self);  // CRD-1
      });
}

bool has_place(const coordinator_state& st, std::string_view name) {
  const auto node = st.membership->index_of(name);
  return node && st.places.place_of(*node);
}

std::vector<spare_node> spares_of(const coordinator_state& st) {
  return spares_of(st, st.places);
}

std::vector<spare_node> spares_of(const coordinator_state& st, const places_policy& places) {
  std::vector<spare_node> out;
  for (const auto& [node, m] : st.members) {
    if (!is_there(st, node) || places.place_of(node)) continue;
    out.push_back({node, m.name, workers_at(st, node), cores_of(m), free_gpus(st, places, m),
                   cpu_of(m), host_key(m), free_memory(st, places, m)});
  }
  std::ranges::stable_sort(out, {}, [&](const spare_node& s) {  // EVC-3
    return st.evictions.last_loss_ns(s.name);
  });
  return out;
}

std::vector<uint32_t> lost_places(const coordinator_state& st) {
  std::vector<uint32_t> out;
  for (uint32_t place = 0; place < st.places.size(); ++place)
    if (!is_there(st, st.places.node_of(place))) out.push_back(place);
  return out;
}

std::string missing_from_places(const coordinator_state& st) {
  std::vector<std::string_view> out;
  for (const auto place : lost_places(st))
    out.push_back(st.membership->names()[st.places.node_of(place)]);
  return fmt::format("{}", fmt::join(out, ", "));
}

bool use_layers(coordinator_pointer self, const std::string& layers, const std::string& order) {
  auto& st = self->state;
  if (const auto settled = train::settle_layers(st.whole, layers, order); !settled) {
    give_up(self, settled.error());
    return false;
  }
  st.layers = layers;
  st.record.plan.job.parallel = st.whole.job.parallel;
  st.config_toml = config::to_toml(st.whole.job);
  recall_replicas(self, st.replicas);
  return true;
}

void fill_places(coordinator_pointer self) {
  auto& st = self->state;
  auto lost = lost_places(st);
  std::erase_if(lost, [&](uint32_t place) {  // CRD-15
    return st.returns.awaits(st.membership->names()[st.places.node_of(place)]);
  });
  if (lost.empty() || !st.places.is_fixed()) return;
  const auto filled = st.places.fill(lost, spares_of(st));
  const auto& names = st.membership->names();
  for (const auto& p : filled.passed)
    say(self,
        fmt::format("spare {} cannot come into the place of {}: it {}", p.spare,
                    names[st.places.node_of(p.place)], p.why),
        fbs::NoticeLevel::warning);
  for (const auto& t : filled.taken) {
    if (t.other_cpu)
      say(self,
          fmt::format("node {} has another processor than {} ({}): losses may differ in their "
                      "last bits",
                      names[t.to], names[t.from], cpu_of(st.members.at(t.to))),
          fbs::NoticeLevel::warning);
    evict_if_unreliable(self, names[t.from]);
  }
}

}  // namespace troupe::cluster::coordinating
