// The line of a checkpoint: which launches trained the state it holds, each up to which step.
//
// Why: step numbers alone do not say what descends from what. After a fresh start, a return to an
// older checkpoint or a fall to another tier the folder holds steps of a past that the run did not
// have; they must neither be resumed from by mistake nor count when old ones are given up.
//
// A launch that starts from nothing begins a line with a number of its own, drawn at random; one
// that resumes appends its number to the line of what it resumed from. Checkpoints from before
// lines were written are one line, launch 0, in the order of their steps.
//
// Invariants
// LN-1 Two checkpoints are of one line exactly where one's state was trained on to the other's.
// LN-2 Steps never fall along a line, and the last mark's step is the checkpoint's own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::io::checkpoint {

/// One launch of a line, and its last step that belongs to the line.
struct launch_mark {
  uint64_t launch = 0;  ///< drawn at random; 0: before lines were written
  uint64_t step = 0;
  bool operator==(const launch_mark&) const = default;
};

/// Oldest launch first, the writer's last. Empty in files from before lines were written.
using lineage = std::vector<launch_mark>;

/// What a manifest holds at most; of longer lines the oldest launches but the first are left out.
inline constexpr size_t max_launches = 4096;

/// The line of what launch `launch` saves at `step`, where it began from `from` (empty: nothing).
lineage continued(const lineage& from, uint64_t launch, uint64_t step);

/// A launch, and the checkpoint it began from.
struct origin {
  uint64_t launch = 0;
  lineage from;                      ///< empty: it began from nothing
  std::filesystem::path checkpoint;  ///< absolute; empty: it began from nothing

  /// The line of what it saves at `step`.
  lineage at(uint64_t step) const { return continued(from, launch, step); }
};

/// Whether what `line` says was trained on to what `later` says, or both are one (LN-1).
bool leads_to(const lineage& line, const lineage& later);

/// The number of the launch that began the line: its name for people, "0123456789abcdef".
std::string name_of(const lineage& line);

/// A number for a launch, from the system's entropy; never 0.
uint64_t draw_launch();

}  // namespace troupe::io::checkpoint
