// What persons say to the coordinator: who is taken out, let in again, started anew.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/base/context.hpp"
#include "actors/base/hardware.hpp"
#include "actors/cluster/coordinating.hpp"
#include "messages/text.hpp"

namespace troupe::cluster::coordinating {

namespace {

constexpr const char* evicted_by_a_person = "was evicted by a person";

msg<fbs::Ack> ack(coordinator_pointer self, const message_header& cause, std::string text) {
  return make_msg<fbs::Ack>(context_of(*self, cause), [&](auto& a) { a.text = std::move(text); });
}

/// The index of a node that a person named.
result<uint32_t> node_named(const coordinator_state& st, const std::string& name) {
  if (const auto node = st.membership->index_of(name)) return *node;
  return no_such_node(name, fmt::format("{}", fmt::join(st.membership->names(), ", ")));
}

/// Who would come into the place of a node; none: it has no place, or nobody can.
std::optional<spare_node> successor_of(const coordinator_state& st, uint32_t node) {
  const auto place = st.places.place_of(node);
  if (!place || !st.places.is_fixed()) return std::nullopt;
  return st.places.candidate(*place, spares_of(st));
}

/// Whether the job can do without a node that has a place: a spare comes into it, or there are
/// fewer replicas (CRD-12, CRD-17).
bool is_dispensable(const coordinator_state& st, uint32_t node) {
  return successor_of(st, node) || replicas_without(st, node);
}

/// Why an order to take a node with a place out cannot be carried out.
status may_go(coordinator_pointer self, uint32_t node, const std::string& name) {
  const auto& st = self->state;
  if (st.stopping) return run_is_ending();
  if (!st.record.plan.job.recovery.enabled) return does_not_recover();
  if (!st.ready || !lost_places(st).empty() || !st.ordered_out.empty()) return not_training();
  if (!is_dispensable(st, node)) return no_spare(name);
  return {};
}

/// "spare node4 comes into its place"
std::string instead_of(const coordinator_state& st, uint32_t node, const std::string& name) {
  if (const auto spare = successor_of(st, node))
    return fmt::format("spare {} comes into the place of {}", spare->name, name);
  return fmt::format("{} of {} replicas go on without {}", replicas_without(st, node).value_or(0),
                     st.whole.job.parallel.data, name);
}

/// A process without a place ends in order.
void end_process(coordinator_pointer self, uint32_t node) {
  auto& st = self->state;
  if (!is_there(st, node)) return;
  auto& who = st.members.at(node);
  who.gone = who.told = true;
  st.fallen[who.name] = who.hello.pid;
  st.membership->leave(who.name);
  st.liveness->left(who.name);
  self->send(who.handle, make_msg<fbs::Shutdown>(context(self), [](auto& s) {
               s.reason = "it is taken out";
               s.graceful = true;
             }));
}

/// CRD-13: the run begins another epoch, in which it has no place; or ends, and keeps it.
void order_out(coordinator_pointer self, const std::string& name, bool evicted) {
  auto& st = self->state;
  st.ordered_out[name] = evicted;
  self->send(st.record.run, make_msg<fbs::NodeLost>(context(self), [&](auto& l) {
               l.node = name;
               l.how = evicted ? "is evicted by a person" : "is replaced by a person's word";
               l.finding = evicted ? "evicted" : "replaced";
               l.ordered = true;
             }));
}

/// JOB-12.
void release(coordinator_pointer self, const std::string& name) {
  self->state.leaving.insert(name);
  self->send(self->state.record.run, make_msg<fbs::ReleaseNode>(context(self), [&](auto& r) {
               r.node = name;
               r.reason = "is drained";
             }));
}

/// Who was drained is taken out; where nobody could have its place, it keeps it (CRD-12).
void leave_place(coordinator_pointer self, const std::string& name) {
  auto& st = self->state;
  const auto node = st.membership->index_of(name);
  if (!node) return;
  if (st.places.place_of(*node) && !is_dispensable(st, *node))
    return say(self, fmt::format("node {} is not drained: no spare is left for its place", name),
               fbs::NoticeLevel::warning);
  st.evictions.evict(name, "was drained");
  end_process(self, *node);
  fill_places(self);
}

std::string may_come_again(const std::string& name) {
  return fmt::format("`admit {}` lets it come again", name);
}

/// CRD-21: of a node with a place.
void lose_sick(coordinator_pointer self, uint32_t node, const std::string& name,
               const std::string& why) {
  auto& st = self->state;
  const bool others = !lost_places(st).empty() || !st.ordered_out.empty();  // need the spares
  const bool may = st.record.plan.job.recovery.enabled && !st.stopping && !others;
  if (may && successor_of(st, node))
    return node_lost(self, name, {fmt::format("has a sick link ({})", why), "half_open_link"});
  say(self, fmt::format("node {} has a sick link ({}), and keeps its ranks", name, why),
      fbs::NoticeLevel::warning);
}

/// As where there are no spares: the run saves and ends.
std::string stop_for(coordinator_pointer self, const msg<fbs::DrainNode>& m,
                     const std::string& name) {
  auto& st = self->state;
  stop(self, make_msg<fbs::StopTraining>(context_of(*self, m.header()), [&](auto& s) {
         s.reason = fmt::format("node {} is drained", name);
         s.save = true;
       }));
  const auto why = st.record.plan.job.recovery.enabled
                       ? fmt::format("no spare can come into the place of {}", name)
                       : std::string("recovery.enabled is false");
  return fmt::format("{}: the run saves after its step and ends; start it again without {}", why,
                     name);
}

}  // namespace

caf::result<msg<fbs::GatewayFound>, caf::strong_actor_ptr> find_gateway(
    coordinator_pointer self, const msg<fbs::FindGateway>& m) {
  auto& st = self->state;
  if (m->schema_hash() != own_schema_hash())
    return to_caf({errc::version_mismatch,
                   fmt::format("the cluster runs another version ({})", own_version()),
                   "use the program the cluster was started with"});
  if (!st.record.gateway) return to_caf(no_gateway());
  auto found = make_msg<fbs::GatewayFound>(context_of(*self, m.header()), [&](auto& d) {
    d.job = st.record.plan.job.job.name;
    d.epoch = st.record.epoch;
    const auto who = self->runtime().peers.find(self->current_sender());
    d.may_change = !who || who->as != tls::role::reader;
    d.who = who ? who->name : m->user() ? m->user()->str() : "";
  });
  return {found, caf::actor_cast<caf::strong_actor_ptr>(st.record.gateway)};
}

caf::result<msg<fbs::Ack>> drain(coordinator_pointer self, const msg<fbs::DrainNode>& m) {
  auto& st = self->state;
  const auto name = text_of(m->node());
  const auto node = node_named(st, name);
  if (!node) return to_caf(node.error());
  if ((!st.ready && !st.recovering) || st.ended)
    return to_caf({errc::unavailable, "no run to stop"});
  if (!st.places.place_of(*node)) {
    st.evictions.evict(name, "was drained");
    end_process(self, *node);
    show(self);
    return ack(self, m.header(), fmt::format("{} is taken out; {}", name, may_come_again(name)));
  }
  if (st.stopping) return to_caf(run_is_ending());
  if (!is_dispensable(st, *node) || !st.record.plan.job.recovery.enabled)
    return ack(self, m.header(), stop_for(self, m, name));
  if (!st.ready) return to_caf(not_training());
  if (!st.leaving.empty() && !st.leaving.contains(name))
    return to_caf(one_at_a_time(*st.leaving.begin()));
  const auto then = instead_of(st, *node, name);
  release(self, name);
  return ack(self, m.header(), fmt::format("the run saves after its step, then {}; {}", then,
                                           may_come_again(name)));
}

caf::result<msg<fbs::Ack>> evict(coordinator_pointer self, const msg<fbs::EvictNode>& m) {
  auto& st = self->state;
  const auto name = text_of(m->node());
  const auto node = node_named(st, name);
  if (!node) return to_caf(node.error());
  if (st.ended) return to_caf(cluster_ends());
  const bool placed = st.places.place_of(*node).has_value();
  if (placed)
    if (const auto may = may_go(self, *node, name); !may) return to_caf(may.error());
  if (!placed) {
    st.evictions.evict(name, evicted_by_a_person);
    end_process(self, *node);
    show(self);
    return ack(self, m.header(), fmt::format("{} is evicted; {}", name, may_come_again(name)));
  }
  const auto then = instead_of(st, *node, name);
  order_out(self, name, true);
  return ack(self, m.header(),
             fmt::format("{} is evicted, {}; {}", name, then, may_come_again(name)));
}

caf::result<msg<fbs::Ack>> admit(coordinator_pointer self, const msg<fbs::AdmitNode>& m) {
  auto& st = self->state;
  const auto name = text_of(m->node());
  if (st.ended) return to_caf(cluster_ends());
  const bool goes = st.leaving.contains(name) || st.ordered_out.contains(name);
  if (goes || !st.evictions.admit(name)) {  // where anybody may join its index may be another's
    const auto node = node_named(st, name);
    return to_caf(node ? not_evicted(name) : node.error());
  }
  show(self);
  if (!has_launcher(st))
    return ack(self, m.header(), fmt::format("{} may join again, as a spare", name));
  st.launches.forget(name);
  launch(self, name, "");
  return ack(self, m.header(),
             fmt::format("{} is started, and is a spare once it has joined", name));
}

caf::result<msg<fbs::Ack>> replace(coordinator_pointer self, const msg<fbs::ReplaceNode>& m) {
  auto& st = self->state;
  const auto name = text_of(m->node());
  if (st.evictions.is_evicted(name))
    return to_caf(node_evicted(name, st.evictions.why(name)));
  const auto node = node_named(st, name);
  if (!node) return to_caf(node.error());
  if (st.ended) return to_caf(cluster_ends());
  const bool placed = st.places.place_of(*node).has_value();
  const auto spare = successor_of(st, *node);
  if (const auto may = may_go(self, *node, name);
      placed && !may && !(may.error().is(no_spare) && has_launcher(st)))
    return to_caf(may.error());
  if (placed && !spare && !has_launcher(st)) return to_caf(no_spare(name));
  st.launches.forget(name);
  const auto* who = member_named(st, name);
  if (placed)
    order_out(self, name, false);
  else if (who != nullptr && !who->told)
    node_lost(self, name, {"is replaced by a person's word", "replaced"});
  else
    launch(self, name, "");
  const auto begins = has_launcher(st) ? "is started anew" : "may join again";
  return ack(self, m.header(),
             spare ? fmt::format("{} {}; spare {} comes into its place", name, begins, spare->name)
                   : fmt::format("{} {}", name, begins));
}

msg<fbs::Spares> list_spares(coordinator_pointer self, const msg<fbs::SparesRequest>& m) {
  const auto& st = self->state;
  return make_msg<fbs::Spares>(context_of(*self, m.header()), [&](fbs::SparesT& out) {
    out.configured = static_cast<uint32_t>(st.record.plan.job.cluster.spares);
    const auto add = [&](const std::string& name) -> fbs::SpareNodeT& {
      auto& s = *out.spares.emplace_back(std::make_unique<fbs::SpareNodeT>());
      s.node = name;
      s.state = "evicted";
      s.why = st.evictions.why(name);
      return s;
    };
    for (const auto& name : st.evictions.all())
      if (!st.membership->index_of(name)) add(name);
    for (uint32_t node = 0; node < st.membership->names().size(); ++node) {
      if (st.places.place_of(node)) continue;
      auto& s = add(st.membership->names()[node]);
      const bool there = is_there(st, node);
      s.state = !s.why.empty() ? "evicted" : there ? "ready" : "absent";
      if (there) s.host = st.members.at(node).hello.host;
    }
  });
}

void stop(coordinator_pointer self, const msg<fbs::StopTraining>& m) {
  self->state.stopping = true;
  self->send(self->state.record.run, m);
}

void take_sick_out(coordinator_pointer self, const std::string& name, const std::string& why) {
  auto& st = self->state;
  const auto node = st.membership->index_of(name);
  const bool evicted = st.evictions.is_evicted(name);
  if (st.ended || !node || evicted || !is_there(st, *node)) return;
  if (st.places.place_of(*node)) return lose_sick(self, *node, name, why);
  st.evictions.evict(name, why);
  end_process(self, *node);
  say(self, fmt::format("{} is evicted ({}); {}", name, why, may_come_again(name)),
      fbs::NoticeLevel::warning);
  show(self);
}

void take_out(coordinator_pointer self) {
  auto& st = self->state;
  for (const auto& [name, evicted] : std::exchange(st.ordered_out, {})) {
    if (evicted) st.evictions.evict(name, evicted_by_a_person);
    auto* who = member_named(st, name);
    if (who == nullptr || who->gone) continue;
    who->gone = who->told = true;
    st.fallen[name] = who->hello.pid;
    st.launches.ended(name, false);
    self->send_exit(who->handle, caf::exit_reason::user_shutdown);  // it may hang
  }
  fill_places(self);
}

void let_leave(coordinator_pointer self) {
  auto& st = self->state;
  for (const auto& name : std::exchange(st.leaving, {})) leave_place(self, name);
}

void release_again(coordinator_pointer self) {
  auto& st = self->state;
  for (const auto& name : std::exchange(st.leaving, {}))
    if (has_place(st, name) && is_dispensable(st, *st.membership->index_of(name)))
      release(self, name);
    else
      leave_place(self, name);
}

}  // namespace troupe::cluster::coordinating
