// Two jobs that are cut and held, again and again (power_overload.hpp).
#include "apps/bench/power_overload.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "apps/bench/other_work.hpp"
#include "apps/bench/power_live.hpp"
#include "apps/talk.hpp"
#include "io/config/power_tree.hpp"

namespace troupe::apps::power_bench {

namespace {

constexpr std::chrono::milliseconds between_clocks{10};
/// A job of a thread cannot draw as much as its half; a static share is far below a budget that was
/// cut.
constexpr double uncut_w = 2 * core_w * job_count, static_of_uncut = 0.01;
/// First leases, and what is then measured as free.
constexpr double first_leases_s = 6, free_for_s = 3;
constexpr int free_looks = 10;
/// Between two cases: steps of both, and from these on a time that has leases and paces settle.
constexpr size_t steps_between = 3;
constexpr double settle_between_s = 3, patience_between_s = 120;
/// Just before a case, that both draw so much more than will be let.
constexpr double before_case_s = 0.5, overload_from = 1.2;

/// When each case was told.
using told_times = std::array<std::vector<double>, std::size(overload_ways)>;

status tell_budget(const pair_plan& plan, const std::vector<std::string>& words) {
  auto command = pair_words(plan);
  command.emplace_back("power");
  command.insert(command.end(), words.begin(), words.end());
  return run_tool(command, plan.stop);
}

status set_watts(const pair_plan& plan, double watts) {
  return tell_budget(plan, {"budget", fmt::format("{:.3f}", watts)});
}

status hear_until(const pair_plan& plan, double until_s, job_pair& w) {
  while (clock_s() < until_s) TROUPE_CHECK(hear_in_turn(plan, w));
  return {};
}

/// Until both work freely again, at a phase of ticks that follows from the case's number.
status let_both_work(const pair_plan& plan, int number, job_pair& w) {
  const double begun_s = clock_s();
  for (size_t job = 0; job < job_count; ++job) {
    const auto& steps = w.both[job].steps;
    const auto enough = steps.size() + steps_between;
    while (steps.size() < enough) {
      if (clock_s() > begun_s + patience_between_s)
        return error{errc::timeout,
                     fmt::format("a job makes no steps within {} s of a wide budget: {}",
                                 patience_between_s, w.both[job].launch.last_words())};
      TROUPE_CHECK(hear_in_turn(plan, w));
    }
  }
  constexpr double golden = 0.6180339887498949;  // parts of it fall evenly
  const double phase = std::fmod(golden * number, 1.0);
  return hear_until(plan, clock_s() + settle_between_s + phase, w);
}

/// `begin` makes the overload one, `end` lets all work.
template <class Begin, class End>
status run_case(const overload_plan& plan, overload_way way, Begin begin, End end, job_pair& w,
                told_times& told) {
  const auto at = static_cast<size_t>(way);
  const auto number = told[at].size() * told.size() + at;
  TROUPE_CHECK(let_both_work(plan, static_cast<int>(number), w));
  const double told_s = clock_s();
  TROUPE_CHECK(begin());
  told[at].push_back(told_s);
  TROUPE_CHECK(hear_until(plan, told_s + overload_ways[at].watched_s, w));
  return end();
}

status run_cases(const overload_plan& plan, double cut_w, job_pair& w, told_times& told) {
  for (int i = 0; i < plan.repeats; ++i) {
    TROUPE_CHECK(run_case(
        plan, overload_way::cut, [&] { return set_watts(plan, cut_w); },
        [&] { return set_watts(plan, uncut_w); }, w, told));
    TROUPE_CHECK(run_case(
        plan, overload_way::brake,
        [&] {
          return tell_budget(plan, {"brake", "on"});
        },
        [&] {
          return tell_budget(plan, {"brake", "off"});
        },
        w, told));
    say(fmt::format("{} of {}: cut, and held", i + 1, plan.repeats));
  }
  return {};
}

/// What both keep busy under the wide budget, and what others did meanwhile.
struct free_look {
  double processors = 0;
  other_work others = {};
};

result<free_look> look_at_both(const pair_plan& plan, const std::vector<pid_t>& processes,
                               job_pair& w) {
  const others_watch others;
  const double from_s = clock_s();
  const auto before = clocks_busy_s(processes);
  TROUPE_CHECK(hear_until(plan, from_s + free_for_s, w));
  const auto behind = clocks_busy_s(processes);
  if (!before || !behind)
    return error{errc::unavailable, "the kernel does not count the time of processes"};
  return free_look{(*behind - *before) / (clock_s() - from_s), others.seen()};
}

/// BPO-4: looked at again and again for a while, for what disturbs may be over.
result<double> free_of_both(const pair_plan& plan, const std::vector<pid_t>& processes,
                            job_pair& w) {
  TROUPE_CHECK(hear_until(plan, clock_s() + first_leases_s, w));
  const double cut_of = overload_ways[static_cast<size_t>(overload_way::cut)].allowed_of;
  for (int look = 1;; ++look) {
    TROUPE_TRY(seen, look_at_both(plan, processes, w));
    const auto enough = check_free(seen.processors, cut_of, seen.others);
    if (enough) return seen.processors;
    if (look == free_looks) return enough.error();
  }
}

/// From the first process to what was seen; they still run when it returns.
result<overload_measurement> watch_overload(const overload_plan& plan, job_pair& w) {
  TROUPE_CHECK(start_budget(plan, {uncut_w, false, static_of_uncut, false}, w));
  TROUPE_CHECK(start_jobs(plan, true, w));
  if (const auto begun = watch_both(plan, 0, w); !begun) return begun.error();
  say("both jobs make steps");
  const auto processes = processes_below(jobs_of(w));
  TROUPE_TRY(free, free_of_both(plan, processes, w));
  for (const auto& j : w.both) TROUPE_CHECK(check_modelled(j.power_source, j.steps.size()));
  overload_measurement out{.free_processors = free,
                           .telemetry_s = static_cast<double>(config::job_report_ms) / 1e3};
  for (const auto& way : overload_ways) out.rows.push_back({way.way, way.allowed_of * free});
  draw_watch watch([processes] { return clocks_busy_s(processes); }, between_clocks);
  told_times told;
  auto all = run_cases(plan, core_w * out.rows[0].processors, w, told);
  const auto seen = watch.take();
  if (!all) return all.error();
  for (size_t way = 0; way < told.size(); ++way)
    for (const double told_s : told[way]) judge_overload(seen, told_s, out.rows[way]);
  for (const auto& j : w.both) out.longest_op_s = std::max(out.longest_op_s, j.longest_op_ms / 1e3);
  out.same_bits = w.same_bits;
  return out;
}

}  // namespace

void judge_overload(const draw_trace& jobs, double told_s, overload_row& into) {
  const auto& how = overload_ways[static_cast<size_t>(into.way)];
  const auto before = jobs.mean(told_s - before_case_s, told_s);
  if (!before || *before < overload_from * into.processors) {
    ++into.left_out;
    return;
  }
  const auto kept_s =
      jobs.first_kept(told_s, told_s + how.watched_s, how.stretch_s, most_share * into.processors);
  into.effect_s.push_back(kept_s ? *kept_s - told_s : std::numeric_limits<double>::infinity());
}

result<overload_measurement> measure_overload(const overload_plan& plan) {
  TROUPE_CHECK(make_pair_folder(plan));
  live_losses truth;
  job_pair w{{}, {}, truth};
  auto out = watch_overload(plan, w);
  end_all(w);
  return out;
}

}  // namespace troupe::apps::power_bench
