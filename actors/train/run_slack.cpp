// Between the pacer's tables and the stages.
#include "actors/train/run_slack.hpp"

#include <algorithm>
#include <utility>

#include "actors/base/context.hpp"
#include "messages/actors.hpp"
#include "messages/text.hpp"

namespace troupe::train {

namespace {

bool takes_slack(const run_state& st) {
  return st.record.pacer && st.job.plan().job.power.takes_slack();
}

/// Operations of a stage in a step: a forward and a backward of each micro-batch.
size_t operations_of(const job_plan& plan) {
  return 2 * static_cast<size_t>(plan.micro_batches);
}

bool fits(const job_plan& plan, const fbs::StageClocksT& c) {
  const auto count = operations_of(plan);
  return c.mhz.size() == count && c.lasts_s.size() == count && c.shortest_s.size() == count;
}

/// RSL-2
bool fits(const run_state& st, const fbs::JobClocksT& c) {
  const auto& plan = st.job.plan();
  const auto& grid = plan.ranks.front().at.grid;
  if (c.of_replica.size() != static_cast<size_t>(grid.data)) return false;
  for (const auto& table : c.tables) {
    if (table->stages.size() != static_cast<size_t>(grid.pipeline)) return false;
    if (!std::ranges::all_of(table->stages, [&](const auto& s) { return fits(plan, *s); }))
      return false;
  }
  return std::ranges::all_of(c.of_replica, [&](uint32_t t) { return t < c.tables.size(); });
}

/// Null: it has none.
const fbs::StageClocksT* table_of(const run_state& st, size_t rank) {
  const auto& told = st.slack.of_step;
  if (!told || told->of_replica.empty()) return nullptr;
  const auto place = st.job.plan().ranks[rank].at.place();
  const auto& of = *told->tables[told->of_replica[static_cast<size_t>(place.data)]];
  return of.stages[static_cast<size_t>(place.pipeline)].get();
}

/// What the pipeline of a replica took: of its first stage, which begins and ends it.
double pipeline_s(std::span<const step_part> of_first) {
  double out_ms = 0;
  for (const auto& p : of_first)
    if (p.kind == pipeline_op::forward || p.kind == pipeline_op::backward)
      out_ms += p.busy_ms + p.waited_ms;
  return out_ms / 1000;
}

/// By how much the clocks of the step are slower than the highest.
double times_of(const run_state& st, size_t rank) {
  const auto* table = rank < st.job.plan().ranks.size() ? table_of(st, rank) : nullptr;
  return table != nullptr && table->times >= 1 ? static_cast<double>(table->times) : 1;
}

/// What is no work then is waiting: the step is as long.
void shorten(std::vector<step_part>& parts, double times) {
  for (auto& p : parts) {
    if (p.kind != pipeline_op::forward && p.kind != pipeline_op::backward) continue;
    const double own_ms = p.busy_ms / times;
    p.waited_ms += p.busy_ms - own_ms;
    p.busy_ms = own_ms;
  }
}

}  // namespace

void note_controls(run_state& st, const std::vector<msg<fbs::StageReady>>& replies) {
  const auto all = [&](auto has) { return std::ranges::all_of(replies, has); };
  st.slack.sets_clocks = all([](const auto& r) { return r->sets_clocks(); });
  st.slack.saves_energy = all([](const auto& r) { return r->saves_energy(); });
}

std::vector<todo::say> hear_clocks(run_pointer self, const fbs::JobClocks& m) {
  auto& st = self->state;
  auto told = std::make_unique<fbs::JobClocksT>();
  m.UnPackTo(told.get());
  if (told->of_epoch != st.record.epoch) return {};
  std::vector<todo::say> out;
  if (!told->notice.empty()) out.push_back({told->notice, told->warns});
  if (!fits(st, *told)) {
    told->tables.clear();
    told->of_replica.clear();
  }
  st.slack.told = std::move(told);
  return out;
}

void begin_clocks(run_state& st) {
  const bool is_paced = st.power.step_pace.of_1024 < work_pace::whole || st.power.brakes;
  st.slack.of_step = is_paced ? nullptr : st.slack.told;
}

std::unique_ptr<fbs::StageClocksT> clocks_of(const run_state& st, size_t rank) {
  const auto* table = table_of(st, rank);
  return table ? std::make_unique<fbs::StageClocksT>(*table) : nullptr;
}

void tell_step_made(run_pointer self, uint64_t step, std::span<const msg<fbs::StepDone>> parts,
                    std::span<const std::vector<step_part>> of_ranks) {
  auto& st = self->state;
  if (!takes_slack(st)) return;
  const auto& plan = st.job.plan();
  const auto& grid = plan.ranks.front().at.grid;
  const auto tell = [&](fbs::StepMadeT& m) {
    m.step = step;
    m.stages = static_cast<uint32_t>(grid.pipeline);
    m.micro_batches = static_cast<uint32_t>(plan.micro_batches);
    m.replica_s.resize(static_cast<size_t>(grid.data));
    m.sets_clocks = st.slack.sets_clocks;
    m.saves_energy = st.slack.saves_energy;
    m.paced = st.power.step_pace.of_1024 < work_pace::whole || st.power.brakes;
    for (size_t r = 0; r < parts.size(); ++r) {
      const auto place = plan.ranks[r].at.place();
      if (place.pipeline == 0)
        m.replica_s[static_cast<size_t>(place.data)] = pipeline_s(of_ranks[r]);
      m.late += parts[r]->late_clocks();
      m.failed += parts[r]->clocks_failed() ? 1 : 0;
      m.paced = m.paced || parts[r]->power_wait_ms() > 0;
    }
  };
  self->send(st.record.pacer, make_msg<fbs::StepMade>(context_of(*self, st.record.epoch), tell));
}

msg<fbs::StepDone> as_usual(run_pointer self, const msg<fbs::StepDone>& done) {
  const double times = times_of(self->state, done->rank());
  if (times == 1) return done;
  return make_msg<fbs::StepDone>(context_of(*self, done.header()), [&](fbs::StepDoneT& d) {
    d = done.unpack();
    auto parts = parts_of(d.parts);
    shorten(parts, times);
    d.parts = to_message(parts);
  });
}

std::vector<std::vector<step_part>> as_usual(const run_state& st,
                                             std::vector<std::vector<step_part>> of_ranks) {
  for (size_t r = 0; r < of_ranks.size(); ++r) shorten(of_ranks[r], times_of(st, r));
  return of_ranks;
}

void put_slack(const run_state& st, fbs::StepReportT& into) {
  if (!takes_slack(st)) return;
  into.slack = st.slack.told ? st.slack.told->state : "off: no_plan";
}

}  // namespace troupe::train
