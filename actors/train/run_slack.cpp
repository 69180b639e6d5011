// Between the pacer's tables and the stages.
#include "actors/train/run_slack.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "actors/base/context.hpp"
#include "actors/train/run_commit.hpp"
#include "actors/train/schedule_policy.hpp"
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

/// All of a rank's operations have its clock in a trial.
bool has_trial_clock(const step_part& p) {
  const auto& facts = facts_of(p.kind);
  return facts.stream == op_stream::compute && facts.resource == op_resource::device;
}

/// Whether a pace or the brake held the step.
bool is_paced(const run_state& st) {
  return st.power.step_pace.of_1024 < work_pace::whole || st.power.brakes;
}

/// Whether a rank has a lower clock than its highest in a trial.
bool is_lowered(const run_state& st, size_t rank) {
  const auto* table = rank < st.job.plan().ranks.size() ? table_of(st, rank) : nullptr;
  if (table == nullptr || st.slack.of_step->trial == 0) return false;
  const auto stage = static_cast<size_t>(st.job.plan().ranks[rank].at.place().pipeline);
  const auto& ladders = st.slack.ladders;
  return stage >= ladders.size() || ladders[stage].empty() ||
         table->mhz.front() < ladders[stage].front();
}

/// By how much the clocks of a plan are slower than the highest; none: it has none of a plan.
std::optional<double> planned_times(const run_state& st, size_t rank) {
  const auto* table = rank < st.job.plan().ranks.size() ? table_of(st, rank) : nullptr;
  if (table == nullptr || st.slack.of_step->trial != 0) return std::nullopt;
  return table->times >= 1 ? static_cast<double>(table->times) : 1;
}

/// How many times as long as at the highest clocks operations take, of each kind.
struct kind_times {
  double forward = 1, backward = 1;
  bool operator==(const kind_times&) const = default;
};

/// Of a table that makes all of a stage's operations together `times` as long: a plan may slow the
/// ones and leave the others, and each is judged by itself.
kind_times times_by_kind(const fbs::StageClocksT& table, std::span<const scheduled_op> order,
                         double times) {
  kind_times lasts_s{0, 0}, shortest_s{0, 0};
  for (size_t i = 0; i < order.size() && i < table.lasts_s.size(); ++i) {
    const auto put = [&](kind_times& into, float s) {
      (order[i].kind == pipeline_op::backward ? into.backward : into.forward) += double{s};
    };
    put(lasts_s, table.lasts_s[i]);
    put(shortest_s, table.shortest_s[i]);
  }
  const double of_all =
      (lasts_s.forward + lasts_s.backward) / (shortest_s.forward + shortest_s.backward);
  const auto of = [&](double lasts, double shortest) {
    const double out = times * lasts / shortest / of_all;
    return std::isfinite(out) ? std::max(1.0, out) : times;
  };
  return {of(lasts_s.forward, shortest_s.forward), of(lasts_s.backward, shortest_s.backward)};
}

kind_times busy_by_kind_ms(std::span<const step_part> parts) {
  kind_times out{0, 0};
  for (const auto& p : parts) {
    if (p.kind == pipeline_op::forward) out.forward += p.busy_ms;
    if (p.kind == pipeline_op::backward) out.backward += p.busy_ms;
  }
  return out;
}

/// No kind is told to be quicker than it was at the highest clocks.
kind_times bounded(kind_times planned, std::span<const step_part> parts,
                   const highest_times& known) {
  const auto busy_ms = busy_by_kind_ms(parts);
  const auto bound = [](double& times, double busy, double least) {
    if (least > 0) times = std::min(times, std::max(1.0, busy / least));
  };
  double forward_ms = 0, backward_ms = 0;
  for (const auto& [forward, backward] : known.last_ms) {
    forward_ms = forward_ms > 0 ? std::min(forward_ms, forward) : forward;
    backward_ms = backward_ms > 0 ? std::min(backward_ms, backward) : backward;
  }
  bound(planned.forward, busy_ms.forward, forward_ms);
  bound(planned.backward, busy_ms.backward, backward_ms);
  return planned;
}

kind_times times_of(const run_state& st, size_t rank, std::span<const step_part> parts) {
  const auto& slack = st.slack;
  const double times = rank < slack.times.size() ? slack.times[rank] : 1;
  if (!planned_times(st, rank)) return {times, times};
  const auto& plan = st.job.plan();
  const auto order = one_forward_one_backward(
      static_cast<int>(plan.ranks[rank].at.place().pipeline),
      static_cast<int>(plan.ranks.front().at.grid.pipeline), static_cast<int>(plan.micro_batches));
  const auto planned = times_by_kind(*table_of(st, rank), order, times);
  return rank < slack.at_highest.size() ? bounded(planned, parts, slack.at_highest[rank]) : planned;
}

void note_highest(highest_times& into, std::span<const step_part> parts) {
  const auto busy_ms = busy_by_kind_ms(parts);
  into.last_ms.emplace_back(busy_ms.forward, busy_ms.backward);
  if (into.last_ms.size() > highest_times::steps) into.last_ms.pop_front();
}

bool is_lowered(const run_state& st) {
  return st.slack.speed_of_1024 < work_pace::whole;
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
      if (has_trial_clock(p)) busy_ms += p.busy_ms;
    }
    m.rank_forward_s.push_back(each(forward_ms));
    m.rank_backward_s.push_back(each(backward_ms));
    m.rank_busy_s.push_back(static_cast<float>(busy_ms / 1000));
  }
}

/// What is no work then is waiting: the step is as long.
void shorten(std::vector<step_part>& parts, const kind_times& times, bool in_trial) {
  for (auto& p : parts) {
    if (!(in_trial ? has_trial_clock(p) : has_clock(p))) continue;
    const double own_ms =
        p.busy_ms / (p.kind == pipeline_op::backward ? times.backward : times.forward);
    p.waited_ms += p.busy_ms - own_ms;
    p.busy_ms = own_ms;
  }
}

}  // namespace

void begin_slack(run_pointer self) {
  if (!takes_slack(self->state)) return;
  self->monitor(self->state.record.pacer);
  self->set_down_handler([self](const caf::down_msg& m) {
    auto& st = self->state;
    if (st.job.state() == job_state::ended) return;  // RUN-3
    st.slack.told = nullptr;
    if (m.reason == caf::exit_reason::user_shutdown) return;  // with the head
    say(self, {"its pacer has ended: all run at the highest clocks (power.slack)", true});
  });
}

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
    told->trial = 0;
  }
  st.slack.told = std::move(told);
  return out;
}

void begin_clocks(run_state& st) {
  st.slack.of_step = is_paced(st) ? nullptr : st.slack.told;
}

std::unique_ptr<fbs::StageClocksT> clocks_of(const run_state& st, size_t rank) {
  const auto* table = table_of(st, rank);
  return table ? std::make_unique<fbs::StageClocksT>(*table) : nullptr;
}

void note_usual(run_state& st, std::span<const msg<fbs::StepDone>> parts) {
  if (!takes_slack(st)) return;
  auto& slack = st.slack;
  slack.usual_ms.resize(parts.size());
  slack.at_highest.resize(parts.size());
  slack.times.assign(parts.size(), 1);
  double slowest = 1;
  bool is_any_lowered = false, is_held = is_paced(st);
  for (const auto& p : parts) is_held = is_held || p->power_wait_ms() > 0;
  for (size_t r = 0; r < parts.size(); ++r) {
    const auto of_rank = parts_of(parts[r]->parts());
    const double ms = clocked_ms(of_rank);
    auto& usual_ms = slack.usual_ms[r];
    if (is_lowered(st, r)) {
      is_any_lowered = true;
      if (usual_ms > 0) slack.times[r] = std::max(1.0, ms / usual_ms);
      slowest = std::max(slowest, slack.times[r]);
    } else if (const auto planned = planned_times(st, r)) {
      slack.times[r] = *planned;
    } else if (!is_held) {
      usual_ms = ms;
      note_highest(slack.at_highest[r], of_rank);
    }
  }
  const double speed = std::clamp(work_pace::whole / slowest, 1.0, work_pace::whole - 1.0);
  slack.speed_of_1024 = is_any_lowered ? static_cast<uint32_t>(speed) : work_pace::whole;
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
    m.paced = is_paced(st);
    m.ranks = static_cast<uint32_t>(parts.size());
    for (size_t r = 0; r < parts.size(); ++r) {
      const auto place = plan.ranks[r].at.place();
      if (place.pipeline == 0)
        m.replica_s[static_cast<size_t>(place.data)] = pipeline_s(of_ranks[r]);
      m.late += parts[r]->late_clocks();
      m.failed += parts[r]->clocks_failed() ? 1 : 0;
      m.given_back += parts[r]->clocks_given_back_to() > 0 ? 1 : 0;
      m.given_back_to += parts[r]->clocks_given_back_to();
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
  const auto& st = self->state;
  const auto times = times_of(st, done->rank(), parts_of(done->parts()));
  if (times == kind_times{} && !is_lowered(st)) return done;
  return make_msg<fbs::StepDone>(context_of(*self, done.header()), [&](fbs::StepDoneT& d) {
    d = done.unpack();
    auto parts = parts_of(d.parts);
    shorten(parts, times, is_lowered(st));
    d.parts = to_message(parts);
    d.pace_of_1024 = std::min(d.pace_of_1024, st.slack.speed_of_1024);
  });
}

std::vector<std::vector<step_part>> as_usual(const run_state& st,
                                             std::vector<std::vector<step_part>> of_ranks) {
  for (size_t r = 0; r < of_ranks.size(); ++r)
    shorten(of_ranks[r], times_of(st, r, of_ranks[r]), is_lowered(st));
  return of_ranks;
}

fbs::StepOddity as_usual(const run_state& st, fbs::StepOddity oddity) {
  return is_lowered(st) ? odder_of(oddity, fbs::StepOddity::paced) : oddity;
}

void put_slack(const run_state& st, fbs::StepReportT& into) {
  if (!takes_slack(st)) return;
  const auto &told = st.slack.told, &of_step = st.slack.of_step;
  if (of_step)
    into.slack = of_step->state;
  else if (told && told->trial == 0)
    into.slack = told->state;
  else  // a step without a trial's clocks is none of it
    into.slack = told && is_paced(st) ? "off: paced" : "off: no_plan";
}

}  // namespace troupe::train
