// A slot at a time, from the first tier into the second.
#include "actors/checkpoint/replicator.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/base/context.hpp"
#include "io/checkpoint/catalog.hpp"
#include "messages/text.hpp"

namespace troupe::checkpoint {

namespace cp = io::checkpoint;
namespace fs = std::filesystem;

namespace {

using replicator_pointer = traced_pointer<replicator_actor, replicator_state>;

constexpr int disk_threads = 2;  ///< one writes, one may hang

/// Whether a folder is another by name only.
bool is_same_folder(io::file_system& files, const fs::path& one, const fs::path& other) {
  const auto first = files.identity(one), second = files.identity(other);
  return first && second && *first == *second;
}

}  // namespace

// -- files ----------------------------------------------------------------------------------------

tier_copies::tier_copies(config::second_tier_section tier, const cp::origin& launch,
                         io::storage& storage)
    : tier_(std::move(tier)), storage_(&storage), caretaker_(launch, storage.files()) {}

status tier_copies::begin(const fs::path& from) {
  const fs::path dir = tier_.dir;
  auto& files = storage_->files();
  TROUPE_CHECK(io::make_folders(files, dir));
  if (is_same_folder(files, from.parent_path(), dir))
    return error{errc::bad_config, fmt::format("{} is the folder of the first tier", dir.string()),
                 "name another in checkpoint.second.dir"};
  TROUPE_TRY(source, cp::reading::begin(files, from));
  TROUPE_TRY(disk,
             storage_->open_disk({io::disk_backend::threads, disk_threads, disk_threads, {}}));
  TROUPE_TRY(copy,
             cp::copier::begin(*disk, cp::folder_source(files, from, io::pages::drop), dir));
  source_ = std::move(source);
  disk_ = std::move(disk);
  copy_ = std::move(copy);
  return {};
}

cp::copy_progress tier_copies::progress() const {
  return copy_ ? copy_->progress() : cp::copy_progress{};
}

void tier_copies::leave() {
  copy_.reset();
  disk_.reset();
  source_.reset();
}

bool tier_copies::holds(const fs::path& from) const {
  auto& files = storage_->files();
  return cp::holds_copy(files, tier_.dir, *cp::folder_source(files, from));
}

status tier_copies::retain() {
  return caretaker_.retain(
      tier_.dir, {static_cast<uint64_t>(tier_.keep), static_cast<uint64_t>(tier_.keep_every),
                  static_cast<uint64_t>(tier_.keep_best)});
}

// -- messages -------------------------------------------------------------------------------------

namespace {

void begin_next(replicator_pointer self);

void show(replicator_pointer self) {
  const auto& st = self->state;
  const auto& now = st.policy.under_way();
  const auto p = st.copies->progress();
  const double s = static_cast<double>(now_ns(*self) - st.copy_began_ns) / 1e9;
  const double rate = now && s > 0 ? static_cast<double>(p.written) / s : 0;
  const auto& c = st.policy.counted();
  publish(self, now ? "copying" : "idle", [&](fbs::ReplicatorStatusT& to) {
    to.step = now ? static_cast<int64_t>(now->step) : -1;
    to.total_bytes = p.total;
    to.written_bytes = p.written;
    to.durable_bytes = p.durable;
    to.bytes_per_s = rate;
    const auto durable = st.policy.durable_step();
    to.durable_step = durable ? static_cast<int64_t>(*durable) : -1;
    to.copied = c.copied;
    to.passed_over = c.passed_over;
    to.failures = c.failed;
  });
}

void hold(replicator_pointer self, uint64_t step, bool held) {
  const auto& st = self->state;
  if (!st.committer) return;
  self->send(st.committer, make_msg<fbs::HoldCheckpoint>(context_of(*self, st.epoch), [&](auto& h) {
               h.step = step;
               h.hold = held;
             }));
}

void tell(replicator_pointer self, fbs::NoticeLevel level, std::string text) {
  const auto& st = self->state;
  if (const auto run = caf::actor_cast<run_actor>(st.run))
    self->send(run, make_msg<fbs::Notice>(context_of(*self, st.epoch), [&](auto& n) {
                 n.level = level;
                 n.text = std::move(text);
               }));
}

/// FinishCopies is answered once nothing is left to do for it.
void say_farewell(replicator_pointer self, const status& how) {
  auto& st = self->state;
  if (!st.last) return;
  auto last = std::move(*st.last);
  st.last.reset();
  if (!how) {
    last.answer.deliver(to_caf(how.error()));
    return;
  }
  last.answer.deliver(make_msg<fbs::CheckpointFolder>(
      context_of(*self, last.cause), [&](fbs::CheckpointFolderT& f) {
        f.directory = (fs::path(st.tier.dir) / cp::complete_name(last.step)).string();
      }));
}

void ended(replicator_pointer self, const status& how) {
  auto& st = self->state;
  const auto step = st.policy.under_way()->step;
  st.copies->leave();
  hold(self, step, false);
  const bool asked = st.last && st.last->step == step;
  switch (st.policy.ended(how)) {
    case copy_policy::news::failed:
      if (asked) break;  // whoever asked hears it
      tell(self, fbs::NoticeLevel::warning,
           fmt::format("checkpoint of step {} is not in the second tier ({}): {}", step,
                       st.tier.dir, render(how.error())));
      break;
    case copy_policy::news::works_again:
      tell(self, fbs::NoticeLevel::info,
           fmt::format("the second tier works again: it has the checkpoint of step {}", step));
      break;
    case copy_policy::news::none:
      break;
  }
  if (how)
    if (auto kept = st.copies->retain(); !kept)
      spdlog::warn("retention of the second tier: {}", render(kept.error()));
  if (asked) say_farewell(self, how);
  begin_next(self);
}

void begin_next(replicator_pointer self) {
  auto& st = self->state;
  const auto next = st.policy.next();
  if (!next) return show(self);
  hold(self, next->step, true);
  st.copy_began_ns = now_ns(*self);
  if (auto begun = st.copies->begin(next->directory); !begun) return ended(self, begun);
  show(self);
  self->send(self, caf::tick_atom_v);
}

/// The next slot; then the mailbox, and a pause where the bandwidth wants one.
void advance(replicator_pointer self) {
  auto& st = self->state;
  if (!st.policy.under_way()) return;
  const auto began = now_ns(*self);
  const auto moved = st.copies->advance();
  if (!moved) return ended(self, moved.error());
  if (st.copies->finished()) return ended(self, {});
  st.limit.spend(*moved, began);
  show(self);
  const auto pause = st.limit.wait_ns(now_ns(*self));
  if (pause > 0)
    self->delayed_send(self, std::chrono::nanoseconds(pause), caf::tick_atom_v);
  else
    self->send(self, caf::tick_atom_v);
}

copy_policy::load load_of(uint64_t step, const flatbuffers::String* directory) {
  return {step, text_of(directory)};
}

caf::result<msg<fbs::CheckpointFolder>> finish(replicator_pointer self,
                                               const msg<fbs::FinishCopies>& m) {
  auto& st = self->state;
  if (st.last) return to_caf({errc::usage, "the last checkpoint was asked for already"});
  auto answer = self->make_response_promise<msg<fbs::CheckpointFolder>>();
  st.last = replicator_state::farewell{m->step(), m.header(), answer};
  const auto what = load_of(m->step(), m->directory());
  const auto& now = st.policy.under_way();
  const bool copying = now && now->step == what.step;
  // Of a run before this one, or the very checkpoint that this one began from.
  if (!copying && st.copies->holds(what.directory)) {
    say_farewell(self, {});
    return answer;
  }
  st.policy.last(what);
  begin_next(self);
  return answer;
}

}  // namespace

replicator_actor::behavior_type replicator(replicator_pointer self,
                                           const train::spawn_record& record,
                                           io::storage* storage) {
  guard_mailbox(self);
  introduce(self, "replicator", record.epoch);
  note_spawn_record(record);
  auto& st = self->state;
  st.epoch = record.epoch;
  st.committer = record.committer;
  st.tier = record.plan.job.checkpoint.second;
  const auto& tier = st.tier;
  st.copies.emplace(tier, record.origin(), *storage);
  st.policy = copy_policy(static_cast<uint64_t>(tier.every));
  st.limit = cp::rate_limit(static_cast<uint64_t>(tier.bytes_per_second));
  show(self);
  return {
      status_handler(self),
      [self](const msg<fbs::CopyCheckpoint>& m) {
        self->state.run = self->current_sender();
        self->state.policy.committed(load_of(m->step(), m->directory()));
        begin_next(self);
      },
      [self](const msg<fbs::FinishCopies>& m) { return finish(self, m); },
      [self](caf::tick_atom) { advance(self); },
  };
}

}  // namespace troupe::checkpoint
