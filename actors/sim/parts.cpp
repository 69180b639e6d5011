// Times in place of work.
#include "actors/sim/parts.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/train/addresses_policy.hpp"
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

// -- worker ---------------------------------------------------------------------------------------

namespace {

/// How long the device takes from now, drawing so many watts: it does one thing after another.
int64_t busy_for(worker_pointer self, int64_t ns, double watts) {
  auto& st = self->state;
  const auto ill = st.room->ailments.find(st.rank);
  const double slow = ill == st.room->ailments.end() ? 1 : ill->second.slow;
  const auto takes = static_cast<int64_t>(static_cast<double>(st.room->about(ns)) * slow);
  const auto begin_ns = std::max(st.busy_until_ns, now_ns(*self));
  st.busy_until_ns = begin_ns + takes;
  st.room->draw_of(st.rank).works(begin_ns, st.busy_until_ns, watts);
  return st.busy_until_ns - now_ns(*self);
}

/// Whether the device is dead to the world; a failure is told once.
std::optional<error> ill(worker_pointer self) {
  auto& all = self->state.room->ailments;
  const auto it = all.find(self->state.rank);
  if (it == all.end() || !it->second.fails) return std::nullopt;
  it->second.fails = false;
  return error{errc::io, "the device reports an uncorrectable error"};
}

bool hangs(worker_pointer self) {
  const auto& all = self->state.room->ailments;
  const auto it = all.find(self->state.rank);
  return it != all.end() && it->second.hangs;
}

template <class R, class Fill>
caf::result<msg<R>> worked(worker_pointer self, const message_header& cause, int64_t ns,
                           double watts, Fill fill) {
  if (hangs(self)) {
    auto rp = self->make_response_promise<msg<R>>();
    self->state.never.push_back(std::make_shared<promise<R>>(rp));
    return rp;
  }
  return answer_later<R>(self, cause, busy_for(self, ns, watts), fill);
}

caf::result<msg<fbs::StageReady>> build(worker_pointer self, const msg<fbs::BuildStage>& m) {
  auto& st = self->state;
  st.last_stage = m->pipeline_rank() + 1 == m->pipeline_ranks();
  st.data_ranks = m->data_ranks();
  st.pipeline_ranks = m->pipeline_ranks();
  return worked<fbs::StageReady>(self, m.header(), st.room->times.build_ns, st.room->draw.other_w,
                                 [rank = st.rank](auto& r) {
                                   r.rank = rank;
                                   r.parameters = 1000;
                                   r.bytes = 16'000;
                                 });
}

/// The groups of a rank, as the real worker's: its own rank in each and the number of members.
struct simulated_group {
  char kind = 0;        ///< of "data" or "pipe"
  uint32_t number = 0;  ///< which of its kind
  uint32_t rank = 0, size = 0;

  std::string name() const { return fmt::format("{}/{}", kind == 'd' ? "data" : "pipe", number); }
};

std::vector<simulated_group> groups_of(const worker_state& st) {
  std::vector<simulated_group> out;
  const auto data = st.rank % st.data_ranks, pipe = st.rank / st.data_ranks;
  if (st.data_ranks > 1) out.push_back({'d', pipe, data, st.data_ranks});
  if (st.pipeline_ranks > 1) out.push_back({'p', data, pipe, st.pipeline_ranks});
  return out;
}

/// As long as one of Gloo's (gpu/collective/gloo.cpp) and unlike any other; nothing for oneself.
std::string address_of(const simulated_group& g, uint32_t from, uint32_t to) {
  if (from == to) return {};
  std::string out(14, '\0');
  const uint32_t words[] = {static_cast<uint32_t>(g.kind) << 24 | g.number, from, to};
  std::memcpy(out.data(), words, sizeof(words));
  return out;
}

caf::result<msg<fbs::DataPlaneOffer>> offer(worker_pointer self, const msg<fbs::OpenDataPlane>& m) {
  const auto& st = self->state;
  return make_msg<fbs::DataPlaneOffer>(context_of(*self, m.header()), [&](auto& o) {
    o.rank = st.rank;
    for (const auto& g : groups_of(st)) {
      auto& out = *o.groups.emplace_back(std::make_unique<fbs::GroupOfferT>());
      out.name = g.name();
      out.rank = g.rank;
      out.size = g.size;
      out.addresses = std::make_unique<fbs::AddressesT>();
      for (uint32_t to = 0; to < g.size; ++to)
        train::add_address(*out.addresses, address_of(g, g.rank, to));
    }
  });
}

/// Finds the others only where the table holds what each of them made for this rank.
std::optional<error> cannot_connect(const worker_state& st, const fbs::DataPlaneTable& table) {
  for (const auto& g : groups_of(st)) {
    const auto name = g.name();
    const fbs::GroupTable* found = nullptr;
    if (table.groups())
      for (const auto* t : *table.groups())
        if (text_of(t->name()) == name) found = t;
    if (found == nullptr) return error{errc::bad_data, fmt::format("no addresses for {}", name)};
    const auto list = train::address_list::of(found->addresses());
    if (!list) return list.error();
    if (list->size() != g.size)
      return error{errc::bad_data, fmt::format("{} addresses for {}", list->size(), name)};
    for (uint32_t from = 0; from < g.size; ++from)
      if (list->at(from) != address_of(g, from, g.rank))
        return error{errc::bad_data, fmt::format("{}: not what rank {} offers", name, from)};
  }
  return std::nullopt;
}

caf::result<msg<fbs::DataPlaneReady>> connect(worker_pointer self,
                                              const msg<fbs::DataPlaneTable>& m) {
  if (auto e = cannot_connect(self->state, *m)) return to_caf(*e);
  const auto& st = self->state;
  return worked<fbs::DataPlaneReady>(self, m.header(), 1'000'000, st.room->draw.other_w,
                                     [rank = st.rank](auto& r) { r.rank = rank; });
}

caf::result<msg<fbs::OpDone>> run_op(worker_pointer self, const msg<fbs::RunOp>& m) {
  auto& st = self->state;
  if (auto e = ill(self)) return to_caf(*e);
  auto done = [m](auto& d) {
    d.step = m->step();
    d.kind = m->kind();
    d.micro_batch = m->micro_batch();
  };
  const auto& times = st.room->times;
  const auto& draw = st.room->draw;
  switch (m->kind()) {
    case fbs::OpKind::forward:
    case fbs::OpKind::evaluate:
      st.forward_ms += static_cast<double>(times.forward_ns) / 1e6;
      return worked<fbs::OpDone>(self, m.header(), times.forward_ns, draw.forward_w, done);
    case fbs::OpKind::backward:
      st.backward_ms += static_cast<double>(times.backward_ns) / 1e6;
      return worked<fbs::OpDone>(self, m.header(), times.backward_ns, draw.backward_w, done);
    case fbs::OpKind::begin:
      st.forward_ms = st.backward_ms = 0;
      break;
    case fbs::OpKind::receive_activation:
    case fbs::OpKind::receive_gradient:
      break;
  }
  return make_msg<fbs::OpDone>(context_of(*self, m.header()), done);
}

msg<fbs::StepDone> step_done(worker_pointer self, const msg<fbs::FinishStep>& m) {
  const auto& st = self->state;
  return make_msg<fbs::StepDone>(context_of(*self, m.header()), [&](auto& d) {
    d.step = m->step();
    d.rank = st.rank;
    d.target_count = st.last_stage ? 100 : 0;
    d.loss_sum = st.last_stage ? 1000.0 / static_cast<double>(m->step() + 100) : 0;
    d.grad_norm = 1;
    d.forward_ms = st.forward_ms;
    d.backward_ms = st.backward_ms;
  });
}

/// A validation ends for each rank by itself; a step ends for all at once.
caf::result<msg<fbs::StepDone>> finish(worker_pointer self, const msg<fbs::FinishStep>& m) {
  auto& st = self->state;
  if (auto e = ill(self)) return to_caf(*e);
  auto rp = self->make_response_promise<msg<fbs::StepDone>>();
  if (hangs(self)) {
    st.never.push_back(std::make_shared<promise<fbs::StepDone>>(rp));
    return rp;
  }
  if (m->evaluation()) {
    later(self, busy_for(self, 0, 0), [self, rp, m]() mutable { rp.deliver(step_done(self, m)); });
    return rp;
  }
  st.room->rates[m->step()] = m->lr();
  auto updated = [self, rp, m](bool ok) mutable {
    if (ok)
      rp.deliver(step_done(self, m));
    else
      rp.deliver(to_caf({errc::unavailable, "a rank has left the group"}));
  };
  const auto& room = *st.room;
  later(self, busy_for(self, room.times.update_ns, room.draw.update_w), [self, m, updated] {
    auto& now = self->state;
    auto go_on = [self, room = now.room, alive = std::weak_ptr<int>(now.alive), updated](bool ok) {
      if (alive.expired()) return;
      room->where.after(0, self->card(), alive, [updated, ok]() mutable { updated(ok); });
    };
    now.ranks->arrive(m->step(), std::move(go_on));
  });
  return rp;
}

/// As the real one: beside the device's work, in the folder that whoever comes first makes.
caf::result<msg<fbs::Saved>> save(worker_pointer self, const msg<fbs::SaveCheckpoint>& m) {
  auto& st = self->state;
  if (auto e = ill(self)) return to_caf(*e);
  const int here = st.room->where.node_of(self->card());
  const auto [where, folder] = st.room->place_of(text_of(m->directory()));
  if (const auto closed = where->closed()) return to_caf(*closed);
  auto rp = self->make_response_promise<msg<fbs::Saved>>();
  auto& disk = where->disk;
  if (!disk.write(folder, part_name(st.rank), here)) {
    disk.make_folder(folder, here);
    disk.write(folder, part_name(st.rank), here);
  }
  if (hangs(self)) {
    st.never.push_back(std::make_shared<promise<fbs::Saved>>(rp));
    return rp;
  }
  later(self, st.room->about(st.room->times.save_ns),
        [self, rp, m, where = where, folder = folder]() mutable {
          auto& now = self->state;
          if (const auto closed = where->closed()) {
            rp.deliver(to_caf(*closed));
            return;
          }
          if (!where->disk.sync(folder, part_name(now.rank))) {
            rp.deliver(to_caf({errc::io, fmt::format("{} has gone", folder)}));
            return;
          }
          rp.deliver(make_msg<fbs::Saved>(context_of(*self, m.header()), [&](auto& s) {
            s.step = m->step();
            s.rank = now.rank;
            s.bytes = s.stream_bytes = 1;
          }));
        });
  return rp;
}

caf::result<msg<fbs::Loaded>> load(worker_pointer self, const msg<fbs::LoadCheckpoint>& m) {
  auto& st = self->state;
  const auto [where, folder] = st.room->place_of(text_of(m->directory()));
  if (where->gone() || !where->disk.has(folder, part_name(st.rank)))
    return to_caf({errc::bad_data, fmt::format("{} lacks a part", text_of(m->directory()))});
  return worked<fbs::Loaded>(self, m.header(), st.room->times.save_ns, st.room->draw.other_w,
                             [rank = st.rank](auto& l) { l.rank = rank; });
}

/// As the real worker: messages of another epoch end here.
template <class T, class R>
auto guarded(worker_pointer self, caf::result<msg<R>> (*handler)(worker_pointer, const msg<T>&)) {
  return [self, handler](const msg<T>& m) -> caf::result<msg<R>> {
    if (!self->state.epoch.accepts(m))
      return to_caf({errc::version_mismatch, "the message is of another epoch"});
    return handler(self, m);
  };
}

}  // namespace

worker_state::~worker_state() {
  // Its sockets close, which the other ranks notice; those of a host that has gone do not.
  if (!room || !ranks || room->where.fell_silent(node)) return;
  room->where.clock().call_at(room->where.now_ns() + 1'000'000, [group = ranks] { group->fail(); });
}

worker_actor::behavior_type worker(worker_pointer self, machine_room* room, uint32_t epoch,
                                   uint32_t rank) {
  guard_mailbox(self);
  introduce(self, fmt::format("worker/{}", rank));
  auto& st = self->state;
  st.room = room;
  st.node = room->where.node_of(self->card());
  st.ranks = room->ranks;
  st.epoch = epoch_gate(epoch);
  st.rank = rank;
  room->draw_of(rank).stops(now_ns(*self));  // what it did for the worker before this one
  return {
      status_handler(self),
      guarded(self, build),
      [self](const msg<fbs::AttachLoader>& m) -> caf::result<msg<fbs::Ack>> {
        return make_msg<fbs::Ack>(context_of(*self, m.header()));
      },
      guarded(self, offer),
      guarded(self, connect),
      guarded(self, run_op),
      guarded(self, finish),
      guarded(self, save),
      guarded(self, load),
      [](caf::update_atom) {},
  };
}

// -- meters ---------------------------------------------------------------------------------------

namespace {

class room_reader final : public gpu::meter_reader {
 public:
  room_reader(machine_room* room, std::vector<uint32_t> ranks)
      : room_(room), ranks_(std::move(ranks)) {}

  std::vector<gpu::metered> read(int64_t now_ns) override {
    std::vector<gpu::metered> out;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const auto r = room_->draw_of(ranks_[i]).read(now_ns);
      out.push_back({fmt::format("gpu{}", i), gpu::metered_kind::accelerator, r.power_w,
                     room_->draw.limit_w, r.temperature_c, r.busy_percent});
    }
    return out;
  }

 private:
  machine_room* room_;
  std::vector<uint32_t> ranks_;
};

}  // namespace

std::unique_ptr<gpu::meter_reader> make_reader(machine_room* room, std::vector<uint32_t> ranks) {
  return std::make_unique<room_reader>(room, std::move(ranks));
}

// -- loader ---------------------------------------------------------------------------------------

loader_actor::behavior_type loader(loader_pointer self, machine_room* room, uint32_t epoch,
                                   const std::string& node) {
  guard_mailbox(self);
  introduce(self, fmt::format("loader/{}", node));
  self->state.room = room;
  self->state.epoch = epoch_gate(epoch);
  return {
      status_handler(self),
      [self](const msg<fbs::OpenLoader>& m) -> caf::result<msg<fbs::LoaderReady>> {
        if (m->consumers())
          for (const auto rank : *m->consumers()) {
            self->state.asked[{rank, fbs::Split::train}] = m->first_step() - 1;
            self->state.asked[{rank, fbs::Split::validation}] = 0;
          }
        auto& r = *self->state.room;
        return answer_later<fbs::LoaderReady>(self, m.header(), r.about(r.times.open_ns),
                                              [](auto& l) {
                                                l.tokens = 1'000'000;
                                                l.train_windows = 10'000;
                                                l.validation_windows = 100;
                                                l.slot_bytes = 1;
                                                l.slots = 6;
                                              });
      },
      [self](const msg<fbs::BatchRequest>& m) -> caf::result<msg<fbs::BatchReady>> {
        const auto it = self->state.asked.find({m->consumer(), m->split()});
        if (it == self->state.asked.end())
          return to_caf({errc::not_found, fmt::format("{} is no consumer", m->consumer())});
        const bool again = m->split() == fbs::Split::validation && m->step() == 1;
        if (!again && m->step() != it->second && m->step() != it->second + 1)
          return to_caf({errc::bug, fmt::format("rank {} asks for batch {} after batch {}",
                                                m->consumer(), m->step(), it->second)});
        it->second = m->step();
        auto& r = *self->state.room;
        return answer_later<fbs::BatchReady>(self, m.header(), r.about(r.times.fetch_ns),
                                             [step = m->step()](auto& b) {
                                               b.step = step;
                                               b.slot = static_cast<uint32_t>(step % 4);
                                             });
      },
  };
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
