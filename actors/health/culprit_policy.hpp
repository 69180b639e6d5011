// Who holds up a training that stands still, as findings: of the wait graph's answer
// (trace/wait_graph.hpp) the silent one, which is the culprit, and never those that wait for it and
// report the error.
//
// CUL-1  Only culprits become findings, no suspects (WG-2): those are probably victims. Of several
//        all that are silent, else the one most waited for.
// CUL-2  A culprit that waits for nobody is one only if it was reached: where ranks of other
//        processes wait for it, a link may be the culprit.
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

/// The nodes between which a link may be what holds up all, each once: those whose ranks wait for
/// each other, first those of the longest wait; or that of a culprit that waits for nobody, behind
/// those of other processes that wait for it: what they asked may never have come there. Empty:
/// no link can be it.
std::vector<std::string> nodes_of_links(const std::vector<trace::waiting_process>& cluster,
                                        const trace::wait_report& report);
/// Whether what such a finding tells may be a link's doing.
bool may_be_a_link(const finding& f);

}  // namespace troupe::health
