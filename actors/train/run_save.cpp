// Votes, commits, and what to do while there is no room for another.
#include "actors/train/run_save.hpp"

#include <filesystem>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "actors/train/gather.hpp"
#include "io/checkpoint/catalog.hpp"

namespace troupe::train {

namespace {

/// Longest a rank's shard or the commit may take before the checkpoint is given up (presumed
/// abort).
constexpr auto save_timeout = std::chrono::minutes(10);

/// One checkpoint on its way; what of the run it speaks of may have gone on.
struct order {
  uint64_t step;
  uint64_t tokens;
  double loss;
  double validation_loss;
  std::string directory;
  std::string state;
  save_done done;

  /// That of all checkpoints.
  std::string folder() const { return std::filesystem::path(directory).parent_path().string(); }
};
using order_ptr = std::shared_ptr<const order>;

/// Whatever waited for room, or for the last one to end.
void go_on_if_free(run_pointer self) {
  auto& st = self->state;
  if (st.waits_for_room && st.pace.has_room()) {
    st.checkpoint_wait_ms += static_cast<double>(now_ns(*self) - st.waits_since_ns) / 1e6;
    std::exchange(st.waits_for_room, nullptr)();
  }
  if (st.waits_for_all && st.pace.open().empty()) std::exchange(st.waits_for_all, nullptr)();
}

/// No step shows a paused run's numbers anew.
void show_while_paused(run_pointer self) {
  if (self->state.waiting) enter(self, "paused");
}

void ended(run_pointer self, const order& o, const status& how) {
  auto& st = self->state;
  st.pace.ended(o.step);
  if (st.ended) return;  // RUN-3
  if (!how) {
    st.save_failure = how.error();
    const auto what = fmt::format("checkpoint of step {} in {}", o.step, o.folder());
    if (!st.last_save || st.last_save->is_news(what, how.error()))
      say(self, fmt::format("checkpoint of step {} failed: {}", o.step, render(how.error())),
          fbs::NoticeLevel::warning);
  }
  if (o.done) o.done(how);
  show_while_paused(self);
  go_on_if_free(self);
}

/// Where the second tier is.
std::filesystem::path second_folder(run_pointer self) {
  const auto& dir = self->state.options.plan.job.checkpoint.second.dir;
  if (dir.empty()) return {};
  const auto path = std::filesystem::absolute(dir).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// The second tier may copy it now, unless it was saved there.
void offer_copy(run_pointer self, uint64_t step, const msg<fbs::CheckpointFolder>& folder) {
  const auto& carrier = self->state.options.carrier;
  if (!carrier || !folder->directory()) return;
  if (std::filesystem::path(folder->directory()->str()).parent_path() == second_folder(self))
    return;
  self->send(carrier, make_msg<fbs::CopyCheckpoint>(context(self), [&](auto& c) {
               c.step = step;
               c.directory = folder->directory()->str();
             }));
}

void abandon(run_pointer self, const order_ptr& o, const error& why) {
  self->send(self->state.options.archive,
             make_msg<fbs::AbandonCheckpoint>(context(self), [&](auto& a) {
               a.step = o->step;
               a.directory = o->directory;
             }));
  ended(self, *o, why);
}

void commit(run_pointer self, const order_ptr& o, const std::vector<msg<fbs::Saved>>& votes) {
  if (self->state.ended) return;
  uint64_t bytes = 0;
  auto m = make_msg<fbs::CommitCheckpoint>(context(self), [&](fbs::CommitCheckpointT& c) {
    c.step = o->step;
    c.directory = o->directory;
    c.tokens = o->tokens;
    c.loss = o->loss;
    c.validation_loss = o->validation_loss;
    c.state = o->state;
    for (const auto& vote : votes) {
      c.shards.push_back(std::make_unique<fbs::SavedT>(vote.unpack()));
      bytes += vote->bytes();
    }
  });
  ask_for<fbs::CheckpointFolder>(
      self, self->state.options.archive, save_timeout, m,
      {"archive", fmt::format("the commit of checkpoint {}", o->step)},
      [self, o, bytes](const msg<fbs::CheckpointFolder>& folder) {
        auto& st = self->state;
        if (o->step >= st.saved_step && folder->directory()) {  // RSV-3
          st.saved_step = o->step;
          st.checkpoint = folder->directory()->str();
        }
        ++st.checkpoints;
        st.checkpoint_bytes += bytes;
        offer_copy(self, o->step, folder);
        ended(self, *o, {});
      },
      [self, o](const error& e) { abandon(self, o, e.within("commit the checkpoint")); });
}

order_ptr order_of(run_pointer self, save_done done, const std::filesystem::path& folder) {
  const auto& st = self->state;
  checkpoint::train_state state{st.step, st.tokens, st.loss, st.config_toml, st.requests.changes()};
  const auto name = io::checkpoint::partial_name(st.step, st.options.epoch);
  return std::make_shared<order>(order{st.step, st.tokens, st.loss, st.validation_loss,
                                       (folder / name).string(), checkpoint::format_state(state),
                                       std::move(done)});
}

void begin_save_in(run_pointer self, const std::filesystem::path& folder, save_done done) {
  auto& st = self->state;
  const auto o = order_of(self, std::move(done), folder);
  st.pace.begun(o->step);
  show_while_paused(self);
  gather<fbs::Saved>(
      self, st.options.stages, save_timeout,
      each_stage(fmt::format("its shard of checkpoint {}", o->step)),
      [self, &o](size_t) {
        return std::tuple(make_msg<fbs::SaveCheckpoint>(context(self), [&](auto& m) {
          m.step = o->step;
          m.directory = o->directory;
        }));
      },
      [self, o](const std::vector<msg<fbs::Saved>>& votes) { commit(self, o, votes); },
      [self, o](size_t, const error& e) { abandon(self, o, e.within("save")); });
}

void save_again(run_pointer self, const std::filesystem::path& folder,
                const std::function<void(const status&)>& then);

/// What the last save waits for: once of each place and cause (LST-3).
void say_waits(run_pointer self, const std::filesystem::path& folder, const error& why,
               int64_t pause_s) {
  auto& st = self->state;
  const auto what = fmt::format("the last checkpoint, of step {}, waits for room in {}", st.step,
                                folder.string());
  if (!st.last_save->is_news(what, why)) return;
  say(self,
      fmt::format("{} ({}): it is tried again every {} s (checkpoint.room_wait_s is {})", what,
                  checkpoint::cause_of(why), pause_s, st.options.plan.job.checkpoint.room_wait_s),
      fbs::NoticeLevel::warning);
}

/// The latest try of the last save has ended, one way or the other.
void judge_last(run_pointer self, std::function<void(const status&)> then) {
  auto& st = self->state;
  if (st.step == 0 || st.saved_step == st.step) {
    if (st.last_save->has_waited())
      say(self,
          fmt::format("the last checkpoint, of step {}, is saved: {}", st.step, st.checkpoint));
    return then({});
  }
  const auto why = st.save_failure.value_or(error{errc::io, "the last save failed"});
  const bool given_up = st.stop_reason && !st.stop_saves;
  const auto next = given_up ? std::nullopt : st.last_save->failed(why, now_ns(*self));
  if (!next) return then(why);
  using tier = checkpoint::last_save_policy::tier;
  const auto folder =
      next->where == tier::second ? second_folder(self) : std::filesystem::path(st.archive_folder);
  st.waits_to_retry = [self, then, folder] { save_again(self, folder, then); };
  if (next->pause_ns == 0) return retry_last(self);
  say_waits(self, folder, why, next->pause_ns / 1'000'000'000);
  enter(self, "waiting for room");
  self->delayed_send(self, std::chrono::nanoseconds(next->pause_ns), caf::tick_atom_v);
}

void begin_again(run_pointer self, const std::filesystem::path& folder,
                 const std::function<void(const status&)>& then) {
  begin_save_in(self, folder, {});
  settle_saves(self, [self, then] { judge_last(self, then); });
}

/// The archive is asked first: it has then removed what the try before left, and its folder is
/// there; the second tier's does not depend on it.
void save_again(run_pointer self, const std::filesystem::path& folder,
                const std::function<void(const status&)>& then) {
  ask_for<fbs::CheckpointFolder>(
      self, self->state.options.archive, save_timeout,
      make_msg<fbs::OpenArchive>(context(self), [](auto&) {}), {"archive", "the open archive"},
      [self, folder, then](const msg<fbs::CheckpointFolder>&) { begin_again(self, folder, then); },
      [self, folder, then](const error& e) {
        if (folder == second_folder(self)) return begin_again(self, folder, then);
        self->state.save_failure = e.within("open the archive");
        judge_last(self, then);
      });
}

}  // namespace

void begin_save(run_pointer self, save_done done) {
  begin_save_in(self, self->state.archive_folder, std::move(done));
}

void save_last(run_pointer self, std::function<void(const status&)> then) {
  auto& st = self->state;
  const auto& c = st.options.plan.job.checkpoint;
  st.last_save.emplace(c.room_wait_s * 1'000'000'000, !c.second.dir.empty());
  const bool saved = st.step == 0 || st.saved_step == st.step;
  if (!saved && !st.pace.open().contains(st.step)) begin_save(self, {});
  settle_saves(self, [self, then = std::move(then)] { judge_last(self, then); });
}

void retry_last(run_pointer self) {
  if (auto& retry = self->state.waits_to_retry) std::exchange(retry, nullptr)();
}

void save_if_due(run_pointer self, std::function<void()> go_on) {
  using verdict = checkpoint::pace_policy::verdict;
  auto& st = self->state;
  const auto& c = st.options.plan.job.checkpoint;
  const auto begin = [self, go_on] {
    begin_save(self, {});
    go_on();
  };
  const bool asked = std::exchange(st.save_wanted, false);
  st.save_point = st.step + 1;
  switch (st.pace.at_step_end(st.step, c.every, c.when_busy, asked)) {
    case verdict::begin:
      return begin();
    case verdict::wait:
      enter(self, "waiting for an older checkpoint");
      st.waits_since_ns = now_ns(*self);
      st.waits_for_room = begin;
      return;
    case verdict::skip:
      if (st.pace.skipped() == 1)
        say(self,
            fmt::format("checkpoint of step {} left out: two older ones are still being written "
                        "(checkpoint.when_busy is skip; the summary counts them)",
                        st.step),
            fbs::NoticeLevel::warning);
      return go_on();
    case verdict::postpone:
    case verdict::none:
      return go_on();
  }
}

void settle_saves(run_pointer self, std::function<void()> then) {
  auto& st = self->state;
  if (st.pace.open().empty()) return then();
  enter(self, "finishing checkpoints");
  st.waits_for_all = std::move(then);
}

void leave_copies(run_pointer self) {
  if (auto& then = self->state.waits_for_copies) std::exchange(then, nullptr)();
}

void settle_copies(run_pointer self, std::function<void()> then) {
  auto& st = self->state;
  const std::chrono::seconds patience(st.options.plan.job.checkpoint.second.wait_s);
  if (!st.options.carrier || st.checkpoint.empty() || patience.count() == 0) return then();
  enter(self, "copying to the second tier");
  st.waits_for_copies = std::move(then);
  ask_for<fbs::CheckpointFolder>(
      self, st.options.carrier, patience,
      make_msg<fbs::FinishCopies>(context(self),
                                  [&](auto& f) {
                                    f.step = st.saved_step;
                                    f.directory = st.checkpoint;
                                  }),
      {"carrier", fmt::format("checkpoint {} in the second tier", st.saved_step)},
      [self](const msg<fbs::CheckpointFolder>&) { leave_copies(self); },
      [self, step = st.saved_step](const error& e) {
        if (self->state.waits_for_copies)
          say(self,
              fmt::format("the last checkpoint, of step {}, is not in the second tier: {}", step,
                          render(e)),
              fbs::NoticeLevel::warning);
        leave_copies(self);
      });
}

void export_model(run_pointer self, std::function<void()> then) {
  auto& st = self->state;
  const auto& job = st.options.plan.job;
  if (!job.checkpoint.export_model || st.checkpoint.empty()) return then();
  enter(self, "exporting the model");
  auto m = make_msg<fbs::ExportModel>(context(self), [&](auto& e) {
    e.checkpoint = st.checkpoint;
    e.directory = (std::filesystem::path(job.job.output) / "model").string();
  });
  ask_for<fbs::CheckpointFolder>(
      self, st.options.archive, save_timeout, m, {"archive", "the exported model"},
      [self, then](const msg<fbs::CheckpointFolder>& folder) {
        self->state.model = folder->directory() ? folder->directory()->str() : "";
        then();
      },
      [self, then](const error& e) {
        say(self, render(e), fbs::NoticeLevel::warning);
        then();
      });
}

}  // namespace troupe::train
