// `troupe power agent`: joins a machine without a job to a power budget, as a rack of inference
// servers: it reads the machine's meters, reports what is drawn, and holds what is granted by a
// clock or a limit.
//
//   <output>/power.jsonl   what it decided, a JSON object a line (actors/power/pacer_journal.hpp)
//
// Invariants
//   PGA-1  Without the right to set what --control names it does not start, and has changed
//     nothing. A device that a job governs is left to that: the agent goes on metering.
//   PGA-2  The budget never counts less than what its end leaves to be drawn. SIGTERM, as of a
//     restart, leaves what it has set, with its record, as a death does: the machine counts at
//     what was in force (PWR-5). SIGINT, and any end where nothing is held, tells the budget first
//     that all may be drawn (MHD-6); what was set is taken back once that is answered, and else
//     stays, which the exit code tells. The next agent goes on from what stays, and takes back what
//     it does not hold; one that fails to start leaves it. By hand `troupe power restore` takes it
//     back. One of whose devices does not answer any more ends all the same, and what is set stays.
//   PGA-3  One process is the agent of an output folder: it is locked.
//   PGA-4  What jobs ask for at its socket (gpu/controls/agent_server.hpp), a pace or clocks of
//     operations, makes devices slower than the budget lets them be, and never faster, and is let
//     go before anything else as it ends: what stays is the budget's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/cluster/network.hpp"
#include "apps/up/power_parent.hpp"
#include "gpu/controls/machine_controls.hpp"
#include "gpu/meters/readers.hpp"
#include "io/base/result.hpp"

namespace troupe::apps::power_verb {

/// What the command line says.
struct agent_arguments {
  std::string name, parent = "auto", output;
  std::vector<std::string> control = {};  ///< for each device the first that it offers
  cluster::network_options network = {};
  gpu::power_model model = {};
  std::string socket = {}, socket_group = {};  ///< where jobs ask, and who may; empty: nowhere
  double static_w = -1;  ///< that the budget's file gives it; -1: the budget says it
  bool dry_run = false, json = false;
};

/// Who joins. Errors: usage, where the words cannot be meant.
result<power_joiner> agent_joiner(const agent_arguments& a);

/// Errors: usage, where there is a socket and nothing can be asked for there, or a group alone.
status check_socket(const agent_arguments& a);

/// What it sets, from now on its own, or as an agent before it has left it; null: nothing (a dry
/// run). Errors: those of machine_controls::make, with what to do about them here; usage.
result<std::shared_ptr<gpu::controls::machine_controls>> controls_of(
    const agent_arguments& a, const gpu::controls::control_place& at);

}  // namespace troupe::apps::power_verb
