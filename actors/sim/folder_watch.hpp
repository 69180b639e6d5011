// The folders of a simulated job over its lives: which checkpoint a life starts from, what persons
// take away, and what must hold of them after each event (simulation.hpp: SIM-5, SIM-12 to SIM-15).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/sim/parts.hpp"

namespace troupe::sim {

struct simulation_options;

class folder_watch {
 public:
  /// Both outlive it; so do the options.
  folder_watch(world& where, machine_room& room, const simulation_options& options);

  /// A person takes a tier away, or does not; which one, from 1.
  std::optional<size_t> between_lives();
  /// A launch begins: from where, with what leads nowhere set aside.
  std::optional<io::checkpoint::entry> begin(uint64_t launch);
  /// A tier was full or gone at a time of this life.
  bool trouble() const { return trouble_; }
  /// Closes a tier that is open.
  bool close(size_t tier, tier::outage how);

  /// What was acknowledged must be there (SIM-12); quick where nothing has changed.
  void look(const told& heard);
  /// What a run told of its end must be so (SIM-14, SIM-15), unless what befell it excuses it.
  void judge_end(const fbs::RunEndedT& end, bool excused);
  /// Steps of the checkpoints in both tiers, each of which must be whole (SIM-5).
  std::vector<uint64_t> checkpoints();

 private:
  tier& first() { return room_.tiers[0]; }
  tier& second() { return room_.tiers[1]; }
  std::vector<io::checkpoint::entry> catalog();
  std::optional<io::checkpoint::entry> choose_start();
  std::optional<io::checkpoint::entry> newest_of(const std::vector<io::checkpoint::entry>& all);
  void check_folder(const disk_policy& disk, const std::string& name, std::vector<uint64_t>& out);

  world& where_;
  machine_room& room_;
  const simulation_options& options_;
  shelf_policy shelf_;
  io::checkpoint::lineage head_;  ///< of what was acknowledged, or begun from, last
  uint64_t seen_ = 0;             ///< how often things had changed at the last look
  bool settled_ = true;           ///< no tier may hold a past that was left and does not say so
  bool trouble_ = false;
  dice returns_;  ///< which start a person chooses
  dice wipes_;    ///< which tier a person takes away
};

}  // namespace troupe::sim
