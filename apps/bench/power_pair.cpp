// Starting, hearing and ending two jobs and their budget (power_pair.hpp).
#include "apps/bench/power_pair.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

#include <fmt/format.h>

#include "apps/bench/draw_trace.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps::power_bench {

namespace {

constexpr std::array<const char*, job_count> outputs{"run-a", "run-b"};
constexpr std::string_view budget_output = "budget", signs = "signs";
constexpr int endless = 1'000'000;    ///< steps: jobs are ended before
constexpr double patience_s = 300;    ///< for first steps
constexpr double listening_s = 0.05;  ///< for one process before the next
constexpr double floor_of_static = 0.125;

std::string name_of(size_t job) {
  return fmt::format("{}-{}", own_job_name(), outputs[job]);
}

status make_signs(const pair_plan& plan) {
  const auto folder = plan.folder / signs;
  std::error_code failed;
  std::filesystem::create_directory(folder, failed);
  if (!failed) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, failed);
  if (failed) return error{errc::io, "make " + folder.string() + ": " + failed.message()};
  return {};
}

void hear_paired_step(const job_step& s, job_pair& w, size_t job) {
  auto& j = w.both[job];
  const double now_s = clock_s();
  if (j.first_s)
    j.steps.emplace_back(now_s, s.ms);
  else
    j.first_s = now_s;
  j.power_source = s.power_source;
  if (std::isfinite(s.op_ms)) j.longest_op_ms = std::max(j.longest_op_ms, s.op_ms);
  const auto truth = w.truth.emplace(s.step, s.loss).first;
  if (!same_loss(truth->second, s.loss)) w.same_bits = false;
}

/// Since when both have made a step.
std::optional<double> both_since_s(const job_pair& w) {
  double out = 0;
  for (const auto& j : w.both) {
    if (!j.first_s) return std::nullopt;
    out = std::max(out, *j.first_s);
  }
  return out;
}

}  // namespace

status make_pair_folder(const pair_plan& plan) {
  TROUPE_CHECK(make_signs(plan));
  for (size_t i = 0; i < job_count; ++i)
    TROUPE_CHECK(write_job(plan.folder, {name_of(i), outputs[i], 1, endless, 0}));
  return {};
}

std::string budget_text(const std::filesystem::path& folder, const budget_terms& terms) {
  auto out = fmt::format("name = \"{}\"\nbudget_w = {:.3f}\noutput = \"{}\"\nbrake = \"{}\"\n",
                         own_job_name(), terms.watts, (folder / budget_output).string(),
                         terms.pulls_brake ? "auto" : "manual");
  const double machine_w =
      core_w * static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  const double static_w = terms.static_of * terms.watts;
  for (size_t i = 0; i < job_count; ++i)
    out += fmt::format(
        "[[child]]\nname = \"{}\"\npriority = \"{}\"\nfloor_w = {:.3f}\nstatic_w = {:.3f}\n"
        "ceiling_w = {:.3f}\n",
        name_of(i), terms.has_priority && i == 0 ? "high" : "low", floor_of_static * static_w,
        static_w, std::max(machine_w, terms.watts));
  return out;
}

std::vector<std::string> pair_words(const pair_plan& plan) {
  return {"env", "XDG_RUNTIME_DIR=" + (plan.folder / signs).string(), own_program()};
}

status start_budget(const pair_plan& plan, const budget_terms& terms, job_pair& w) {
  const auto file = plan.folder / "budget.toml";
  TROUPE_CHECK(io::remove_from_scratch(plan.folder, std::string(budget_output)));
  std::ofstream(file) << budget_text(plan.folder, terms) << std::flush;
  auto words = pair_words(plan);
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

status start_jobs(const pair_plan& plan, bool has_budget, job_pair& w) {
  for (size_t i = 0; i < job_count; ++i) {
    const std::string output = outputs[i];
    TROUPE_CHECK(io::remove_from_scratch(plan.folder, output));
    auto words = pair_words(plan);
    words.insert(words.end(), {"up", (plan.folder / (output + ".toml")).string()});
    for (const auto& s : plan.sets) words.insert(words.end(), {"--set", s});
    if (has_budget) words.insert(words.end(), {"--set", "power.parent=auto"});
    TROUPE_TRY(launch, job_launch::start(words, plan.stop));
    w.both.push_back({std::move(launch)});
  }
  return {};
}

status hear_in_turn(const pair_plan& plan, job_pair& w) {
  if (plan.stop != nullptr && *plan.stop) return error{errc::cancelled, "interrupted"};
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
      if (const auto s = job_step_of(*line)) hear_paired_step(*s, w, i);
    if (launch.has_ended()) return ended("the job " + name_of(i), launch);
  }
  return {};
}

result<std::pair<double, double>> watch_both(const pair_plan& plan, double seconds, job_pair& w) {
  const double begun_s = clock_s();
  for (;;) {
    TROUPE_CHECK(hear_in_turn(plan, w));
    const double now_s = clock_s();
    const auto since_s = both_since_s(w);
    if (since_s && now_s >= *since_s + seconds) return std::pair(*since_s, now_s);
    if (since_s || now_s < begun_s + patience_s) continue;
    std::string said;
    for (const auto& j : w.both)
      if (!j.first_s) said = j.launch.last_words();
    return error{errc::timeout,
                 fmt::format("a job makes no step within {} s: {}", patience_s, said)};
  }
}

std::vector<pid_t> jobs_of(const job_pair& w) {
  std::vector<pid_t> out;
  for (const auto& j : w.both) out.push_back(j.launch.pid());
  return out;
}

void end_all(job_pair& w) {
  for (auto& j : w.both) j.launch.end();
  for (auto& b : w.budget) b.end();
}

}  // namespace troupe::apps::power_bench
