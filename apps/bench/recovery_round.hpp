// `troupe bench recovery`: one job to which something is done, and when it was noticed, named and
// made good, by the clock of who did it.
//
// Invariants
//   BRC-1  What the job says of itself is not believed: a time is that at which its line came.
//   BRC-2  It is back with the first step that it had not made before; a step that is made again
//     is none. Lines that the fault found in a pipe are of before it.
//   BRC-3  Losses are compared as doubles, each of them, with those of a run that nobody disturbed.
//   BRC-4  A drill's fault begins with the line that says that it acts. Who is named after it is
//     who the first finding of what stands still is about.
#pragma once

#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/result.hpp"

namespace troupe::apps::recovery_bench {

/// What is done to a node.
struct fault {
  std::string_view id, about;
  int signal = 0;               ///< to its process; else
  std::string_view drill = {};  ///< what the job does to rank 1 of its own accord ([[inject]])
};
inline constexpr fault faults[]{
    {"kill", "its process is killed (SIGKILL)", SIGKILL},
    {"stop", "its process stands still for ever (SIGSTOP)", SIGSTOP},
    {.id = "hang",
     .about = "an operation of its rank never ends, though its process lives (a drill)",
     .drill = "hang"}};

/// What all rounds train: where, and with which further settings.
struct bench_job {
  std::filesystem::path folder;   ///< job.toml and its data lie there, marked as scratch
  std::vector<std::string> sets;  ///< KEY=VALUE
  int every_steps = 5, steps = 0;           ///< from one checkpoint to the next; in all
  const std::atomic<bool>* stop = nullptr;  ///< a person interrupts
};

/// What runs a job and starts the processes of its ranks, as children of its own; each tells a step
/// by a line as `up` does in JSON.
struct trainer {
  std::string_view id;
  std::function<std::vector<std::string>(const bench_job&)> command;
  std::vector<std::string> victim;  ///< words of the victim's command line or environment
  std::string names;                ///< what precedes the name of who failed in what it says
  std::string victim_name;
  bool hears_silence = true;  ///< notices within minutes a process that stands still
  std::function<status()> is_here = [] { return status(); };  ///< else it is left out
  bool has_drills = false;  ///< knows [[inject]] and --allow-injection
};
/// `troupe up`.
trainer own_trainer();

/// What a job has against a fault.
struct way {
  std::string_view id, about;
  std::vector<std::string> sets = {};  ///< of the configuration, KEY=VALUE
  bool ends = false;  ///< the job ends of it, and is started again from outside
  trainer by = own_trainer();
  std::vector<std::string> there = {};  ///< what is said once all of it is there, before the fault
};
std::vector<way> own_ways();

/// Loss by step.
using losses = std::map<int, double>;

/// Writes job.toml and its data (data.txt) into the folder. Errors: io.
status write_job(const bench_job& job);

/// Trains it to its end. Errors: unavailable with its last lines, where it does not get there.
result<losses> train_undisturbed(const bench_job& job, const trainer& by);

struct outcome {
  double noticed_s = 0;  ///< until its first word about anything but a step
  double named_s = 0;    ///< until a line named a node
  bool right = false;    ///< and that was the one
  double back_s = 0;
  int repeated_steps = 0;
  bool same_bits = false;
};

/// Trains it with a fault to the trainer's victim once `step` is made and all that the way needs is
/// there; a drill acts in `step`, by which that must be there. Errors: as above, and timeout.
result<outcome> disturb(const bench_job& job, const way& how, const fault& what, int step,
                        const losses& truth);

}  // namespace troupe::apps::recovery_bench
