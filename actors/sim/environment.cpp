// What is told, and who can be reached.
#include "actors/sim/environment.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/checkpoint/committer.hpp"
#include "actors/job/replicas_policy.hpp"
#include "io/base/counted.hpp"
#include "messages/text.hpp"

namespace troupe::sim {

namespace {

/// `then` after `delay_ns`, as a part of the actor.
template <class Self, class F>
void later(Self* self, int64_t delay_ns, F then) {
  self->state.room->where.after(delay_ns, self->stats(), self->state.alive, std::move(then));
}

}  // namespace

std::string folder_counts::text() const {
  return fmt::format(
      "{} into the second tier, {} there, {} from it, {} without it; {}, {} cut off, {} beside a "
      "person's; {} refused, {} after one was killed",
      counted(copies, "copy", "copies"), counted(second_falls, "last save"),
      counted(second_starts, "start"), blind_starts, counted(exports, "export"), cut_exports,
      beside, counted(refused, "launcher"), successors);
}

folder_counts& folder_counts::operator+=(const folder_counts& o) {
  copies += o.copies;
  second_falls += o.second_falls;
  second_starts += o.second_starts;
  blind_starts += o.blind_starts;
  exports += o.exports;
  cut_exports += o.cut_exports;
  beside += o.beside;
  refused += o.refused;
  successors += o.successors;
  return *this;
}

result<shares_of_ranks> shares_by_replicas(const train::job_plan& whole) {
  shares_of_ranks out;
  for (const auto n : train::replica_counts(whole.job)) {
    TROUPE_TRY(plan, train::with_replicas(whole, n));
    TROUPE_TRY(shares, checkpoint::shares_of(plan));
    out[static_cast<int>(n)] = std::move(shares);
  }
  return out;
}

void environment::note_split(const any_msg& m, const train::job_plan& planned) {
  if (!train::is_split_open(planned.job) || m.type() != message_traits<fbs::ClusterReady>::id)
    return;
  const auto layers =
      text_of(flatbuffers::GetRoot<fbs::ClusterReady>(m.payload().data())->layers());
  auto settled = planned;
  if (!train::settle_layers(settled, layers))
    return where.violation(fmt::format("{} are no layers of the stages", layers));
  if (auto shares = shares_by_replicas(settled)) plans = std::move(*shares);
}

int fewest_nodes_of(const config::job& job) {
  return static_cast<int>(train::places_for(job, 1));
}

result<io::checkpoint::reader> environment::opened(const std::filesystem::path& checkpoint) {
  const auto manifest = files.store().version_of(checkpoint / io::checkpoint::manifest_file);
  auto& [node, reader] = last_opened;
  if (!manifest || node != manifest->first || !reader) {
    TROUPE_TRY(made, io::checkpoint::reader::open(files.timeless(), checkpoint));
    last_opened = {manifest ? manifest->first : 0, std::move(made)};
  }
  return *reader;
}

// -- barrier --------------------------------------------------------------------------------------

std::shared_ptr<rank_barrier> environment::barrier_of(uint64_t epoch, const rank_grid& grid) {
  auto& barrier = barriers[epoch];
  if (!barrier) {
    barrier = std::make_shared<rank_barrier>();
    barrier->size = static_cast<size_t>(grid.ranks());
  }
  return barrier;
}

void environment::note_rate(uint64_t epoch, uint64_t step, double lr) {
  const auto [used, first] = rates.try_emplace({epoch, step}, lr);
  if (!first && used->second != lr)  // SIM-11
    where.violation(fmt::format("ranks used learning rates of {} and {} in step {} of epoch {}",
                                used->second, lr, step, epoch));
}

void environment::note_spilling(uint64_t epoch, uint64_t step, int stage, int from) {
  const auto [known, first] = spills_from.try_emplace({epoch, step, stage}, from);
  if (!first && known->second != from)  // SIM-33
    where.violation(
        fmt::format("ranks of stage {} spill from layers {} and {} on in step {} of epoch {}",
                    stage, known->second, from, step, epoch));
}

bool environment::draw_together(uint64_t epoch, uint64_t step, shared_draw what,
                                double probability) {
  const std::tuple key(epoch, step, what);
  if (const auto known = drawn_together.find(key); known != drawn_together.end())
    return known->second;
  return drawn_together.emplace(key, chance.chance(probability)).first->second;
}

void rank_barrier::arrive(uint64_t step, waiter who) {
  if (broken) return who.go_on(false, 0);
  auto& here = waiting[step];
  here.push_back(std::move(who));
  if (here.size() < size) return;
  const auto all = std::move(here);
  waiting.erase(step);
  std::map<int, int64_t> came_ns;  // the last of each stage
  for (const auto& one : all) came_ns[one.stage] = one.came_ns;
  for (const auto& one : all) one.go_on(true, came_ns[one.stage]);
}

void rank_barrier::add_moves(const grid_rank& at, uint64_t step, const gpu::step_moves& own,
                             moves_told go_on) {
  if (broken) return go_on(false, {});
  const std::pair key(at.place().pipeline, step);
  auto& sum = moves[key];
  sum.all += own;
  sum.go_on.push_back(std::move(go_on));
  if (sum.go_on.size() < static_cast<size_t>(at.grid.data)) return;
  const auto whole = std::move(moves.extract(key).mapped());
  for (const auto& told : whole.go_on) told(true, whole.all);
}

void rank_barrier::fail() {
  if (std::exchange(broken, true)) return;
  for (const auto& [step, all] : std::exchange(waiting, {}))
    for (const auto& one : all) one.go_on(false, 0);
  for (const auto& [key, sum] : std::exchange(moves, {}))
    for (const auto& told : sum.go_on) told(false, {});
}

// -- launcher -------------------------------------------------------------------------------------

launcher_actor::behavior_type launcher(launcher_pointer self,
                                       std::function<void(const std::string&)> start) {
  guard_mailbox(self);
  introduce(self, "launcher");
  self->state.start = std::move(start);
  return {
      status_handler(self),
      [self](const msg<fbs::Launch>& m) { self->state.start(text_of(m->node())); },
  };
}

// -- reporter -------------------------------------------------------------------------------------

reporter_actor::behavior_type reporter(reporter_pointer self, std::shared_ptr<told> heard) {
  guard_mailbox(self);
  introduce(self, "reporter");
  self->state.heard = std::move(heard);
  return {
      status_handler(self),
      [self](const msg<fbs::StepReport>& m) {
        auto& h = *self->state.heard;
        if (!h.ends.empty()) h.spoke_after_end = true;
        const bool is_last = !h.steps.empty() && h.steps.back() == m->step();
        if (is_last && h.epochs.back() == m.epoch() && m->validation_loss() >= 0) return;  // JOB-21
        h.last_step_ns = now_ns(*self);
        if (h.first_step_ns < 0) h.first_step_ns = h.last_step_ns;
        h.steps.push_back(m->step());
        h.rates.push_back(m->lr());
        h.losses.push_back(m->loss());
        h.epochs.push_back(m.epoch());
        h.saved_before.push_back(h.saved_step);
        h.saved_step = std::max(h.saved_step, m->saved_step());
        if (m->saved_step() > 0) h.saved.insert(m->saved_step());
      },
      [self](const msg<fbs::Notice>& m) {
        self->state.heard->notices.push_back(text_of(m->text()));
      },
      [self](const msg<fbs::IncidentReport>& m) {
        if (m->incident() != nullptr)
          m->incident()->UnPackTo(&self->state.heard->incidents.emplace_back());
      },
      [](const msg<fbs::Evidence>&) {},  // of a monitor: what it found is judged elsewhere
      [self](const msg<fbs::RunEnded>& m) { self->state.heard->ends.push_back(m.unpack()); },
  };
}

// -- connector ------------------------------------------------------------------------------------

namespace {

constexpr int64_t handshake_ns = 500'000;

/// A cut link never answers; a dead process refuses.
void connect(connector_pointer self, caf::response_promise rp, const std::string& host,
             uint16_t port) {
  later(self, handshake_ns, [self, rp, host, port]() mutable {
    auto& room = *self->state.room;
    const auto it = room.addresses.find({host, port});
    if (it == room.addresses.end() || !room.where.alive(it->second.node))
      return rp.deliver(caf::make_error(caf::sec::cannot_connect_to_node));
    const int here = self->state.node, there = it->second.node;
    if (room.reconnects && room.where.broken(here, there)) {
      const bool both_ways = room.where.passes(here, there) && room.where.passes(there, here);
      if (both_ways && !room.where.frozen(there)) room.where.reconnect(here, there);
    }
    if (!room.where.reachable(here, there) || !room.where.passes(there, here)) return;
    rp.deliver(caf::make_message(caf::node_id{}, it->second.actor, std::set<std::string>{}));
  });
}

}  // namespace

caf::behavior connector(connector_pointer self, environment* room, int node) {
  guard_mailbox(self);
  introduce(self, fmt::format("connector/{}", node));
  self->state.room = room;
  self->state.node = node;
  return {
      [self](caf::publish_atom, uint16_t, const caf::strong_actor_ptr& who,
             const std::set<std::string>&, const std::string& address, bool) -> uint16_t {
        auto& r = *self->state.room;
        const uint16_t port = ++r.last_port;
        r.addresses[{address, port}] = {who, self->state.node};
        return port;
      },
      [self](caf::connect_atom, const std::string& host, uint16_t port) {
        auto rp = self->make_response_promise();
        connect(self, rp, host, port);
        return rp;
      },
  };
}

}  // namespace troupe::sim
