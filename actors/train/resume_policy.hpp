// What a run that goes on from a checkpoint takes from it besides the tensors, and what of the
// configuration has changed since: each difference is said, what cannot mean anything is refused.
//
// Invariants
//   RSM-1  What a person set stays until the configuration changes that key: then the file rules.
//   RSM-2  Each difference in [model], [data], [train], [parallel] and job.seed is said or refused.
//   RSM-3  The position in the data is that of the tokens seen, whatever batch and length were.
//   RSM-4  What counts as saved from the start on is what the next start would come to by itself:
//     not one that was set aside, nor one in a folder that is not the job's.
//   RSM-5  A checkpoint of fewer replicas than its job had is said to be one: nobody has changed
//     parallel.data.
//   RSM-6  Stages keep the layers that the checkpoint's had, unless there are other stages or
//     parallel.layers says so: how a model is cut decides the last bits of its losses. What is
//     recorded is not measured anew (parallel.placement). With the layers nodes keep the order of
//     their ranks, unless parallel.nodes says so or there are other nodes.
#pragma once

#include <filesystem>
#include <vector>

#include "actors/job/train_state.hpp"
#include "actors/train/finding.hpp"
#include "io/config/job.hpp"

namespace troupe::train {

/// How a run goes on.
struct resumption {
  config::job job;                              ///< with what stays set
  std::vector<checkpoint::setting_change> set;  ///< what stays set
  findings found;  ///< remarks: the differences; problems: those that mean nothing
};

/// `job` goes on from a checkpoint with that state. A state whose configuration this version cannot
/// read is a remark: nothing can be compared then.
resumption resume_policy(const config::job& job, const checkpoint::train_state& saved);

/// The row of the endless sequence of training windows that the next step begins with (RSM-3).
uint64_t first_row_after(uint64_t tokens, int64_t seq_len);

/// Whether a checkpoint bears the name of a complete one in either of the job's tiers (RSM-4). By
/// the paths alone, as starts write them.
bool lies_in_place(const std::filesystem::path& checkpoint, const config::checkpoint_section& job);

}  // namespace troupe::train
