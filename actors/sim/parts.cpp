// Times in place of work.
#include "actors/sim/parts.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "io/checkpoint/catalog.hpp"
#include "messages/text.hpp"

namespace troupe::sim {

namespace {

template <class T>
using promise = caf::typed_response_promise<msg<T>>;

/// `then` after `delay_ns`, as a part of the actor.
template <class Self, class F>
void later(Self* self, int64_t delay_ns, F then) {
  self->state.room->where.after(delay_ns, self->card(), self->state.alive, std::move(then));
}

/// An answer after a while.
template <class R, class Self, class Fill>
caf::result<msg<R>> answer_later(Self* self, const message_header& cause, int64_t delay_ns,
                                 Fill fill) {
  auto rp = self->template make_response_promise<msg<R>>();
  later(self, delay_ns, [self, rp, cause, fill]() mutable {
    rp.deliver(make_msg<R>(context_of(*self, cause), fill));
  });
  return rp;
}

}  // namespace

std::string part_name(uint32_t rank) {
  return fmt::format("part-{:05}", rank);
}

// -- tiers ----------------------------------------------------------------------------------------

std::optional<error> tier::closed() const {
  if (out == outage::full) return error{errc::io, "no space is left"};
  if (out == outage::gone) return error{errc::not_found, "the folder is gone"};
  return std::nullopt;
}

std::string folder_counts::text() const {
  return fmt::format(
      "{} copies into the second tier, {} last saves there, {} starts from it, {} without it; {} "
      "exports, {} cut off, {} beside a person's; {} launchers refused, {} after one was killed",
      copies, second_falls, second_starts, blind_starts, exports, cut_exports, beside, refused,
      successors);
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

std::string machine_room::model_of(const std::filesystem::path& folder) {
  const auto [where, name] = place_of(folder);
  const auto head = where->gone() ? std::nullopt : where->disk.head_of(name);
  if (!head) return "";
  return fmt::format("step {} of launch {}", head->step,
                     io::checkpoint::line_of(*head).back().launch);
}

// -- gang -----------------------------------------------------------------------------------------

void gang::arrive(uint64_t step, std::function<void(bool ok)> go_on) {
  if (broken) return go_on(false);
  auto& here = waiting[step];
  here.push_back(std::move(go_on));
  if (here.size() < size) return;
  const auto all = std::move(here);
  waiting.erase(step);
  for (const auto& one : all) one(true);
}

void gang::fail() {
  if (std::exchange(broken, true)) return;
  for (const auto& [step, all] : std::exchange(waiting, {}))
    for (const auto& one : all) one(false);
}

// -- archive --------------------------------------------------------------------------------------

namespace {

/// A commit under way.
struct commit_order {
  msg<fbs::CommitCheckpoint> m;
  promise<fbs::CheckpointFolder> answer;
  tier* where = nullptr;
  std::string partial;
};
using commit_ptr = std::shared_ptr<commit_order>;

/// The next step of a commit, some time after the one before, unless the tier takes nothing now.
template <class F>
void next_step_of(archive_pointer self, const commit_ptr& o, int64_t pause, F then) {
  later(self, pause, [o, then = std::move(then)]() mutable {
    if (const auto closed = o->where->closed())
      o->answer.deliver(to_caf(*closed));
    else
      then();
  });
}

std::vector<std::string> in_use(archive_pointer self) {
  std::vector<std::string> out;
  for (const auto step : self->state.held) out.push_back(io::checkpoint::complete_name(step));
  return out;
}

void keep_what_rules_keep(archive_pointer self) {
  auto& room = *self->state.room;
  retain(room.tiers[0], room.launch, in_use(self));
}

void committed(archive_pointer self, const commit_ptr& o) {
  o->where->disk.settle();
  const auto folder = std::filesystem::path(text_of(o->m->directory())).parent_path() /
                      io::checkpoint::complete_name(o->m->step());
  o->answer.deliver(make_msg<fbs::CheckpointFolder>(
      context_of(*self, o->m.header()), [&](auto& f) { f.directory = folder.string(); }));
  keep_what_rules_keep(self);
}

/// The steps of a commit as the real archive takes them (archive.hpp), each some time after the
/// one before, so that a crash falls between any two.
void commit(archive_pointer self, const msg<fbs::CommitCheckpoint>& m,
            promise<fbs::CheckpointFolder> rp) {
  auto& room = *self->state.room;
  const int here = room.where.node_of(self->card());
  const int64_t pause = room.about(room.times.commit_ns);
  const auto [where, partial] = room.place_of(text_of(m->directory()));
  const auto o = std::make_shared<commit_order>(commit_order{m, std::move(rp), where, partial});
  std::optional<error> why = where->closed();
  if (m->shards())
    for (const auto* s : *m->shards())
      if (!why && !where->disk.has(partial, part_name(s->rank())))
        why = error{errc::io, fmt::format("{} lacks rank {}", partial, s->rank())};
  if (why) {
    o->answer.deliver(to_caf(*why));
    return;
  }
  where->disk.write(partial, "MANIFEST", here);
  io::checkpoint::manifest_head head;
  head.step = m->step();
  head.epoch = m.header().epoch;
  head.line = room.launch.at(m->step());
  where->disk.describe(partial, std::move(head));
  next_step_of(self, o, pause, [self, o, here, pause] {
    o->where->disk.sync(o->partial, "MANIFEST");
    next_step_of(self, o, pause, [self, o, here, pause] {
      publish_folder(o->where->disk, o->partial, o->m->step(), here);
      next_step_of(self, o, pause, [self, o] { committed(self, o); });
    });
  });
}

result<std::filesystem::path> export_now(machine_room& room, const std::string& what) {
  if (what.empty()) return error{errc::not_found, "the checkpoint is gone"};
  TROUPE_TRY(made, room.folders->export_model(what));
  ++room.counted.exports;
  if (made.filename() != "model") ++room.counted.beside;
  return made;
}

/// On real files where the simulation has them; else all that is left of it is its time.
caf::result<msg<fbs::CheckpointFolder>> export_later(archive_pointer self,
                                                     const msg<fbs::ExportModel>& m) {
  auto& st = self->state;
  auto rp = self->make_response_promise<msg<fbs::CheckpointFolder>>();
  if (st.room->folders) st.exporting = st.room->model_of(text_of(m->checkpoint()));
  later(self, st.room->about(st.room->times.export_ns), [self, m, rp]() mutable {
    auto& now = self->state;
    std::string folder = text_of(m->directory());
    if (const auto what = std::exchange(now.exporting, std::nullopt)) {
      const auto made = export_now(*now.room, *what);
      if (!made) {
        rp.deliver(to_caf(made.error()));
        return;
      }
      folder = made->string();
    }
    rp.deliver(make_msg<fbs::CheckpointFolder>(context_of(*self, m.header()),
                                               [&](auto& f) { f.directory = folder; }));
  });
  return rp;
}

void hold(archive_pointer self, const msg<fbs::HoldCheckpoint>& m) {
  if (m->hold())
    self->state.held.insert(m->step());
  else if (self->state.held.erase(m->step()) > 0)
    keep_what_rules_keep(self);
}

}  // namespace

archive_state::~archive_state() {
  if (!exporting || exporting->empty() || !room->folders) return;
  ++room->counted.cut_exports;
  room->folders->cut_export(*exporting, static_cast<uint64_t>(room->where.now_ns()));
}

archive_actor::behavior_type archive(archive_pointer self, machine_room* room) {
  guard_mailbox(self);
  introduce(self, "archive");
  self->state.room = room;
  return {
      status_handler(self),
      [self](const msg<fbs::OpenArchive>& m) -> caf::result<msg<fbs::CheckpointFolder>> {
        auto& r = *self->state.room;
        if (r.tiers[0].gone()) return to_caf(*r.tiers[0].closed());
        return answer_later<fbs::CheckpointFolder>(self, m.header(), r.about(r.times.commit_ns),
                                                   [](auto&) {});
      },
      [self](const msg<fbs::CommitCheckpoint>& m) -> caf::result<msg<fbs::CheckpointFolder>> {
        auto rp = self->make_response_promise<msg<fbs::CheckpointFolder>>();
        commit(self, m, rp);
        return rp;
      },
      [](const msg<fbs::AbandonCheckpoint>&) {},
      [self](const msg<fbs::HoldCheckpoint>& m) { hold(self, m); },
      [self](const msg<fbs::ExportModel>& m) { return export_later(self, m); },
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
        h.steps.push_back(m->step());
        h.rates.push_back(m->lr());
        h.saved_step = std::max(h.saved_step, m->saved_step());
        if (m->saved_step() > 0) h.saved.insert(m->saved_step());
      },
      [self](const msg<fbs::Notice>& m) {
        self->state.heard->notices.push_back(text_of(m->text()));
      },
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
    if (!room.where.reachable(self->state.node, it->second.node)) return;
    rp.deliver(caf::make_message(caf::node_id{}, it->second.actor, std::set<std::string>{}));
  });
}

}  // namespace

caf::behavior connector(connector_pointer self, machine_room* room, int node) {
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
