// A budget and two jobs in turn, heard and watched (power_shared.hpp).
#include "apps/bench/power_shared.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "apps/bench/other_work.hpp"
#include "apps/bench/power_live.hpp"
#include "apps/bench/spread.hpp"
#include "apps/talk.hpp"

namespace troupe::apps::power_bench {

namespace {

/// Each look is at every process of the machine: of jobs as often as stretches of window_s want, of
/// all that is ours for a mean alone.
constexpr std::chrono::milliseconds between_looks{500}, between_far_looks{2000};

/// Of a job once leases have settled.
std::optional<double> settled_step_ms(const paired_job& j, double from_s, double to_s) {
  std::vector<double> out;
  for (const auto& [at_s, ms] : j.steps)
    if (at_s >= from_s && at_s <= to_s) out.push_back(ms);
  return out.empty() ? std::nullopt : std::optional(median(std::move(out)));
}

/// Everything from the first process of a way to its judgement; jobs still run when it returns.
result<shared_run> watch_way(const shared_plan& plan, const shared_way_info& how, double processors,
                             job_pair& w) {
  if (how.way != shared_way::free)
    TROUPE_CHECK(start_budget(plan, {core_w * processors, how.way == shared_way::prior}, w));
  TROUPE_CHECK(start_jobs(plan, how.way != shared_way::free, w));
  const others_watch others;
  draw_watch machine, trees([jobs = jobs_of(w)] { return processes_busy_s(jobs); }, between_looks);
  draw_watch ours([] { return processes_busy_s({::getpid()}); }, between_far_looks);
  auto watched = watch_both(plan, plan.seconds, w);
  const auto seen_machine = machine.take(), seen_jobs = trees.take(), seen_ours = ours.take();
  if (!watched) return watched.error();
  const auto [from_s, to_s] = *watched;
  shared_run out;
  const auto all = seen_machine.mean(from_s, to_s), mean = seen_jobs.mean(from_s, to_s),
             own = seen_ours.mean(from_s, to_s);
  if (!all || !mean || !own)
    return error{errc::unavailable, "the kernel does not count the time of processors"};
  out.processors = *mean;
  out.others = std::max(0.0, *all - *own);
  if (how.way == shared_way::free) out.busiest = others.seen().busiest;
  out.same_bits = w.same_bits;
  for (size_t i = 0; i < job_count; ++i)
    out.step_ms[i] = settled_step_ms(w.both[i], from_s + leases_settle_s, to_s);
  for (const auto& j : w.both) TROUPE_CHECK(check_modelled(j.power_source, j.steps.size()));
  if (how.way != shared_way::free) judge_shared(seen_jobs, from_s, to_s, processors, out);
  return out;
}

result<shared_run> run_way(const shared_plan& plan, const shared_way_info& how, double processors,
                           live_losses& truth) {
  job_pair w{{}, {}, truth};
  auto out = watch_way(plan, how, processors, w);
  end_all(w);
  return out;
}

double least_budget_of() {
  double out = 1;
  for (const auto& way : shared_ways)
    if (way.budget_of > 0) out = std::min(out, way.budget_of);
  return out;
}

/// BPS-4: once more where that is too little, for what disturbs may be over.
result<shared_run> run_free(const shared_plan& plan, live_losses& truth) {
  const auto& how = shared_ways[static_cast<size_t>(shared_way::free)];
  const auto judged = [](const shared_run& run) {
    return check_free(run.processors, least_budget_of(), {run.others, run.busiest});
  };
  TROUPE_TRY(first, run_way(plan, how, 0, truth));
  const auto enough = judged(first);
  if (enough) return first;
  say(enough.error().message + "; they work once more without a budget");
  TROUPE_TRY(second, run_way(plan, how, 0, truth));
  TROUPE_CHECK(judged(second));
  return second;
}

}  // namespace

bool shared_run::disturbed() const {
  return others > most_others;
}

void judge_shared(const draw_trace& jobs, double begin_s, double end_s, double processors,
                  shared_run& into) {
  const double from_s = begin_s + leases_settle_s;
  if (const auto mean = jobs.mean(from_s, end_s)) into.mean_share = *mean / processors;
  if (const auto most = jobs.most(from_s, end_s, window_s)) into.most_share = *most / processors;
}

result<shared_measurement> measure_shared(const shared_plan& plan) {
  TROUPE_CHECK(make_pair_folder(plan));
  shared_measurement out;
  for (const auto& way : shared_ways) out.rows.push_back({way.way, {}});
  live_losses truth;
  for (int round = 0; round < plan.rounds; ++round)
    for (size_t i = 0; i < out.rows.size(); ++i) {
      auto& row = out.rows[(i + static_cast<size_t>(round)) % out.rows.size()];  // BPS-1
      const auto& how = shared_ways[static_cast<size_t>(row.way)];
      const bool is_first = round == 0 && i == 0;  // free: all budgets are made of it
      TROUPE_TRY(run, is_first ? run_free(plan, truth)
                               : run_way(plan, how, how.budget_of * out.free_processors, truth));
      if (is_first) out.free_processors = run.processors;
      say(fmt::format(
          "round {} of {}, {}: both kept {:.2f} processors busy{}", round + 1, plan.rounds, how.id,
          run.processors,
          run.disturbed() ? fmt::format(", disturbed: others' {:.2f}", run.others) : ""));
      row.rounds.push_back(std::move(run));
    }
  return out;
}

}  // namespace troupe::apps::power_bench
