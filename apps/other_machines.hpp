// How long a step of a job takes on machines that are not here, by what they were probed to do
// (`troupe predict probe`, io/perf/hw_rows.hpp).
//
// A roofline: the planned work of each stage over the products and updates of its nodes' probes,
// and what leaves a machine over its network card. A layer reaches less than the probe's large
// products. By how much is known where steps of such work were seen on this machine and this
// machine was probed, too: then both rooflines carry over what was seen. Otherwise the interval is
// wide. Both are chosen widths (gpu/predict/roofline.hpp).
//
// A machine that was not probed has the rates of one that was, this one or another of the file, by
// what a prior says of both (predict.prior, gpu/predict/speed_prior.hpp); its interval counts, too.
//
// Pure but for read_others().
//
// Invariants
//   OTH-1  No number that a profile lacks is guessed, but by a prior that the job names, which is
//     said: it is named, with the command that measures it. A network card's is left out, and that
//     is said.
//   OTH-2  What is outside of what was measured is named, and the interval is wider.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "actors/job/plan.hpp"
#include "actors/job/stage_split_policy.hpp"
#include "actors/train/memory_estimate.hpp"
#include "apps/expected_step.hpp"
#include "apps/past_steps.hpp"
#include "gpu/predict/speed_prior.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/perf/hw_rows.hpp"

namespace troupe::apps {

/// Of a machine in a file: numbers that are needed and not there.
inline constexpr error_kind<std::string_view, std::string_view, std::string_view> probes_missing{
    "probes_missing", errc::bad_data, "{} of {} has no {}",
    "run `troupe predict probe --again -o FILE.csv` on that machine"};

/// Of a file: the machines in it, and those that are expected.
inline constexpr error_kind<std::string_view, size_t, size_t> other_machine_count{
    "other_machine_count", errc::usage, "{} has {} machines, expected {}",
    "--like takes a file of one machine, --nodes a row for each node of the job"};

/// Which file, if any: one machine that each node is like, or a row a node.
struct other_files {
  std::string like, nodes;
  bool any() const { return !like.empty() || !nodes.empty(); }
};

/// What a job's nodes are.
struct other_machines {
  std::string file;
  std::vector<io::perf::hw_machine> nodes;  ///< in the order of the job's nodes
  job_machines can;                         ///< a machine a node
  std::vector<uint64_t> worker_bytes;       ///< of each node; 0: not known
  std::vector<std::string> by_prior = {};   ///< nodes whose rates a prior tells
  double prior_half = 0;  ///< of its 95 % interval of their logarithms, the widest
};

/// What tells of machines that were not probed, and what this machine was probed to do, if it was.
struct known_by_prior {
  gpu::predict::speed_prior prior;
  std::optional<io::perf::hw_profile> here = {};
};
/// Rates of machines that have none, where one of them or this one was probed: their names, and how
/// wide the interval is that the prior gives.
struct filled_machines {
  std::vector<std::string> names;
  double half = 0;
};
filled_machines fill_by_prior(std::vector<io::perf::hw_machine>& machines, known_by_prior& known);

/// Errors: other_machine_count, probes_missing, and those of read_hw_machines.
result<other_machines> read_others(const other_files& files, const train::job_plan& plan,
                                   std::optional<known_by_prior> known = {});
/// Of machines that were read: one, or one for each node. Errors: the same.
result<other_machines> others_of(const std::string& file,
                                 const std::vector<io::perf::hw_machine>& machines,
                                 const train::job_plan& plan);

/// A place's machine, as it was probed; nodes that share one have the same `host`.
struct probed_place {
  std::string host;
  io::perf::hw_machine machine;
};
/// Of the nodes of a job that has begun, in the order of its places: those of one machine share its
/// processors. Errors: other_machine_count, probes_missing.
result<other_machines> others_of(const std::vector<probed_place>& places,
                                 const train::job_plan& plan);

/// What runs on them are remembered by (apps/run_machines.hpp).
std::optional<run_machines> machines_of(const other_machines& others, const config::job& job);

/// What this machine does, and what steps of the job would take here.
struct known_here {
  io::perf::hw_profile probes;
  io::perf::past_estimate step;
};

struct expected_there {
  expected_step step;
  std::optional<double> network_s;   ///< of a step; nothing: a card's rate is not known
  std::string rests_on;              ///< "1,240 steps of 9 runs of this work here, ..."
  std::vector<std::string> outside;  ///< OTH-2
  /// What parallel.placement = "measured" would choose; nothing for one stage.
  std::optional<result<train::stage_split>> split;
};

expected_there expect_there(const train::job_plan& plan,
                            const std::vector<train::planned_stage>& stages,
                            const other_machines& others, const std::optional<known_here>& here);

/// The rank that needs most of what its node has for it, and that node.
struct tightest_rank {
  uint64_t needed = 0;
  uint64_t has = 0;  ///< 0: no node's memory is known
  std::string node;
};
tightest_rank tightest_of(const train::job_plan& plan,
                          const std::vector<train::planned_stage>& stages,
                          const other_machines& others);

/// For people, lines with their ends, the first of which begins with `head`; for programs.
std::string there_text(const train::job_plan& plan, const expected_there& expected,
                       std::string_view head = "expected there, roughly");
nlohmann::ordered_json there_json(const train::job_plan& plan, const other_machines& others,
                                  const expected_there& expected);

}  // namespace troupe::apps
