// One question to each loader, and the same again while text is tokenised.
#include "actors/train/run_data.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/base/context.hpp"
#include "actors/base/gather.hpp"
#include "actors/job/skipped_data.hpp"
#include "actors/train/resume_policy.hpp"
#include "actors/train/run_commit.hpp"

namespace troupe::train {

namespace {

enum class data_request { first, again };

void data_is_open(run_pointer self, const std::vector<msg<fbs::LoaderReady>>& replies) {
  auto& st = self->state;
  for (const auto& r : replies) st.loaders.push_back(r.unpack());
  heard::phase_done done{start_phase::open_data};
  if (!st.loaders.empty()) {
    const auto& l = st.loaders.front();
    done.tokens = l.tokens;
    done.train_windows = l.train_windows;
    done.validation_windows = l.validation_windows;
  }
  hear(self, std::move(done));
}

msg<fbs::OpenLoader> loader_order(run_pointer self, size_t loader, data_request request) {
  const auto& st = self->state;
  return make_msg<fbs::OpenLoader>(context_of(*self, st.record.epoch), [&](auto& m) {
    m.config_toml = st.job.config_toml();
    m.vocab = static_cast<uint32_t>(st.job.plan().model.vocab);
    m.consumers = st.crew.loaders[loader].ranks;
    m.first_step = st.job.step() + 1;
    m.first_row = first_row_after(st.job.tokens(), st.job.plan().job.train.seq_len);
    m.skipped = to_message(st.job.skipped());
    // Of what was asked for again the first request goes on telling. RUN-7
    m.tells_progress = request == data_request::first;
  });
}

void ask_for_data(run_pointer self, data_request request);

/// RUN-7
void data_is_late(run_pointer self, error e) {
  if (e.code == errc::timeout) {
    if (self->state.loader_told) return ask_for_data(self, data_request::again);
    e.hint =
        "for timeouts.start_s nobody has told how far it has come; whole shards of what was "
        "tokenised are kept: the same command goes on";
  }
  hear(self, heard::ask_failed{e.within("open the data")});
}

void ask_for_data(run_pointer self, data_request request) {
  auto& st = self->state;
  st.loader_told = false;
  std::vector<loader_actor> targets;
  for (const auto& l : st.crew.loaders) targets.push_back(l.loader);
  gather<fbs::LoaderReady>(
      self, targets,
      [](size_t) {
        return awaited{"loader/*", "open data"};
      },
      [self, request](size_t i) { return std::tuple(loader_order(self, i, request)); },
      [self](const auto& replies) { data_is_open(self, replies); },
      [self](size_t, const error& e) { data_is_late(self, e); });
}

}  // namespace

void open_data(run_pointer self) {
  ask_for_data(self, data_request::first);
}

void hear_notice(run_pointer self, const msg<fbs::Notice>& m) {
  auto& st = self->state;
  if (st.job.state() == job_state::ended) return;  // RUN-3
  const auto& all = st.crew.loaders;
  const auto from = std::ranges::find_if(
      all, [who = self->current_sender()](const auto& l) { return who == l.loader; });
  const bool is_loaders = from != all.end();
  st.loader_told |= is_loaders;
  // A person hears it of one, as the job starts.
  if (is_loaders && (from != all.begin() || st.job.recoveries() > 0)) return;
  self->send(st.record.reporter, m);
}

}  // namespace troupe::train
