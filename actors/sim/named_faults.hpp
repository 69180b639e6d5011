// Faults that a person names: KIND[:WHO]@SECONDS[+SECONDS], as `troupe sim --fault` takes them.
//
//   crash_node:node1@12.5     the process of node1 is killed 12.5 virtual seconds after the start
//   slow_device:3@10+30       rank 3 is slower for 30 s
//   slow_section:node1/backward@10+30, or slow_section:node1 for a section by chance
//   kill_actor:worker/0@4     tier_out:2@5+60     save_now@3
//
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "actors/sim/faults.hpp"
#include "io/base/result.hpp"
#include "io/config/job.hpp"

namespace troupe::sim {

/// A fault as it was named; a victim that is not named, and what else is left to chance, is drawn
/// from `chance`. Errors: usage.
result<fault> parse_fault(std::string_view text, rng& chance);
/// Whether it is a node that it befalls.
bool befalls_node(fault_kind kind);

/// The same word again.
std::string spelled(const fault& f);

/// Whether a job can have it at all: its kind, and whom it names. Errors: usage.
status check_fault(const fault& f, const config::job& job);

}  // namespace troupe::sim
