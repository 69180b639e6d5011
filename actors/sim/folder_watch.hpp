// The folders of a simulated job over its launches: which checkpoint a launch starts from, what
// persons take away, and what must hold of them after each event (simulation.hpp: SIM-5, SIM-12 to
// SIM-15).
//
// Starts go by the functions that a launcher uses (actors/job/catalog.hpp).
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/job/catalog.hpp"
#include "actors/sim/environment.hpp"
#include "actors/sim/kept_checkpoints.hpp"

namespace troupe::sim {

struct simulation_options;

class folder_watch {
 public:
  /// Both outlive it; so do the options.
  folder_watch(world& where, environment& room, const simulation_options& options);

  /// A person takes a tier away, or does not; which one, from 1.
  std::optional<size_t> between_launches();
  /// A launch begins: from where, with what leads nowhere set aside.
  std::optional<checkpoint::resume_point> begin(uint64_t launch);
  /// A tier was full or gone at a time of this launch.
  bool trouble() const { return trouble_; }
  /// Closes a tier that is open.
  bool close(size_t tier, io::outage how);
  void open(size_t tier);

  /// What was acknowledged must be there (SIM-12); quick where nothing has changed.
  void look(const told& heard);
  /// What a run told of its end must be so (SIM-14, SIM-15), unless what befell it excuses it.
  void judge_end(const fbs::RunEndedT& end, bool excused);
  /// Steps of the checkpoints in both tiers, each of which must be whole (SIM-5).
  std::vector<uint64_t> checkpoints();

 private:
  using entries = std::vector<io::checkpoint::catalog_entry>;
  using heads = std::map<io::crash_store::node_id,
                         std::pair<uint64_t, std::optional<io::checkpoint::manifest_head>>>;

  tier& first() { return room_.tiers[0]; }
  tier& second() { return room_.tiers[1]; }
  io::file_system& files() { return room_.files.timeless(); }
  void tidy(const tier& t);
  entries in_tier(const tier& t);
  entries catalog();
  std::optional<io::checkpoint::manifest_head> head_of(const std::filesystem::path& checkpoint);
  checkpoint::start choose_start();
  checkpoint::start start_by_itself();
  bool is_durable(const std::filesystem::path& checkpoint);
  uint64_t changes(const told& heard) const;
  void check_way(const std::optional<checkpoint::resume_point>& chosen);
  void judge_export(const fbs::RunEndedT& end);

  world& where_;
  environment& room_;
  const simulation_options& options_;
  kept_checkpoints kept_;
  heads heads_;  ///< by MANIFEST: of which version
  std::map<std::filesystem::path, io::crash_store::node_id> durable_;  ///< checkpoints: folders
  std::map<std::filesystem::path, io::crash_store::node_id> whole_;  ///< their MANIFEST, verified
  io::checkpoint::lineage head_;  ///< of what was acknowledged, or begun from, last
  bool pending_ = false;          ///< something there was not durable at the last look
  uint64_t events_ = 0;           ///< how often anything had
  uint64_t changes_ = 0;          ///< how often things had changed at the last look
  bool settled_ = true;           ///< no tier may hold a past that was left and does not say so
  bool trouble_ = false;
  rng returns_;  ///< which start a person chooses
  rng wipes_;    ///< which tier a person takes away
};

}  // namespace troupe::sim
