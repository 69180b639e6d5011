// The drives of simulated hosts, on which ranks have what does not fit into memory: how long they
// take, what ails them, and whose folders are on them.
//
// Invariants
//   SIM-25  A swap folder has one process's swapper, and files of one engine, at a time; it goes
//     behind that engine (SWA-1), unless somebody has killed the swapper.
//   SIM-26  The chunks of a rank move in order whatever the drive does, and none of what is read,
//     updated, kept or dropped is of another step than it is to be (gpu/swap/order_watch.hpp). Of a
//     rank with nothing under way each file is of its last step, and every slot is free. What
//     layers spill comes back whole, of the same micro-batch and pass, and at a step's end all
//     frames are free (gpu/swap/spill_watch.hpp).
//   SIM-27  A slow drive, a full one and a write that fails, of state, a gradient or activations,
//     cost no launch and no recovery, as long as room is there again within swap.patience_s. Who
//     opens a folder, at a start or in a recovery, needs room at once. A read that fails ends its
//     rank.
//   SIM-33  In a step all replicas of a stage spill the same layers, whatever their drives keep
//     (actors/train/spill_replan.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/sim/world.hpp"
#include "actors/train/engine.hpp"

namespace troupe::sim {

/// How the ranks of a simulated job swap.
struct swap_shape {
  int layers = 0;                        ///< of each stage, at most; 0: all is in memory
  std::vector<int> stage_layers = {};    ///< by stage; empty: all have `layers`
  std::vector<double> stage_bytes = {};  ///< by stage: what one byte of its state counts as; else 1
  double memory = 0;  ///< between the least that a rank can be trained with (0) and all of it (1)
  double clip_norm = 1;
  config::clip_way clip = config::clip_way::automatic;
  int spill_layers = 0;  ///< of each stage, the last ones: their activations go to the drive
  bool replans = false;  ///< they compute again where drives keep less (gpu/swap/replan_policy.hpp)
  bool by_layer = false;
  bool lamb = false;  ///< replicas share the norms of their updates then
  bool links = true;  ///< checkpoints take the files
  int drives = 1;  ///< of a host, on which chunks lie in turn; of several the first alone has links
  int64_t patience_s = 200;
  int64_t step_s = 30;  ///< timeouts.step_s and operation_s; the patience comes on top
  double read_bytes_per_s = 20e6, write_bytes_per_s = 20e6;

  bool any() const { return layers > 0; }
  double bytes_of(int stage) const {
    return stage_bytes.empty() ? 1 : stage_bytes[static_cast<size_t>(stage)];
  }
};

/// What came of drives.
struct swap_counts {
  uint64_t operations = 0;  ///< of drives
  uint64_t kept = 0;        ///< checkpoints that took files
  uint64_t unkept = 0;      ///< for which there was no room
  uint64_t moved = 0;       ///< files of state, since a write had failed
  uint64_t waited = 0;      ///< writes, for room for such a file, or one of the other two kinds
  uint64_t unread = 0;      ///< reads that failed, and their ranks
  uint64_t spilled = 0;     ///< activations that were written
  uint64_t gradients_moved = 0;    ///< files of gradients, since a write had failed
  uint64_t activations_moved = 0;  ///< the same of activations
  uint64_t redone = 0;      ///< steps whose updates were dropped
  uint64_t rows_first = 0;  ///< updates of token tables that began with the rows of a pass
  uint64_t replanned = 0;   ///< changes of how many layers of a rank compute again
  uint64_t leftovers = 0;   ///< folders of killed processes

  std::string text() const;
  swap_counts& operator+=(const swap_counts& other);
};

/// What befell one.
struct drive_fault {
  int slows = 0;             ///< reasons for which all takes slow_times as long
  int full = 0;              ///< reasons for which nothing new can be made
  bool fails_read = false;   ///< the next one
  bool fails_write = false;  ///< the next one
};

class drives {
 public:
  static constexpr double slow_times = 8;

  drives(world& where, const swap_shape& shape) : where_(where), shape_(shape) {}

  const swap_shape& shape() const { return shape_; }
  drive_fault& fault_of(int node) { return drives_[node].fault; }
  swap_counts& counted() { return counted_; }

  /// How long from now on an operation takes: a drive reads one thing after the other, and writes
  /// beside that.
  int64_t reads_for(int node, uint64_t bytes);
  int64_t writes_for(int node, uint64_t bytes);

  /// Opens the folder of a rank. Errors: a full disk.
  result<std::unique_ptr<train::swap_home>> open(int node, const train::swap_request& request);
  /// An engine has files in it until `using_it` goes.
  std::shared_ptr<const void> use(int node, int rank);
  /// A person has killed the rank's swapper.
  void forsake(int node, int rank) { folders_[{node, rank}].forsaken = true; }
  /// No operation is to fail any more.
  void begin_launch();
  /// The process of a node has ended: its folders are leftovers.
  void end_process(int node);

 private:
  class home;
  struct drive {
    drive_fault fault;
    int64_t reads_until_ns = 0, writes_until_ns = 0;
  };
  struct folder {
    uint64_t number = 0;  ///< of who opened it; 0: nobody has it
    int engines = 0;
    bool leftover = false, forsaken = false;
  };

  int64_t busy_for(int64_t& until_ns, const drive_fault& fault, double seconds);
  void close(int node, int rank, uint64_t number);

  world& where_;
  const swap_shape shape_;
  std::map<int, drive> drives_;
  std::map<std::pair<int, int>, folder> folders_;  ///< by node and rank
  uint64_t opened_ = 0;
  swap_counts counted_;
};

}  // namespace troupe::sim
