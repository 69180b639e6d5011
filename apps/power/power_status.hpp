// What `troupe power status` says of a running job: what its machines draw, and what its budget
// makes of that.
//
// Text from what actors published, so that tests hold it; nothing here reads a clock or a network.
#pragma once

#include <string>
#include <vector>

#include "messages/schemas/control_generated.h"

namespace troupe::apps::power_verb {

/// A machine whose meter says something, and the nodes that live on it.
struct metered_machine {
  std::vector<std::string> nodes;
  double power_w = -1;  ///< -1: not known
  bool modelled = false;
  double energy_j = -1;  ///< since its node began; -1: not known
  /// Devices that say that somebody's power brake holds them, by a signal from outside.
  std::vector<std::string> braked = {};
};

/// Ranks whose pace the same actuator holds.
struct paced_ranks {
  std::string control;  ///< a word of power.control
  size_t ranks = 0;
  /// From a command until its effect was seen, of the slowest of them; -1: none has measured it.
  double p50_ms = -1, p99_ms = -1;
};

/// A job, as its actors published it.
struct job_power {
  std::string job;
  fbs::PacerStatusT pacer;
  double energy_j = -1;  ///< since its run began; -1: not known
  double waited_ms = 0;  ///< that the budget held training up
  std::vector<metered_machine> machines = {};
  std::vector<paced_ranks> controls = {};  ///< by their names
};

/// Nodes on one machine are one: the first that says its watts is believed.
job_power job_power_in(const fbs::ClusterViewT& view);

/// "gpu0, gpu1 of node2: a power brake holds them from outside, ..."; empty: none does.
std::string outside_brake_words(const metered_machine& m);

/// "gpt-a  ~41.0 of 44 W  93 %  pace 52 %  ...", and a line for each machine under it.
std::string status_text(const job_power& job);
std::string status_json(const job_power& job);
/// Gauges and counters in Prometheus's text format, for node_exporter's textfile collector.
std::string status_prometheus(const job_power& job);

}  // namespace troupe::apps::power_verb
