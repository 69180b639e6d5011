// Jobs in turn, heard and watched (power_live.hpp).
#include "apps/bench/power_live.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "apps/bench/job_launch.hpp"
#include "apps/talk.hpp"
#include "io/base/counted.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps::power_bench {

namespace {

/// The model of the machine: watts are processors by it, and no row depends on which.
constexpr double idle_w = 12;
constexpr double tight_of = 0.5;  ///< of what the job keeps busy without a budget
constexpr int wide_times = 100;   ///< of all that the machine can draw
constexpr std::string_view output = "run", job_file = "run.toml";
/// What a job says that gets no pace.
constexpr std::string_view held_up = "waits for power: the machines draw";

double watts_of(double processors) {
  return idle_w + core_w * processors;
}

double wide_w() {
  return wide_times * watts_of(static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))));
}

/// Processor time of this process, and of children that have ended and been waited for.
double own_s() {
  double out = 0;
  for (const auto whose : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    ::getrusage(whose, &used);
    for (const auto& t : {used.ru_utime, used.ru_stime})
      out += static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  }
  return out;
}

bool is_wanted(const live_plan& plan, const budget_way_info& way) {
  return plan.ways.empty() ||
         std::find(plan.ways.begin(), plan.ways.end(), way.id) != plan.ways.end();
}

std::vector<std::string> words_for(const live_plan& plan, budget_way way, double tight_w) {
  std::vector<std::string> out{own_program(), "up", (plan.folder / job_file).string()};
  for (const auto& s : plan.sets) out.insert(out.end(), {"--set", s});
  if (way != budget_way::none) {
    const double budget_w = way == budget_way::tight ? tight_w : wide_w();
    out.insert(out.end(), {"--set", fmt::format("power.budget_w={:.3f}", budget_w)});
  }
  return out;
}

/// As a person does it; the tool's own time counts.
status cut_budget(double to_w, const live_plan& plan) {
  return run_tool({own_program(), "console", "--job", own_job_name(), "-c",
                   fmt::format("power budget {:.3f}", to_w)},
                  plan.stop);
}

/// What is known of a run while it goes on.
struct heard {
  live_run out;
  double first_s = 0, last_s = 0;  ///< when the first and the last step had been made
  std::optional<double> cut_s;
  std::string power_source;  ///< as the last step had it
};

void hear_step(const job_step& s, heard& h) {
  h.last_s = clock_s();
  if (h.out.losses.empty())
    h.first_s = h.last_s;
  else
    h.out.step_ms.push_back(s.ms);
  h.out.losses[s.step] = s.loss;
  h.power_source = s.power_source;
}

/// Whether it is held to a tight budget.
bool is_judged(budget_way way) {
  return way == budget_way::tight || way == budget_way::cut;
}

/// Until its end.
status hear_all(job_launch& job, const live_plan& plan, budget_way way, double tight_w, heard& h) {
  for (;;) {
    TROUPE_TRY(line, job.hear());
    if (!line) break;
    if (line->find(held_up) != line->npos)
      return error{errc::unavailable, "the budget leaves the job nothing: " + *line,
                   "other work on this machine draws as well; end it, or measure later"};
    const auto s = job_step_of(*line);
    if (!s) continue;
    hear_step(*s, h);
    if (way != budget_way::cut || h.cut_s || s->step < plan.steps / 3) continue;
    h.cut_s = clock_s();
    TROUPE_CHECK(cut_budget(tight_w, plan));
  }
  if (h.out.losses.empty() || h.out.losses.rbegin()->first != plan.steps)
    return error{errc::unavailable, "the job does not train: " + job.last_words()};
  return is_judged(way) ? check_modelled(h.power_source, h.out.losses.size()) : status();
}

result<heard> hear_job(const live_plan& plan, budget_way way, double tight_w) {
  TROUPE_CHECK(io::remove_from_scratch(plan.folder, std::string(output)));
  TROUPE_TRY(job, job_launch::start(words_for(plan, way, tight_w), plan.stop));
  heard h;
  if (auto all = hear_all(job, plan, way, tight_w, h); !all) {
    job.end();
    return all.error();
  }
  return h;
}

/// A job in a way, watched; `tight`: the processors that a tight budget leaves, 0 where it is not
/// known yet.
result<live_run> run_once(const live_plan& plan, budget_way way, double tight) {
  draw_watch watch;
  const double begun_s = clock_s(), before_s = own_s();
  auto job = hear_job(plan, way, watts_of(tight));
  const double end_s = clock_s();
  const auto seen = watch.take();
  if (!job) return job.error();
  auto& h = *job;
  const double own = (own_s() - before_s) / (end_s - begun_s);
  const auto all = seen.mean(begun_s, end_s);
  const auto steps = seen.mean(h.first_s, h.last_s);
  if (!all || !steps)
    return error{errc::unavailable, "the kernel does not count the time of processors"};
  h.out.processors = *steps;
  h.out.others = std::max(0.0, *all - own);
  if (way == budget_way::tight) judge_tight(seen, h.first_s, h.last_s, tight, h.out);
  if (way == budget_way::cut) judge_cut(seen, h.cut_s.value_or(h.last_s), h.last_s, tight, h.out);
  const double whole_s =
      h.last_s - (way == budget_way::cut ? h.cut_s.value_or(h.last_s) : h.first_s);
  TROUPE_CHECK(check_length(way, plan.steps, whole_s));
  return std::move(h.out);
}

bool same_losses(const live_losses& a, const live_losses& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
           return x.first == y.first && same_loss(x.second, y.second);
         });
}

}  // namespace

status check_length(budget_way way, int steps, double seconds) {
  const double wanted_s = window_s + settling_s;
  if (!is_judged(way) || seconds >= wanted_s) return {};
  return error{errc::unavailable,
               fmt::format("{} {:.1f} s under a tight budget, {} s are needed to judge "
                           "it",
                           counted(steps, "step leaves", "steps leave"), seconds, wanted_s),
               "give it more: --steps"};
}

void judge_tight(const draw_trace& seen, double begin_s, double end_s, double processors,
                 live_run& into) {
  const double from_s = begin_s + settling_s;
  if (const auto mean = seen.mean(from_s, end_s)) into.mean_share = *mean / processors;
  if (const auto most = seen.most(from_s, end_s, window_s)) into.most_share = *most / processors;
}

void judge_cut(const draw_trace& seen, double cut_s, double end_s, double processors,
               live_run& into) {
  const auto kept_s = seen.first_kept(cut_s, end_s, window_s, most_share * processors);
  if (!kept_s) return;
  into.held_after_s = *kept_s - cut_s;
  if (const auto mean = seen.mean(*kept_s, end_s)) into.mean_share = *mean / processors;
  if (const auto most = seen.most(*kept_s, end_s, window_s)) into.most_share = *most / processors;
}

result<live_measurement> measure_live(const live_plan& plan) {
  TROUPE_CHECK(
      write_job(plan.folder, {own_job_name(), std::string(output), 2, plan.steps, idle_w}));
  live_measurement out;
  for (const auto& w : budget_ways)
    if (w.way == budget_way::none || is_wanted(plan, w)) out.rows.push_back({w.way, {}, 0});
  live_losses truth;
  for (int round = 0; round < plan.rounds; ++round)
    for (size_t i = 0; i < out.rows.size(); ++i) {
      auto& row = out.rows[(i + static_cast<size_t>(round)) % out.rows.size()];  // BPL-1
      TROUPE_TRY(run, run_once(plan, row.way, out.budget_processors));
      if (truth.empty()) {
        truth = run.losses;
        out.budget_processors = tight_of * (run.processors - run.others);
      }
      if (same_losses(run.losses, truth)) ++row.same_bits;  // BPL-2
      say(fmt::format(
          "round {} of {}, {}: {}, {:.2f} processors busy{}", round + 1, plan.rounds,
          budget_ways[static_cast<size_t>(row.way)].id, counted(run.losses.size(), "step"),
          run.processors,
          run.disturbed() ? fmt::format(", disturbed: others' {:.2f}", run.others) : ""));
      row.rounds.push_back(std::move(run));
    }
  return out;
}

}  // namespace troupe::apps::power_bench
