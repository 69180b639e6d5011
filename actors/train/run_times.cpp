// Steps to messages, some ranks in each: see run_times.hpp.
#include "actors/train/run_times.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "actors/base/context.hpp"

namespace troupe::train {

namespace {

/// Ranks that one message tells of: with all parts it stays far below what a message may have.
constexpr size_t ranks_told = 256;

/// Of the step that is told, what only the run knows goes before what its ranks say.
fbs::StepOddity oddity_seen(run_state& st, fbs::StepOddity of_ranks) {
  if (st.times.after_set > 0) {
    --st.times.after_set;
    return fbs::StepOddity::follows_set;
  }
  if (of_ranks == fbs::StepOddity::none && !st.job.pace().open().empty())
    return fbs::StepOddity::beside_save;
  return of_ranks;
}

void put_rank(const run_state& st, size_t rank, const std::vector<step_part>& parts,
              fbs::StepTimesT& out) {
  const auto& place = st.job.plan().ranks[rank];
  const auto node = static_cast<size_t>(place.node);
  auto& to = *out.ranks.emplace_back(std::make_unique<fbs::RankTimesT>());
  to.rank = static_cast<uint32_t>(rank);
  if (node < st.crew.nodes.size()) to.node = st.crew.nodes[node];
  to.layers = static_cast<uint32_t>(place.layers.last - place.layers.first);
  if (rank < st.crew.threads.size())
    to.threads = static_cast<uint32_t>(std::max(st.crew.threads[rank], 0));
  to.parts = to_message(parts);
}

}  // namespace

fbs::StepOddity oddity_of_step(std::span<const msg<fbs::StepDone>> done,
                               std::span<const std::vector<step_part>> of_ranks) {
  auto out = fbs::StepOddity::none;
  for (size_t r = 0; r < done.size(); ++r)
    out = odder_of(out, done[r]->power_wait_ms() > 0
                            ? fbs::StepOddity::paced
                            : oddity_of(of_ranks[r], done[r]->pace_of_1024()));
  return out;
}

void tell_times(run_pointer self, uint64_t step, double took_ms, fbs::StepOddity oddity,
                std::span<const std::vector<step_part>> of_ranks) {
  auto& st = self->state;
  auto& times = st.times;
  if (!st.record.predictor) return;
  const auto seen = oddity_seen(st, oddity);
  if (std::exchange(times.is_told, true)) {  // PRD-5
    ++times.dropped;
    return;
  }
  const auto ranks = std::min(of_ranks.size(), st.job.plan().ranks.size());
  self->send(st.record.predictor,
             make_msg<fbs::StepTimes>(context_of(*self, self->epoch()), [&](fbs::StepTimesT& m) {
               m.step = step;
               m.oddity = seen;
               m.took_ms = took_ms;
               if (ranks > 0)
                 m.replicas = static_cast<uint32_t>(st.job.plan().ranks.front().at.grid.data);
               m.dropped = times.dropped;
               for (size_t i = 0; i < std::min(ranks, ranks_told); ++i) {
                 const auto rank = (times.next_rank + i) % ranks;
                 put_rank(st, rank, of_ranks[rank], m);
               }
             }));
  times.next_rank = ranks > ranks_told ? (times.next_rank + ranks_told) % ranks : 0;
}

}  // namespace troupe::train
