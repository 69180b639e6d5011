// The launches of a simulated cluster, one after the other: how they begin and end (launches.cpp),
// the faults that befall them (launch_faults.cpp), and what must hold of them (launch_judge.cpp).
// Only these and simulation.cpp include it; simulation.hpp has the invariants.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <caf/actor_cast.hpp>

#include "actors/cluster/coordinator.hpp"
#include "actors/job/plan.hpp"
#include "actors/sim/blame_watch.hpp"
#include "actors/sim/environment.hpp"
#include "actors/sim/fault_record.hpp"
#include "actors/sim/faults.hpp"
#include "actors/sim/folder_watch.hpp"
#include "actors/sim/invariants.hpp"
#include "actors/sim/job_folders.hpp"
#include "actors/sim/node_processes.hpp"
#include "actors/sim/parent_budget.hpp"
#include "actors/sim/power_watch.hpp"
#include "actors/sim/simulation.hpp"
#include "actors/sim/slack_job.hpp"
#include "actors/sim/slowness.hpp"
#include "actors/sim/world.hpp"

namespace troupe::sim {

/// A simulation of a job with one head.
class launches {
 public:
  launches(const simulation_options& options, train::job_plan plan,
           std::unique_ptr<job_folders> folders, power::budget_options above);

  ~launches() { world_.end(); }

  /// What each rank saves, and the slots that they do it by.
  void save_by(shares_of_ranks shares, std::shared_ptr<io::slots> ring);

  simulation_outcome run();

 private:
  static constexpr int64_t ms = 1'000'000;

  /// The first of the launch.
  uint32_t epoch() const;

  void log(const std::string& text);

  // -- a launch -----------------------------------------------------------------------------------

  int all_nodes() const { return options_.nodes + options_.spares; }
  const std::string& name_of(int node) const { return nodes_.name_of(node); }

  void begin_log();

  /// A person waits for the first tier, without which nothing starts.
  void between_launches();

  void start_head();

  /// Another process takes the place of a node's.
  void order(const std::string& node);

  void take_folders();

  /// What is done to files of the machine: a loader's, and an export's.
  int64_t blocks_ns(const any_msg& m);

  /// The process of a node has ended: what it was about to do is not done.
  void end_process(int n, bool silent);

  bool launch_over() const;

  void live();

  /// What the job has said since it was looked at last.
  void log_notices();

  /// A node that stays long after its coordinator has gone (NOD-1).
  bool lingers();

  void end_launch();

  // -- messages -----------------------------------------------------------------------------------

  /// SIM-1: who welcomes and assigns in an epoch is one.
  void watch(const any_msg& m, const actor_stats& receiver);

  // -- faults -------------------------------------------------------------------------------------

  int victim(const fault& f) const;

  void did(const fault& f, const std::string& what, harm how_bad);

  /// A fault at a place; what ails the head's may look like anybody's.
  void touch(int n) { n == 0 ? blame_.touched_all() : blame_.touched(name_of(n)); }

  void come(size_t which);

  void befall(const fault& f);

  void after(int64_t delay_ns, std::function<void()> then);

  void crash(int n, bool silent);

  /// A job that trains and recovers goes on without a person (SIM-16).
  harm of_loss() const;

  void lose_node(const fault& f, bool silent);

  /// A node that holds nothing of the run is not missed by it.
  void told_of_idle(const fault& f, int n);

  void freeze(const fault& f);

  /// The last save waits for it and training goes on, but a start and a stop wait for nothing.
  void close_tier(const fault& f);

  void launch_again(const fault& f);

  harm by_length(const fault& f) const;

  void partition(const fault& f);

  /// CAF gives a connection up that has been silent for twice the dead time (network.cpp), and both
  /// ends hear of it.
  void watch_link(int n);

  void sicken(const fault& f);

  /// SIM-27. Starts and recoveries need room; failed reads end ranks.
  void ail_drive(const fault& f);

  void kill_actor(const fault& f);

  template <class Handle>
  Handle actor(const std::string& path) {
    const auto stats = world_.actor_at(path, all_nodes());
    return stats ? caf::actor_cast<Handle>(stats->handle()) : Handle{};
  }

  void person(const fault& f);

  void set(const fault& f, const run_actor& run, const char* key, std::string value);

  /// To what the slowest steps still keep, or less of it.
  void cut_budget(const fault& f, const run_actor& run);

  void old_message(const fault& f);

  /// The meters of a machine say nothing for a while. Others are waited for before a first step.
  void silence(const fault& f);

  simulation_options options_;
  train::job_plan plan_;
  world world_;
  environment room_;
  node_processes nodes_;
  std::shared_ptr<told> heard_ = std::make_shared<told>();
  size_t notices_ = 0;  ///< of them, those that are logged
  coordinator_actor coordinator_;
  bool coordinator_lives_ = false;
  int64_t coordinator_gone_ns_ = 0;
  int64_t last_healed_ns_ = 0;
  int64_t harmful_until_ns_ = 0;
  int64_t launch_begun_ns_ = 0;
  int64_t exports_until_ns_ = 0;
  int64_t nodes_started_by_ns_ = 0;
  int launch_ = 0;
  int partitions_ = 0;
  bool lost_some_ = false;  ///< nodes, in this launch
  launch_report launch_report_;
  blame_watch blame_;
  folder_watch watch_;
  bool killed_ = false;  ///< the launcher of the launch before
  simulation_outcome told_of_launches_;
  std::map<uint32_t, uint64_t> coordinator_of_;  ///< by epoch
  power_watch power_;
  parent_budget parent_;
  slowness slowness_;
  slack_job slack_;
  fault_record record_;
};

}  // namespace troupe::sim
