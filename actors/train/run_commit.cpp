// Whether this head still acts; then the votes, in pages; then the order.
#include "actors/train/run_commit.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "actors/base/ask.hpp"
#include "actors/base/context.hpp"
#include "actors/base/defaults.hpp"
#include "actors/job/votes.hpp"
#include "io/checkpoint/retention.hpp"
#include "messages/text.hpp"

namespace troupe::train {

namespace {

/// RUN-6. `then` is told, now or later.
void if_it_acts(run_pointer self, std::function<void(const status&)> then) {
  const auto& elector = self->state.record.elector;
  if (!elector) return then({});
  ask_either<fbs::Elected>(
      self, elector, std::tuple(make_msg<fbs::Elect>(context_of(*self, 0), [](auto&) {})),
      {"elector", "votes that this head still acts"},
      [then](const result<msg<fbs::Elected>>& won) {
        then(won ? status() : status(won.error()));
      });
}

/// By the votes of the ranks of `epoch`, whatever has become of them since.
void order_commit(run_pointer self, const todo::commit& order, uint32_t epoch,
                  const std::vector<msg<fbs::Saved>>& votes) {
  auto pages = checkpoint::in_pages(votes);
  for (; pages.size() > 1; pages.erase(pages.begin()))
    self->send(self->state.record.committer,
               make_msg<fbs::SaveVotes>(context_of(*self, epoch), [&](fbs::SaveVotesT& v) {
                 v.step = order.step;
                 v.shards = std::move(pages.front());
               }));
  const auto context = context_of(*self, epoch);
  auto m = make_msg<fbs::CommitCheckpoint>(context, [&](fbs::CommitCheckpointT& c) {
    c.step = order.step;
    c.directory = order.folder;
    c.tokens = order.tokens;
    c.loss = order.loss;
    c.validation_loss = order.validation_loss;
    c.state = order.state;
    c.shards = std::move(pages.back());
  });
  ask_for<fbs::CheckpointFolder>(
      self, self->state.record.committer, m,
      {"committer", fmt::format("the commit of checkpoint {}", order.step)},
      [self, step = order.step](const msg<fbs::CheckpointFolder>& folder) {
        hear(self, heard::committed{step, text_of(folder->directory())});
      },
      [self, step = order.step](const error& e) {
        hear(self, heard::save_failed{step, e.within("commit the checkpoint")});
      });
}

/// Of a checkpoint whose files ranks will update.
struct giving_up {
  std::string checkpoint;
  std::function<void()> then;
  uint32_t epoch = 0;
  int64_t end_ns = 0;  ///< the committer has answered by then, and begins nothing behind it

  bool is_awaited(run_pointer self) const {
    return epoch == self->epoch() && self->state.job.state() == job_state::stepping;
  }
};

void order_give_up(run_pointer self, const giving_up& order);

/// Whoever reads it is waited for: the replicator does while it copies what was saved last.
void hear_refusal(run_pointer self, const giving_up& order, const error& why) {
  const std::chrono::nanoseconds pause = defaults::give_up_pause;
  if (!order.is_awaited(self)) return;
  const bool in_time = now_ns(*self) + pause.count() < order.end_ns;
  if (!in_time || !why.is(io::checkpoint::not_given_up_yet))
    return hear(self, heard::ask_failed{why.within("give the checkpoint up")});
  self->state.asks_again = [self, order] { order_give_up(self, order); };
  self->state.asks_again_ns = now_ns(*self) + pause.count();
  self->delayed_send(self, pause, caf::tick_atom_v);
}

void order_give_up(run_pointer self, const giving_up& order) {
  if (!order.is_awaited(self)) return;
  if_it_acts(self, [self, order](const status& acts) {
    if (!acts) return hear_refusal(self, order, acts.error());
    if (!order.is_awaited(self)) return;
    const auto left = std::chrono::floor<std::chrono::milliseconds>(
        std::chrono::nanoseconds(order.end_ns - now_ns(*self)));
    if (left.count() <= 0)
      return hear_refusal(self, order, io::checkpoint::given_up_too_late(order.checkpoint));
    ask_for<fbs::Ack>(
        self, self->state.record.committer,
        make_msg<fbs::GiveUpCheckpoint>(context_of(*self, self->state.record.epoch),
                                        [&](auto& g) {
                                          g.directory = order.checkpoint;
                                          g.left_ms = static_cast<uint64_t>(left.count());
                                        }),
        {"committer", fmt::format("that {} is given up", order.checkpoint), left},
        [self, order](const msg<fbs::Ack>&) {
          if (order.is_awaited(self)) order.then();
        },
        [self, order](const error& e) { hear_refusal(self, order, e); });
  });
}

}  // namespace

void commit(run_pointer self, const todo::commit& order) {
  auto& st = self->state;
  const auto written = std::make_shared<written_shards>(std::exchange(st.votes[order.step], {}));
  st.votes.erase(order.step);
  if_it_acts(self, [self, order, written](const status& acts) {
    if (acts) return order_commit(self, order, written->epoch, written->votes);
    hear(self, heard::save_failed{order.step, acts.error().within("commit the checkpoint")});
  });
}

void give_up(run_pointer self, const std::string& checkpoint, std::function<void()> then) {
  const std::chrono::nanoseconds patience =
      self->timeouts().of(contract_of<committer_actor, fbs::GiveUpCheckpoint>());
  order_give_up(self,
                {checkpoint, std::move(then), self->epoch(), now_ns(*self) + patience.count()});
}

void ask_again(run_pointer self) {
  if (!self->state.asks_again) return;  // before the clock, each reading of which is recorded
  if (now_ns(*self) < self->state.asks_again_ns) return;  // a tick of somebody else's wait
  std::exchange(self->state.asks_again, {})();
}

void amend(run_pointer self, const todo::amend& order) {
  ++self->state.amendments;
  const auto over = [self, folder = order.folder](const auto& outcome) {
    if (!outcome) {
      // Who is late may write it still, as behind the removal of an old checkpoint.
      const bool is_late = outcome.error().code == errc::timeout;
      const auto what =
          is_late ? fmt::format("it is not known whether {} has its validation loss", folder)
                  : folder + " stays without its validation loss";
      say(self, {fmt::format("{}: {}", what, render(outcome.error())), true});
    }
    if (--self->state.amendments > 0) return;
    for (const auto& next : std::exchange(self->state.behind_amendments, {})) next();
  };
  if_it_acts(self, [self, order, over](const status& acts) {
    if (!acts) return over(acts);
    ask_either<fbs::Ack>(
        self, self->state.record.committer,
        std::tuple(make_msg<fbs::AmendCheckpoint>(context_of(*self, self->state.record.epoch),
                                                  [&](auto& a) {
                                                    a.directory = order.folder;
                                                    a.validation_loss = order.validation_loss;
                                                  })),
        {"committer", fmt::format("the loss in {}", order.folder), defaults::amend_patience}, over);
  });
}

void behind_amendments(run_pointer self, std::function<void()> then) {
  if (self->state.amendments == 0) return then();
  self->state.behind_amendments.push_back(std::move(then));
}

void abandon(run_pointer self, const todo::abandon& order) {
  self->state.votes.erase(order.step);
  self->send(
      self->state.record.committer,
      make_msg<fbs::AbandonCheckpoint>(context_of(*self, self->state.record.epoch), [&](auto& a) {
        a.step = order.step;
        a.directory = order.folder;
      }));
}

void copy(run_pointer self, const todo::copy& order) {
  behind_amendments(self, [self, order] {
    self->send(
        self->state.record.replicator,
        make_msg<fbs::CopyCheckpoint>(context_of(*self, self->state.record.epoch), [&](auto& m) {
          m.step = order.step;
          m.directory = order.folder;
        }));
  });
}

void hold(run_pointer self, const todo::hold& order) {
  self->send(
      self->state.record.committer,
      make_msg<fbs::HoldCheckpoint>(context_of(*self, self->state.record.epoch), [&](auto& m) {
        m.step = order.step;
        m.hold = order.hold;
      }));
}

void reopen_folder(run_pointer self) {
  ask_for<fbs::CheckpointFolder>(
      self, self->state.record.committer, folder_order(self), {"committer", "the open folder"},
      [self](const msg<fbs::CheckpointFolder>&) { hear(self, heard::folder_open{}); },
      [self](const error& e) { hear(self, heard::folder_open{e}); });
}

void export_model(run_pointer self, const todo::export_model& order) {
  auto m = make_msg<fbs::ExportModel>(context_of(*self, self->state.record.epoch), [&](auto& e) {
    e.checkpoint = order.checkpoint;
    e.directory = order.folder;
  });
  ask_for<fbs::CheckpointFolder>(
      self, self->state.record.committer, m, {"committer", "the exported model"},
      [self](const msg<fbs::CheckpointFolder>& folder) {
        hear(self, heard::exported{text_of(folder->directory()), {}});
      },
      [self](const error& e) {
        hear(self, heard::exported{"", e});
      });
}

void finish_copies(run_pointer self, const todo::finish_copies& order) {
  behind_amendments(self, [self, order] {
    ask_for<fbs::CheckpointFolder>(
        self, self->state.record.replicator,
        make_msg<fbs::FinishCopies>(context_of(*self, self->state.record.epoch),
                                    [&](auto& f) {
                                      f.step = order.step;
                                      f.directory = order.folder;
                                    }),
        {"replicator", fmt::format("checkpoint {} in the second tier", order.step)},
        [self](const msg<fbs::CheckpointFolder>&) { hear(self, heard::copied{}); },
        [self](const error& e) { hear(self, heard::copied{e}); });
  });
}

}  // namespace troupe::train
