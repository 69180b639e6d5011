// Who holds up a training that stands still, as findings: of the wait graph's answer
// (trace/wait_graph.hpp) the silent one, which is the culprit, and never those that wait for it and
// report the error.
//
// CUL-1  Only culprits become findings, no suspects (WG-2): those are probably victims. Of several
//        all that are silent, else the one most waited for.
#pragma once

#include <string>
#include <vector>

#include "actors/health/findings_policy.hpp"
#include "trace/wait_graph.hpp"

namespace troupe::health {

/// What the graph makes of it. `still_s`: for how long no rank has moved, of at most `allowed_s`.
std::vector<finding> culprits_of(const std::vector<trace::waiting_process>& cluster,
                                 const trace::wait_report& report, double still_s,
                                 double allowed_s);

/// The nodes whose ranks wait for each other, each once, first those of the longest wait; empty:
/// there is no such circle, or somebody else is the culprit.
std::vector<std::string> nodes_in_circle(const std::vector<trace::waiting_process>& cluster,
                                         const trace::wait_report& report);

}  // namespace troupe::health
