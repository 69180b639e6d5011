// Which words of the console would lose the only copy of steps that were made, and so are asked
// about: nobody gets them back as they are, though a job can make them again.
//
// Pure. What a running job says of itself is all that it knows.
//
// Invariants
//   LOS-1  Asked about is what takes out a node with ranks, ends the run without a save, or goes
//     back, where steps are newer than what is left then: the newest checkpoint, or a copy in
//     memory that outlives the node.
//   LOS-2  What saves first (drain, stop), or finds all on the disk, is not asked about; nor is
//     what the run makes good by itself (the end of a worker).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/control/commands.hpp"
#include "io/base/error_kind.hpp"

namespace troupe::apps {

/// What a job says of itself, and of what an order names.
struct loss_facts {
  uint64_t step = 0;    ///< the last that is done
  uint64_t saved = 0;   ///< the newest whose checkpoint is committed
  uint64_t copied = 0;  ///< the newest that a copy in memory was ordered of
  bool node_has_ranks = false;
  bool spare_is_ready = false;
  bool ends_run = false;  ///< it names an actor whose end is the run's
};

/// Nobody has said that what an order loses may be lost.
inline constexpr error_kind<std::string_view> would_lose{
    "would_lose", errc::usage, "{0}", "`troupe console --yes` does it all the same"};

/// The facts of a view, for what the command names.
struct named_facts {
  bool node_has_ranks = false, ends_run = false;
};
named_facts facts_in(const fbs::ClusterViewT& view, const console_command& c);

/// Whether anything of these facts matters for a command.
bool may_lose(const console_command& c);

/// What it would lose, a sentence; none: nothing.
std::optional<std::string> loss_by(const console_command& c, const loss_facts& facts);

}  // namespace troupe::apps
