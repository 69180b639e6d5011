// Doing it, and hearing what the job says of it.
#include "apps/bench/recovery_round.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/bench/job_launch.hpp"
#include "apps/bench/stopwatch.hpp"
#include "io/folder/owned.hpp"

namespace troupe::apps::recovery_bench {

using clock = std::chrono::steady_clock;

namespace {

constexpr std::string_view output = "run";
constexpr int steps_to_drill = 20;  ///< in which all that a way needs comes to be there

result<job_launch> start_launch(const bench_job& job, const trainer& by,
                                const std::vector<std::string>& sets, bool drills = false) {
  auto words = by.command(job);
  for (const auto& s : sets) words.insert(words.end(), {"--set", s});
  if (drills) words.push_back("--allow-injection");
  return job_launch::start(words, job.stop);
}

/// "node1" of what a finding says of "rank 1 (node1)"; empty: it says it of none.
std::string node_of_rank(std::string_view line) {
  constexpr std::string_view rank = "rank ";
  for (auto at = line.find(rank); at != line.npos; at = line.find(rank, at + 1)) {
    auto rest = line.substr(at + rank.size());
    rest.remove_prefix(std::min(rest.find_first_not_of("0123456789"), rest.size()));
    if (rest.starts_with(" (")) return std::string(rest.substr(2, rest.find(')') - 2));
  }
  return {};
}

/// A job that is disturbed, from the outside.
class watcher {
 public:
  /// `findings_name`: so may a finding that names a rank, as where no process ends.
  watcher(const trainer& by, const losses& truth, bool findings_name)
      : by_(by), truth_(truth), findings_name_(findings_name) {}

  void begin() {
    fault_ = clock::now();
    disturbed_ = true;
  }

  /// What a launch or an epoch says that began after the fault is of after it (BRC-2).
  void hear(const std::string& line, bool second_launch) {
    if (const auto s = job_step_of(line)) return hear_step(*s, second_launch || s->epoch > 1);
    if (line.starts_with('{') || !disturbed_) return;
    if (found_.noticed_s == 0) found_.noticed_s = seconds_since(fault_);
    const auto name = named_in(line);
    if (found_.named_s > 0 || name.empty()) return;
    found_.named_s = seconds_since(fault_);
    found_.right = name == by_.victim_name;
  }

  int newest() const { return newest_; }
  /// Every step was made, the last one too.
  bool is_whole() const { return newest_ == static_cast<int>(truth_.size()); }
  bool is_back() const { return found_.back_s > 0; }
  outcome found() const {
    auto out = found_;
    out.same_bits = same_;
    return out;
  }

 private:
  std::string named_in(const std::string& line) const {
    const auto at = line.find(by_.names);
    if (at == line.npos) return findings_name_ ? node_of_rank(line) : "";
    const auto from = at + by_.names.size();
    return line.substr(from, line.find_first_of(" :,", from) - from);
  }

  void hear_step(const job_step& s, bool later) {
    const auto it = truth_.find(s.step);
    same_ = same_ && it != truth_.end() && same_loss(it->second, s.loss);  // BRC-3
    if (later && s.step <= newest_) ++found_.repeated_steps;
    if (later && s.step > newest_ && !is_back()) found_.back_s = seconds_since(fault_);
    newest_ = std::max(newest_, s.step);
  }

  const trainer& by_;
  const losses& truth_;
  bool findings_name_;
  clock::time_point fault_;
  bool disturbed_ = false, same_ = true;
  int newest_ = 0;
  outcome found_;
};

status hear_all(job_launch& run, watcher& seen, bool second_launch) {
  for (;;) {
    TROUPE_TRY(line, run.hear());
    if (!line) return {};
    seen.hear(*line, second_launch);
  }
}

status afresh(const bench_job& job) {
  return io::remove_from_scratch(job.folder, std::string(output));
}

/// The job's first lines, until `step` is made and all that the way needs is there; before a drill
/// that would act by itself.
status hear_begin(job_launch& run, watcher& seen, const way& how, int step,
                  std::string_view drill) {
  auto missing = how.there;
  while (seen.newest() < step || !missing.empty()) {
    TROUPE_TRY(next, run.hear());
    if (!next)
      return error{errc::unavailable, "the job ends before the fault: " + run.last_words()};
    if (!drill.empty() && next->find(drill) != next->npos)
      return error{errc::unavailable,
                   fmt::format("the drill acts before `{}` is said", fmt::join(missing, "`, `"))};
    std::erase_if(missing, [&](const auto& words) { return next->find(words) != next->npos; });
    seen.hear(*next, false);
  }
  return {};
}

status send_signal(const job_launch& run, const trainer& by, int signal) {
  const pid_t victim = child_with(run.pid(), by.victim);
  if (victim == 0 || ::kill(victim, signal) != 0)
    return error{errc::not_found, fmt::format("no process of {} to disturb", by.victim_name)};
  return {};
}

/// Until the job says that its drill acts.
status hear_drill(job_launch& run, watcher& seen, std::string_view begins) {
  for (;;) {
    TROUPE_TRY(next, run.hear());
    if (!next)
      return error{errc::unavailable, "the job ends before its drill: " + run.last_words()};
    if (next->find(begins) != next->npos) return {};
    seen.hear(*next, false);
  }
}

}  // namespace

trainer own_trainer() {
  return {"troupe",
          [](const bench_job& job) {
            std::vector<std::string> out{own_program(), "up", (job.folder / "job.toml").string()};
            for (const auto& s : job.sets) out.insert(out.end(), {"--set", s});
            return out;
          },
          {"--name", "node1"},
          "node ",
          "node1",
          true,
          true};
}

status can_be_made(const fault& what, const way& how) {
  if (what.signal == SIGSTOP && !how.by.hears_silence)
    return error{errc::unavailable, "it waits for half an hour and more"};
  if (what.drill.empty()) return {};
  if (!how.by.makes_drills) return error{errc::unavailable, "it makes no drills"};
  if (how.ends) return error{errc::unavailable, "it ends only after timeouts.step_s"};
  return {};
}

std::vector<way> own_ways() {
  const std::string spare_joined = "spare node2 joined";
  return {{"restart", "a new epoch in the processes that live, from the disk",
           {"recovery.enabled=true"}},
          {.id = "spare",
           .about = "the same, and a spare has the lost node's place",
           .sets = {"cluster.spares=1"},
           .there = {spare_joined}},
          {.id = "copies",
           .about = "the same, and it goes on from copies in memory, taken after each step",
           .sets = {"cluster.spares=1", "checkpoint.memory.every=1"},
           .there = {spare_joined, "copies in memory after"}},
          {"again", "the job ends, and `up` starts it again, from the disk",
           {"recovery.enabled=false"}, true}};
}

/// `drill`: an [[inject]] to the second rank, in that step.
status write_job_with(const bench_job& job, std::string_view drill, int step) {
  TROUPE_CHECK(write_words(job.folder / "data.txt"));
  std::ofstream file(job.folder / "job.toml");
  file << fmt::format(
      "[job]\nname = \"recovery\"\noutput = \"{0}/{1}\"\n"
      "[cluster]\nnodes = 2\nthreads = 1\n[parallel]\ndata = 2\n"
      "[model]\nfamily = \"llama\"\nlayers = 4\nhidden = 128\nheads = 4\n"
      "[data]\ntokenizer = \"bytes\"\npath = \"{0}/data.txt\"\n"
      "[train]\nsteps = {2}\nbatch = 16\nseq_len = 64\nlr = 3e-3\n"
      "[checkpoint]\nevery = {3}\n[log]\nformat = \"json\"\n",
      job.folder.string(), output, job.steps, job.every_steps);
  if (!drill.empty())
    file << fmt::format("[[inject]]\nwho = \"rank 1\"\nwhat = \"{}\"\nfrom_step = {}\n", drill,
                        step);
  file.flush();
  if (!file) return error{errc::io, "write the job into " + job.folder.string()};
  return {};
}

status write_job(const bench_job& job) {
  return write_job_with(job, "", 0);
}

result<losses> train_undisturbed(const bench_job& job, const trainer& by) {
  TROUPE_CHECK(afresh(job));
  TROUPE_TRY(run, start_launch(job, by, {}));
  losses out;
  for (;;) {
    TROUPE_TRY(line, run.hear());
    if (!line) break;
    if (const auto s = job_step_of(*line)) out[s->step] = s->loss;
  }
  if (out.empty() || out.rbegin()->first != job.steps)
    return error{errc::unavailable, "the job does not train: " + run.last_words()};
  return out;
}

result<outcome> disturb(const bench_job& job, const way& how, const fault& what, int step,
                        const losses& truth) {
  TROUPE_CHECK(afresh(job));
  const bool drills = !what.drill.empty();
  if (drills && step + steps_to_drill >= job.steps)
    return error{errc::usage,
                 fmt::format("a drill after step {} of {} is too late", step, job.steps)};
  TROUPE_CHECK(write_job_with(job, what.drill, step + steps_to_drill));
  watcher seen(how.by, truth, drills);
  TROUPE_TRY(first, start_launch(job, how.by, how.sets, drills));
  TROUPE_CHECK(hear_begin(first, seen, how, step, what.begins));
  if (drills) {
    TROUPE_CHECK(hear_drill(first, seen, what.begins));
  } else {
    while (const auto said = first.said_already()) seen.hear(*said, false);  // BRC-2
    TROUPE_CHECK(send_signal(first, how.by, what.signal));
  }
  seen.begin();
  TROUPE_CHECK(hear_all(first, seen, false));
  std::string words = first.last_words();
  if (how.ends) {
    TROUPE_TRY(second, start_launch(job, how.by, how.sets));
    TROUPE_CHECK(hear_all(second, seen, true));
    words = second.last_words();
  }
  if (!seen.is_back() || !seen.is_whole())
    return error{errc::unavailable, fmt::format("the job does not come back: {}", words)};
  return seen.found();
}

}  // namespace troupe::apps::recovery_bench
