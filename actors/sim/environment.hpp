// What the hosts of a simulated cluster share, and who stands at its edges: CAF's middleman and a
// reporter that keeps what it hears. Its devices are in host.hpp, its files in storage.hpp; all
// other actors are the real ones.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <caf/event_based_actor.hpp>

#include "actors/base/traced.hpp"
#include "actors/job/plan.hpp"
#include "actors/sim/device_clocks.hpp"
#include "actors/sim/drives.hpp"
#include "actors/sim/job_folders.hpp"
#include "actors/sim/pace_model.hpp"
#include "actors/sim/power_model.hpp"
#include "actors/sim/storage.hpp"
#include "actors/sim/world.hpp"
#include "gpu/swap/kept_rates_policy.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/checkpoint/retention.hpp"
#include "io/checkpoint/save_plan.hpp"
#include "io/disk/slots.hpp"
#include "messages/receive.hpp"

namespace troupe::sim {

/// How long things take on one stage of a pipeline.
struct stage_timing {
  int64_t forward_ns = 0;  ///< of one micro-batch
  int64_t backward_ns = 0;
  int64_t update_ns = 0;
  int64_t save_ns = 0;
};

/// How long things take.
struct timing {
  int64_t forward_ns = 2'000'000;   ///< of one micro-batch on one stage
  int64_t backward_ns = 4'000'000;
  int64_t update_ns = 3'000'000;    ///< once every rank has come to it
  int64_t build_ns = 20'000'000;
  int64_t open_ns = 30'000'000;     ///< of a loader
  int64_t fetch_ns = 300'000;       ///< of a batch
  int64_t save_ns = 25'000'000;     ///< of a rank's part, sync included
  storage_times files;
  int64_t export_ns = 10'000'000;   ///< of the model
  bool saves_block = false;         ///< devices do nothing while what they hold is saved
  double jitter = 0.1;              ///< a thing takes up to (1 + jitter) times as long
  std::vector<stage_timing> stages;  ///< by stage, where they differ; else as above
  /// How many times as long all that takes the machine of each node; empty: machines are alike.
  std::vector<double> slowness;
  bool is_measured = true;  ///< that, before the first step (parallel.placement)
  bool may_change_places = false;  ///< nodes may, by it; else they keep their order

  stage_timing of(int64_t stage) const {
    if (stages.empty()) return {forward_ns, backward_ns, update_ns, save_ns};
    return stages[static_cast<size_t>(stage)];
  }
  /// Of a node, from 1.
  double slowness_of(int node) const {
    return slowness.empty() ? 1 : slowness.at(static_cast<size_t>(node - 1));
  }
};

/// What is wrong with a rank's device.
struct device_fault {
  double slow = 1;      ///< factor of all times
  bool hangs = false;   ///< answers nothing any more
  bool fails = false;   ///< answers its next operation with an error
};

/// The ranks of one epoch meet here at the end of a step, as in a collective: it ends for all when
/// the last has come, and fails for all when one of them has died audibly.
struct rank_barrier {
  /// One that has come. It goes on with the time at which the last of its stage had.
  struct waiter {
    int stage = 0;
    int64_t came_ns = 0;
    std::function<void(bool ok, int64_t stage_came_ns)> go_on;
  };
  size_t size = 0;
  bool broken = false;
  std::map<uint64_t, std::vector<waiter>> waiting;  ///< by step, as they came

  void arrive(uint64_t step, waiter who);

  /// What the drives of a stage's replicas did in a step, summed up for each of them.
  using moves_told = std::function<void(bool ok, const gpu::step_moves& all)>;
  struct moves_sum {
    gpu::step_moves all;
    std::vector<moves_told> go_on;
  };
  std::map<std::pair<int, uint64_t>, moves_sum> moves;  ///< by stage and step

  void add_moves(const grid_rank& at, uint64_t step, const gpu::step_moves& own, moves_told go_on);
  void fail();
};

/// What each rank saves, by the number of replicas.
using shares_of_ranks = std::map<int, std::vector<io::checkpoint::rank_plan>>;
/// With each number that the job could go on with.
result<shares_of_ranks> shares_by_replicas(const train::job_plan& whole);
/// How many nodes one replica needs.
int fewest_nodes_of(const config::job& job);

/// Where the coordinator is reached, where the job has one head.
inline constexpr const char* head_name = "head";
inline constexpr uint16_t head_port = 1;

/// Where checkpoints are, in the files that all hosts share.
inline constexpr const char* first_dir = "/first";
inline constexpr const char* second_dir = "/second";

/// One folder of checkpoints, and what befell it.
struct tier {
  std::filesystem::path dir;
  io::checkpoint::retention rules;
  io::outage out = io::outage::none;

  bool gone() const { return out == io::outage::gone; }
};

/// What came of folders.
struct folder_counts {
  uint64_t copies = 0;         ///< into the second tier
  uint64_t second_falls = 0;   ///< last saves that went into the second tier
  uint64_t second_starts = 0;  ///< launches that began with a checkpoint of the second tier
  uint64_t blind_starts = 0;   ///< while the second tier was gone
  uint64_t exports = 0;
  uint64_t cut_exports = 0;  ///< with the process that made them
  uint64_t beside = 0;       ///< exports that made way for what a person put there
  uint64_t refused = 0;      ///< second launchers
  uint64_t successors = 0;   ///< launchers after one that was killed

  std::array<uint64_t, 9> each() const {
    return {copies,      second_falls, second_starts, blind_starts, exports,
            cut_exports, beside,       refused,       successors};
  }
  /// "912 copies, ...".
  std::string text() const;
  folder_counts& operator+=(const folder_counts& other);
};

/// What all parts of a simulated cluster share.
struct environment {
  environment(world& w, const timing& t, const swap_shape& swap)
      : where(w), chance(w.chance().split(3)), times(t), files(w, t.files), disks(w, swap) {}

  world& where;
  rng chance;
  timing times;
  shared_files files;
  drives disks;  ///< of ranks that swap
  std::array<tier, 2> tiers{tier{first_dir, {}}, tier{second_dir, {}}};
  shares_of_ranks plans;          ///< what each rank saves
  std::shared_ptr<io::slots> ring;               ///< that all of them save by
  io::checkpoint::origin launch;         ///< that saves now
  std::unique_ptr<job_folders> folders;  ///< real ones; none in most simulations
  folder_counts counted;
  std::map<uint32_t, device_fault> device_faults;  ///< by rank
  pace_model paces;
  std::map<uint64_t, std::shared_ptr<rank_barrier>> barriers;  ///< of this launch, by epoch
  std::shared_ptr<rank_barrier> barrier_of(uint64_t epoch, const rank_grid& grid);
  power_model_options draw;
  watts_trace drawn;                      ///< by all of them
  std::map<uint32_t, power_model> draws;  ///< by rank
  std::map<int, int> silent_meters;       ///< by node: for how many reasons they say nothing
  /// Learning rates that updates used, by epoch and step: a host that wakes late still makes the
  /// step of an epoch that is over.
  std::map<std::pair<uint64_t, uint64_t>, double> rates;
  /// All ranks use the same.
  void note_rate(uint64_t epoch, uint64_t step, double lr);
  /// From which layer on ranks spill, by epoch, step and stage.
  std::map<std::tuple<uint64_t, uint64_t, int>, int> spills_from;
  /// All replicas of a stage do so alike.
  void note_spilling(uint64_t epoch, uint64_t step, int stage, int from);
  /// What chance says of a step to all ranks of an epoch alike, by epoch, step and what it is.
  enum class shared_draw : uint8_t { twice, clipped };
  std::map<std::tuple<uint64_t, uint64_t, shared_draw>, bool> drawn_together;
  /// As the first of them that asks has drawn it.
  bool draw_together(uint64_t epoch, uint64_t step, shared_draw what, double probability);
  /// What ranks save is of the layers that a message says have been measured, if it does.
  void note_split(const any_msg& m, const train::job_plan& planned);

  /// What the device of a rank draws, whoever uses it.
  power_model& draw_of(uint32_t rank) {
    return draws.try_emplace(rank, draw, where.chance().split(1'000 + rank), &drawn).first->second;
  }

  /// A checkpoint that ranks load: opened by the first of them.
  result<io::checkpoint::reader> opened(const std::filesystem::path& checkpoint);
  /// The tier that a checkpoint lies in, 0 or 1.
  static size_t tier_of(const std::filesystem::path& folder) {
    return folder.parent_path() == second_dir ? 1 : 0;
  }

  /// Who can be connected to, by host and port.
  struct address {
    caf::strong_actor_ptr actor;
    int node = 0;
  };
  std::map<std::pair<std::string, uint16_t>, address> addresses;
  uint16_t last_port = 1000;
  bool reconnects = false;  ///< a link that broke is there again once somebody connects over it
  std::pair<io::crash_store::node_id, std::optional<io::checkpoint::reader>> last_opened;
  device_clocks clocks;                          ///< of devices that can set theirs
  std::map<uint32_t, clock_fault> clock_faults;  ///< by rank
  double clocked_j = 0;  ///< that operations of such devices took, above what resting ones draw

  int64_t about(int64_t ns) {
    return ns + static_cast<int64_t>(static_cast<double>(ns) * times.jitter * chance.unit());
  }
};

/// What a reporter was told.
struct told {
  std::vector<uint64_t> steps;
  std::vector<double> rates;  ///< learning rates of these steps
  std::vector<double> losses;          ///< of these steps
  std::vector<uint32_t> epochs;        ///< in which they were made
  std::vector<uint64_t> saved_before;  ///< saved_step when each came
  std::vector<fbs::RunEndedT> ends;
  std::vector<fbs::IncidentT> incidents;
  std::vector<std::string> notices;
  int64_t first_step_ns = -1, last_step_ns = -1;  ///< when they were told
  uint64_t saved_step = 0;  ///< the newest that was said to be committed
  std::set<uint64_t> saved;  ///< all that were
  bool spoke_after_end = false;
};
struct reporter_state {
  static inline const char* name = "reporter";
  std::shared_ptr<told> heard;
};
using reporter_pointer = traced_pointer<reporter_actor, reporter_state>;
reporter_actor::behavior_type reporter(reporter_pointer self, std::shared_ptr<told> heard);

/// Has the processes of nodes started again.
struct launcher_state {
  static inline const char* name = "launcher";
  std::function<void(const std::string&)> start;
};
using launcher_pointer = traced_pointer<launcher_actor, launcher_state>;
launcher_actor::behavior_type launcher(launcher_pointer self,
                                       std::function<void(const std::string&)> start);

/// What CAF's middleman is to a node: publishes it, connects it to others.
struct connector_state {
  static inline const char* name = "connector";
  environment* room = nullptr;
  std::shared_ptr<int> alive = std::make_shared<int>();
  int node = 0;
};
using connector_pointer = caf::stateful_actor<connector_state, traced<caf::event_based_actor>>*;
caf::behavior connector(connector_pointer self, environment* room, int node);

}  // namespace troupe::sim
