// A budget and two jobs in turn, heard and watched (power_shared.hpp).
#include "apps/bench/power_shared.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "apps/bench/job_launch.hpp"
#include "apps/bench/power_live.hpp"
#include "apps/bench/spread.hpp"
#include "apps/talk.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps::power_bench {

namespace {

constexpr size_t job_count = 2;
constexpr std::array<const char*, job_count> outputs{"run-a", "run-b"};
constexpr std::string_view budget_output = "budget", signs = "signs";
constexpr int endless = 1'000'000;    ///< steps: jobs are ended before
constexpr double patience_s = 300;    ///< for first steps
constexpr double listening_s = 0.05;  ///< for one process before the next
/// Of the budget. A job's share is what it has where nobody is heard.
constexpr double floor_of = 0.05, static_of = 0.4;
/// Each look is at every process of the machine: of jobs as often as stretches of window_s want, of
/// all that is ours for a mean alone.
constexpr std::chrono::milliseconds between_looks{500}, between_far_looks{2000};

std::string name_of(size_t job) {
  return fmt::format("{}-{}", own_job_name(), outputs[job]);
}

/// BPS-3.
std::vector<std::string> own_words(const shared_plan& plan) {
  return {"env", "XDG_RUNTIME_DIR=" + (plan.folder / signs).string(), own_program()};
}

status make_signs(const shared_plan& plan) {
  const auto folder = plan.folder / signs;
  std::error_code failed;
  std::filesystem::create_directory(folder, failed);
  if (!failed) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, failed);
  if (failed) return error{errc::io, "make " + folder.string() + ": " + failed.message()};
  return {};
}

/// A job while it is watched.
struct shared_job {
  job_launch launch;
  std::optional<double> first_s = {};                 ///< when its first step had been made
  std::vector<std::pair<double, double>> steps = {};  ///< when each was heard of, and its time
  std::string power_source = {};
};

/// What is known of a way while it goes on.
struct shared_watch {
  std::vector<job_launch> budget;  ///< one, or none
  std::vector<shared_job> both;
  live_losses& truth;  ///< BPS-2
  bool same_bits = true;
};

void hear_shared_step(const job_step& s, shared_watch& w, size_t job) {
  auto& j = w.both[job];
  const double now_s = clock_s();
  if (j.first_s)
    j.steps.emplace_back(now_s, s.ms);
  else
    j.first_s = now_s;
  j.power_source = s.power_source;
  const auto truth = w.truth.emplace(s.step, s.loss).first;
  if (!same_loss(truth->second, s.loss)) w.same_bits = false;
}

/// Each process for a little while. Errors: unavailable where one has ended.
status hear_in_turn(shared_watch& w) {
  const auto ended = [](const std::string& who, const job_launch& l) {
    return error{errc::unavailable, fmt::format("{} ends by itself: {}", who, l.last_words())};
  };
  for (auto& b : w.budget) {
    for (auto line = b.said_already(listening_s); line;) line = b.said_already();
    if (b.has_ended()) return ended("the budget", b);
  }
  for (size_t i = 0; i < w.both.size(); ++i) {
    auto& launch = w.both[i].launch;
    for (auto line = launch.said_already(listening_s); line; line = launch.said_already())
      if (const auto s = job_step_of(*line)) hear_shared_step(*s, w, i);
    if (launch.has_ended()) return ended("the job " + name_of(i), launch);
  }
  return {};
}

/// Since when both have made a step.
std::optional<double> both_since_s(const shared_watch& w) {
  double out = 0;
  for (const auto& j : w.both) {
    if (!j.first_s) return std::nullopt;
    out = std::max(out, *j.first_s);
  }
  return out;
}

/// Until both have been watched for as long as is wanted: from when to when that was.
result<std::pair<double, double>> watch_both(const shared_plan& plan, shared_watch& w) {
  const double begun_s = clock_s();
  for (;;) {
    if (plan.stop != nullptr && *plan.stop) return error{errc::cancelled, "interrupted"};
    TROUPE_CHECK(hear_in_turn(w));
    const double now_s = clock_s();
    const auto since_s = both_since_s(w);
    if (since_s && now_s >= *since_s + plan.seconds) return std::pair(*since_s, now_s);
    if (since_s || now_s < begun_s + patience_s) continue;
    std::string said;
    for (const auto& j : w.both)
      if (!j.first_s) said = j.launch.last_words();
    return error{errc::timeout,
                 fmt::format("a job makes no step within {} s: {}", patience_s, said)};
  }
}

/// It listens before jobs look for it.
status start_budget(const shared_plan& plan, shared_way way, double watts, shared_watch& w) {
  const auto file = plan.folder / "budget.toml";
  TROUPE_CHECK(io::remove_from_scratch(plan.folder, std::string(budget_output)));
  std::ofstream(file) << budget_text(plan.folder, watts, way == shared_way::prior) << std::flush;
  auto words = own_words(plan);
  words.insert(words.end(), {"power", "serve", file.string()});
  TROUPE_TRY(budget, job_launch::start(words, plan.stop));
  w.budget.push_back(std::move(budget));
  for (;;) {
    TROUPE_TRY(line, w.budget[0].hear());
    if (!line)
      return error{errc::unavailable, "the budget is not served: " + w.budget[0].last_words()};
    if (line->find(" serves ") != line->npos) return {};
  }
}

status start_jobs(const shared_plan& plan, shared_way way, shared_watch& w) {
  for (size_t i = 0; i < job_count; ++i) {
    const std::string output = outputs[i];
    TROUPE_CHECK(io::remove_from_scratch(plan.folder, output));
    auto words = own_words(plan);
    words.insert(words.end(), {"up", (plan.folder / (output + ".toml")).string()});
    for (const auto& s : plan.sets) words.insert(words.end(), {"--set", s});
    if (way != shared_way::free) words.insert(words.end(), {"--set", "power.parent=auto"});
    TROUPE_TRY(launch, job_launch::start(words, plan.stop));
    w.both.push_back({std::move(launch)});
  }
  return {};
}

/// Of a job once leases have settled.
std::optional<double> settled_step_ms(const shared_job& j, double from_s, double to_s) {
  std::vector<double> out;
  for (const auto& [at_s, ms] : j.steps)
    if (at_s >= from_s && at_s <= to_s) out.push_back(ms);
  return out.empty() ? std::nullopt : std::optional(median(std::move(out)));
}

/// Everything from the first process of a way to its judgement; jobs still run when it returns.
result<shared_run> watch_way(const shared_plan& plan, const shared_way_info& how, double processors,
                             shared_watch& w) {
  if (how.way != shared_way::free)
    TROUPE_CHECK(start_budget(plan, how.way, core_w * processors, w));
  TROUPE_CHECK(start_jobs(plan, how.way, w));
  std::vector<pid_t> of_jobs;
  for (const auto& j : w.both) of_jobs.push_back(j.launch.pid());
  draw_watch machine, trees([of_jobs] { return processes_busy_s(of_jobs); }, between_looks);
  draw_watch ours([] { return processes_busy_s({::getpid()}); }, between_far_looks);
  auto watched = watch_both(plan, w);
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
  out.same_bits = w.same_bits;
  for (size_t i = 0; i < job_count; ++i)
    out.step_ms[i] = settled_step_ms(w.both[i], from_s + leases_settle_s, to_s);
  for (const auto& j : w.both) TROUPE_CHECK(check_modelled(j.power_source, j.steps.size()));
  if (how.way != shared_way::free) judge_shared(seen_jobs, from_s, to_s, processors, out);
  return out;
}

result<shared_run> run_way(const shared_plan& plan, const shared_way_info& how, double processors,
                           live_losses& truth) {
  shared_watch w{{}, {}, truth};
  auto out = watch_way(plan, how, processors, w);
  for (auto& j : w.both) j.launch.end();
  for (auto& b : w.budget) b.end();
  return out;
}

}  // namespace

bool shared_run::disturbed() const {
  return others > most_others;
}

std::string budget_text(const std::filesystem::path& folder, double watts, bool has_priority) {
  auto out = fmt::format("name = \"{}\"\nbudget_w = {:.3f}\noutput = \"{}\"\n", own_job_name(),
                         watts, (folder / budget_output).string());
  const double machine_w =
      core_w * static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  for (size_t i = 0; i < job_count; ++i)
    out += fmt::format(
        "[[child]]\nname = \"{}\"\npriority = \"{}\"\nfloor_w = {:.3f}\nstatic_w = {:.3f}\n"
        "ceiling_w = {:.3f}\n",
        name_of(i), has_priority && i == 0 ? "high" : "low", floor_of * watts, static_of * watts,
        std::max(machine_w, watts));
  return out;
}

void judge_shared(const draw_trace& jobs, double begin_s, double end_s, double processors,
                  shared_run& into) {
  const double from_s = begin_s + leases_settle_s;
  if (const auto mean = jobs.mean(from_s, end_s)) into.mean_share = *mean / processors;
  if (const auto most = jobs.most(from_s, end_s, window_s)) into.most_share = *most / processors;
}

result<shared_measurement> measure_shared(const shared_plan& plan) {
  TROUPE_CHECK(make_signs(plan));
  for (size_t i = 0; i < job_count; ++i)
    TROUPE_CHECK(write_job(plan.folder, {name_of(i), outputs[i], 1, endless, 0}));
  shared_measurement out;
  for (const auto& way : shared_ways) out.rows.push_back({way.way, {}});
  live_losses truth;
  for (int round = 0; round < plan.rounds; ++round)
    for (size_t i = 0; i < out.rows.size(); ++i) {
      auto& row = out.rows[(i + static_cast<size_t>(round)) % out.rows.size()];  // BPS-1
      const auto& how = shared_ways[static_cast<size_t>(row.way)];
      TROUPE_TRY(run, run_way(plan, how, how.budget_of * out.free_processors, truth));
      if (round == 0 && i == 0) out.free_processors = run.processors;
      say(fmt::format(
          "round {} of {}, {}: both kept {:.2f} processors busy{}", round + 1, plan.rounds, how.id,
          run.processors,
          run.disturbed() ? fmt::format(", disturbed: others' {:.2f}", run.others) : ""));
      row.rounds.push_back(std::move(run));
    }
  return out;
}

}  // namespace troupe::apps::power_bench
