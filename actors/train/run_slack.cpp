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

bool has_clock(const step_part& p) {
  return p.kind == pipeline_op::forward || p.kind == pipeline_op::backward;
}

double clocked_ms(std::span<const step_part> parts) {
  double out = 0;
  for (const auto& p : parts)
    if (has_clock(p)) out += p.busy_ms;
  return out;
}

/// By how much the clocks of the step are slower than the highest. RSL-3
double times_of(const run_state& st, size_t rank, std::span<const step_part> parts) {
  const auto* table = rank < st.job.plan().ranks.size() ? table_of(st, rank) : nullptr;
  if (table == nullptr) return 1;
  if (st.slack.of_step->trial == 0)
    return table->times >= 1 ? static_cast<double>(table->times) : 1;
  const double usual_ms = rank < st.slack.usual_ms.size() ? st.slack.usual_ms[rank] : 0;
  return usual_ms > 0 ? std::max(1.0, clocked_ms(parts) / usual_ms) : 1;
}

/// What each replica of a stage can have.
std::vector<std::vector<uint32_t>> ladders_of(const job_plan& plan,
                                              const std::vector<msg<fbs::StageReady>>& replies) {
  std::vector<std::vector<uint32_t>> out;
  std::vector<bool> is_begun;
  for (size_t r = 0; r < replies.size() && r < plan.ranks.size(); ++r) {
    const auto stage = static_cast<size_t>(plan.ranks[r].at.place().pipeline);
    if (out.size() <= stage) {
      out.resize(stage + 1);
      is_begun.resize(stage + 1);
    }
    std::vector<uint32_t> clocks;
    if (const auto* said = replies[r]->clocks_mhz()) clocks.assign(said->begin(), said->end());
    if (!is_begun[stage]) out[stage] = clocks;
    is_begun[stage] = true;
    std::erase_if(out[stage],
                  [&](uint32_t mhz) { return std::ranges::find(clocks, mhz) == clocks.end(); });
  }
  return out;
}

/// What each rank took and did in a trial of clocks.
void put_ranks(const run_state& st, std::span<const std::vector<step_part>> of_ranks,
               fbs::StepMadeT& m) {
  const auto& plan = st.job.plan();
  m.nodes = st.crew.nodes;
  const auto each = [&](double ms) {
    return static_cast<float>(ms / 1000 / static_cast<double>(plan.micro_batches));
  };
  for (size_t r = 0; r < of_ranks.size() && r < plan.ranks.size(); ++r) {
    const auto place = plan.ranks[r].at.place();
    m.rank_node.push_back(static_cast<uint32_t>(plan.ranks[r].node));
    m.rank_stage.push_back(static_cast<uint32_t>(place.pipeline));
    m.rank_replica.push_back(static_cast<uint32_t>(place.data));
    double forward_ms = 0, backward_ms = 0, busy_ms = 0;
    for (const auto& p : of_ranks[r]) {
      if (p.kind == pipeline_op::forward) forward_ms += p.busy_ms;
      if (p.kind == pipeline_op::backward) backward_ms += p.busy_ms;
      const auto& facts = facts_of(p.kind);
      if (facts.stream == op_stream::compute && facts.resource == op_resource::device)
        busy_ms += p.busy_ms;
    }
    m.rank_forward_s.push_back(each(forward_ms));
    m.rank_backward_s.push_back(each(backward_ms));
    m.rank_busy_s.push_back(static_cast<float>(busy_ms / 1000));
  }
}

/// What is no work then is waiting: the step is as long.
void shorten(std::vector<step_part>& parts, double times) {
  for (auto& p : parts) {
    if (!has_clock(p)) continue;
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
  st.slack.ladders = ladders_of(st.job.plan(), replies);
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

void note_usual(run_state& st, std::span<const msg<fbs::StepDone>> parts) {
  if (!takes_slack(st) || st.slack.of_step) return;
  st.slack.usual_ms.clear();
  for (const auto& p : parts) st.slack.usual_ms.push_back(clocked_ms(parts_of(p->parts())));
}

void tell_step_made(run_pointer self, uint64_t step, double took_ms,
                    std::span<const msg<fbs::StepDone>> parts,
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
    for (const auto& l : st.slack.ladders)
      m.ladders.emplace_back(std::make_unique<fbs::StageLadderT>())->mhz = l;
    if (!st.slack.of_step || st.slack.of_step->trial == 0) return;
    m.trial = st.slack.of_step->trial;
    m.step_s = took_ms / 1000;
    put_ranks(st, of_ranks, m);
  };
  self->send(st.record.pacer, make_msg<fbs::StepMade>(context_of(*self, st.record.epoch), tell));
}

msg<fbs::StepDone> as_usual(run_pointer self, const msg<fbs::StepDone>& done) {
  const double times = times_of(self->state, done->rank(), parts_of(done->parts()));
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
  for (size_t r = 0; r < of_ranks.size(); ++r) shorten(of_ranks[r], times_of(st, r, of_ranks[r]));
  return of_ranks;
}

void put_slack(const run_state& st, fbs::StepReportT& into) {
  if (!takes_slack(st)) return;
  into.slack = st.slack.told ? st.slack.told->state : "off: no_plan";
}

}  // namespace troupe::train
