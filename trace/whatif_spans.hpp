// The spans of a trace of ours as what-if analysis takes them: which rank did what for which step.
#pragma once

#include <vector>

#include "io/base/result.hpp"
#include "trace/timeline.hpp"
#include "trace/whatif_graph.hpp"

namespace troupe::trace {

/// What whatif_graph::build takes.
struct whatif_window {
  whatif_layout layout;
  std::vector<whatif_span> spans;
};

/// The work of the workers within the trace's steps. How many data ranks there are is read off who
/// receives no activations (io/base/rank_grid.hpp: the layout of ranks). Errors: not_found where
/// the trace has no step or no worker's work, bad_data where ranks are missing.
result<whatif_window> whatif_window_of(const timeline& t);

}  // namespace troupe::trace
