// What must hold of a launch of a simulated cluster once it is over (simulation.hpp: SIM-2 to
// SIM-4, SIM-10, SIM-11).
//
// Pure: it is handed what a person saw and what stands on the disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::sim {

/// The worst that befell a launch.
enum class harm : uint8_t {
  none,   ///< the run must succeed all the same
  stops,  ///< the run must end in order
  fatal,  ///< the run may fail
};

struct launch_end {
  uint8_t code = 0;  ///< of troupe::errc
  std::string message;
  std::string checkpoint;
};

struct launch_report {
  uint64_t target_steps = 0;
  uint64_t resumed_step = 0;
  std::vector<uint64_t> steps;  ///< as reported
  std::vector<uint32_t> epochs;        ///< in which they were
  std::vector<uint64_t> saved_before;  ///< the newest that was said to be committed before each
  std::vector<double> rates;    ///< learning rates that were reported of them
  std::vector<double> used;     ///< those that their updates used
  std::vector<launch_end> ends;
  bool spoke_after_end = false;
  bool head_lost = false;
  harm worst = harm::none;
  std::vector<uint64_t> checkpoints;  ///< whole ones on the disk
  uint64_t saved_step = 0;            ///< the newest that the person was told is committed
  bool keeps_some = false;            ///< retention gives older ones up

  bool succeeded() const { return ends.size() == 1 && ends.front().code == 0; }
};

/// The first thing that does not hold.
std::optional<std::string> judge(const launch_report& launch);

}  // namespace troupe::sim
