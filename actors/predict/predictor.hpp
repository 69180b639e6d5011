// The predictor: learns what each part of a rank's step takes while the job trains, and says what
// is to be expected. In the head, on a thread of its own: a fit takes up to a second of a part.
//
// Messages: StepTimes from the run, which it answers with StepTimesTaken once it is done with that,
// a fit included; Predict and Explain from whoever looks; ForgetNode from an operator; HwProfile
// from the coordinator, before the first steps of an epoch. Suspect to the monitor: evidence for
// what that finds.
//
// Invariants
//   PRD-1  Killed, hung or left out (predict.enabled) it costs its answers alone: the run waits for
//     nothing of it, and training has the same messages and the same losses (run_times.hpp).
//   PRD-5  Its mailbox has one StepTimes at most, and what it keeps is bounded (LRN-3).
//   PRD-6  What it learned is kept in a file now and then and at its end, where it has one, behind
//     what others keep there. A file that cannot be read is done without, and named; one of the
//     usual name is put aside, one that a person named stays where it is.
//   PRD-7  It fits one model a step: ranks of the same machine miss a core for no longer than that.
//     Once the head ends it fits nothing, and a fit under way is cut short: the end waits for its
//     thread.
//   PRD-8  It learns from the run of its own process alone, and of no epoch before the newest that
//     the run has told of: what others of the cluster say is counted as rejected. The same of
//     profiles, which come from the coordinator of its process; where one tells of other hardware
//     than a node's name was known for, that is said (LRN-9).
//   PRD-9  It learns nothing from what somebody watches a trace of: what is shown of messages costs
//     those who send and get them. That the gateway knows, which passes every view on; it is read
//     from the registry, when a step is heard.
//   PRD-10  What it reads beside its messages is in a recording of it: the times that it began
//     with, and, as readings, who is the run, whether somebody watches, whether the head ends, what
//     its prior says of a machine, and how many lines of a node that it forgot its file has lost,
//     which others add to, too. With these a replay does the same (actors/replay/factories.cpp).
//
// Failure policy: done without. Training goes on, and nothing is expected any more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "actors/base/traced.hpp"
#include "actors/predict/kept_times.hpp"
#include "actors/predict/learning_policy.hpp"
#include "actors/predict/probed_limit_policy.hpp"
#include "gpu/predict/speed_prior.hpp"
#include "io/base/model_config.hpp"
#include "io/config/job.hpp"
#include "io/perf/hw_profile.hpp"
#include "messages/actors.hpp"

namespace troupe::predict {

/// What a node's machine was probed to do, as the coordinator tells it.
struct told_profile {
  std::string node, host;  ///< host: of nodes that share a machine the same
  uint32_t place = 0, places = 0;
  io::perf::hw_profile profile;
};

struct predictor_options {
  config::job job;  ///< settled
  uint32_t epoch = 0;
  std::filesystem::path store = {};  ///< empty: nothing is kept
  std::stop_token over = {};         ///< the head ends (PRD-7)
  monitor_actor monitor = {};        ///< none where nobody watches
  std::shared_ptr<kept_times> kept = {};  ///< in place of the store
  /// Tells a recording what it is made of, and the times that it began with, a line each.
  std::function<void(std::vector<std::string>)> recorded = {};
  /// Told of each node in each epoch, on the actor's thread; its profile is empty where it told of
  /// none.
  std::function<void(const told_profile&)> profiled = {};
  /// Told a sentence for a person, on the actor's thread.
  std::function<void(const std::string&)> says = {};
  model_config model = {};  ///< what the job's model is
  /// Of predict.prior, read already; none: it names none, or this is a replay (PRD-10).
  std::shared_ptr<gpu::predict::speed_prior> prior = {};
};

/// In the job's output, where it names no other file.
inline constexpr std::string_view usual_store = "part-times.jsonl";
/// Where the job keeps what is learned.
std::filesystem::path store_of(const config::job& job);

/// What names a run that began then, by a clock that counts from the machine's start: microseconds,
/// since so many nanoseconds as 104 days have are beyond what a line holds (part_times.hpp).
uint64_t number_of_run(int64_t began_ns);

/// Of nodes whose expected and seen times are counters in traces.
inline constexpr size_t counted_nodes = 64;

/// Names of work.
struct node_counters {
  uint16_t expected = 0, seen = 0;
};

struct predictor_state {
  static inline const char* name = "predictor";
  learning_policy policy;
  probed_limit_policy limits;
  std::stop_token over;
  monitor_actor monitor;
  bool is_traced = false;  ///< as of the step heard last
  std::map<std::string, node_counters> counters = {};
  uint64_t dropped = 0;  ///< steps that the run did not tell of
  double fit_s = 0;      ///< of the last fit
  std::function<void(const told_profile&)> profiled = {};
  std::function<void(const std::string&)> says = {};
  std::shared_ptr<gpu::predict::speed_prior> prior = {};
  bool has_prior = false;                 ///< the job names one
  std::shared_ptr<kept_times> kept = {};  ///< none: nothing is kept
  bool store_is_usual = false;  ///< no person named it
  std::string store_problem = {};  ///< since it was read
  std::string keep_problem = {};   ///< of the last time that it was added to
  uint64_t run = 0;                ///< what is kept is of this one: when it began
  int64_t keep_ns = 0;     ///< when it is added to next
  int64_t keep_in_ns = 0;  ///< that long after the time before
};
using predictor_pointer = traced_pointer<predictor_actor, predictor_state>;

predictor_actor::behavior_type predictor(predictor_pointer self, predictor_options options);

}  // namespace troupe::predict
