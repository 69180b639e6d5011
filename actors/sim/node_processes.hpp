// The processes of a simulated cluster's nodes: each has the real node's actor, a host and a
// connector, and ends with its node. Nodes are counted from 1: they are that place of the world.
//
// Invariants
//   NPS-1  A process ends once its node has: nothing of it is left then (simulation.hpp: SIM-7),
//     and it was told why.
#pragma once

#include <cassert>
#include <functional>
#include <string>
#include <vector>

#include "actors/cluster/host.hpp"
#include "actors/sim/environment.hpp"

namespace troupe::sim {

struct simulation_options;

class node_processes {
 public:
  /// All outlive it. `count`: of nodes, spares among them.
  node_processes(world& where, environment& room, const simulation_options& options,
                 const train::job_plan& plan, int count);

  /// Starts a process in a place of the world that is empty. `heads`: HOST:PORT where it looks for
  /// its coordinator, in turn.
  void start(int n, const std::vector<std::string>& heads);
  /// There is none yet in this launch.
  void forget(int n) { of(n) = {}; }

  const std::string& name_of(int n) const {
    return plan_.job.cluster.node[static_cast<size_t>(n) - 1].name;
  }
  /// The place of a node that the job has.
  int place_of(const std::string& name) const {
    int n = 1;
    for (; name_of(n) != name; ++n) assert(n < count());
    return n;
  }
  int count() const { return static_cast<int>(all_.size()); }
  bool lives(int n) const { return of(n).lives; }  ///< its actor
  const caf::strong_actor_ptr& actor(int n) const { return of(n).actor; }
  int process(int n) const { return of(n).process; }
  /// Whether the process of a node is still the one with that number.
  bool is_present(int n, int process) const { return of(n).process == process; }

  std::function<void(const std::string&)> log = {};
  std::function<void(int n)> end_process = {};  ///< called once a process is to end

 private:
  struct one {
    caf::strong_actor_ptr actor;
    bool lives = false;
    bool told = false;  ///< it heard that it ended
    int process = 0;    ///< its number
  };
  one& of(int n) { return all_[static_cast<size_t>(n) - 1]; }
  const one& of(int n) const { return all_[static_cast<size_t>(n) - 1]; }
  std::shared_ptr<cluster::host> host_of(int n);
  void leave_soon(int n, int process, int64_t delay_ns);
  void leave(int n, int process);

  world& where_;
  environment& room_;
  const simulation_options& options_;
  const train::job_plan& plan_;
  std::vector<one> all_;
  int started_ = 0;
};

/// Tells an actor that another is gone as CAF does once a link has been given up.
void tell_down(const caf::strong_actor_ptr& who, const caf::strong_actor_ptr& gone);

}  // namespace troupe::sim
