// Begin and end of a rank's folders.
#include "actors/swap/swapper.hpp"

#include <utility>

#include <fmt/format.h>

#include "actors/base/context.hpp"
#include "messages/text.hpp"

namespace troupe::swap {

namespace {

caf::result<msg<fbs::SwapOpened>> open(swapper_pointer self, const msg<fbs::OpenSwap>& m) {
  auto& st = self->state;
  if (st.home) return to_caf(swap_is_open(st.rank));
  publish(self, "opening");
  train::swap_request wanted;
  if (const auto* all = m->directories())
    for (const auto* dir : *all) wanted.dirs.emplace_back(text_of(dir));
  wanted.job = text_of(m->job());
  wanted.rank = static_cast<int>(st.rank);
  wanted.file_bytes = m->file_bytes();
  wanted.checkpoints = text_of(m->checkpoint_directory());
  wanted.consume = m->consume();
  auto made = st.engines->open_swap(wanted);
  if (!made) {
    publish(self, "failed");
    return to_caf(made.error());
  }
  st.home = std::move(*made);
  if (const auto& worker = self->current_sender()) {
    st.worker = caf::actor_cast<caf::actor_addr>(worker);
    self->monitor(worker);
  }
  const auto opened = st.home->opened();
  publish(self, "ready", [&](fbs::SwapperStatusT& s) {
    for (const auto& p : opened.places) {
      s.directory += (s.directory.empty() ? "" : ", ") + p.files.string();
      s.links = s.links || p.links;
      s.free_bytes += p.free_bytes;
    }
  });
  return make_msg<fbs::SwapOpened>(context_of(*self, m.header()), [&](fbs::SwapOpenedT& out) {
    for (const auto& p : opened.places) {
      auto& place = *out.places.emplace_back(std::make_unique<fbs::SwapPlaceT>());
      place.directory = p.files.string();
      place.links = p.links;
      place.free_bytes = p.free_bytes;
    }
    out.consumes = opened.consumes;
  });
}

/// SWA-1.
void end_behind_worker(swapper_pointer self) {
  self->set_down_handler([self](const caf::down_msg& m) {
    auto& st = self->state;
    if (m.source != st.worker) return;
    st.worker = {};
    if (st.leaving) self->quit(caf::exit_reason::user_shutdown);
  });
  self->set_exit_handler([self](const caf::exit_msg& m) {
    auto& st = self->state;
    st.leaving = true;
    if (!st.worker) self->quit(m.reason);
  });
}

}  // namespace

swapper_actor::behavior_type swapper(swapper_pointer self, const train::spawn_record& record,
                                     std::shared_ptr<train::engine_maker> engines) {
  guard_mailbox(self);
  introduce(self, fmt::format("swapper/{}", record.rank), record.epoch);
  note_spawn_record(record);
  auto& st = self->state;
  st.rank = record.rank;
  st.engines = std::move(engines);
  end_behind_worker(self);
  publish(self, "empty", [](fbs::SwapperStatusT&) {});
  return {
      status_handler(self),
      [self](const msg<fbs::OpenSwap>& m) { return open(self, m); },
  };
}

}  // namespace troupe::swap
