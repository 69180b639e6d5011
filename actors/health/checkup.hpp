// Examines the machine it runs on: limits of the process, its clocks, a known product on each core
// and GPU, memory, the disk of a folder, loopback, what GPUs give each other. Knows no actor. It
// blocks, for some seconds: for threads that may.
//
// Invariants
//   EXM-1  Each check ends: it begins nothing new once its budget is over, or a stop is asked for.
//   EXM-2  A check that cannot be made is unknown and says why; none ends the program.
//   EXM-3  It leaves nothing behind, however it ends: the file that it writes has no name.
//   EXM-4  It takes no more memory than an eighth of what is left
//     (io/machine/available_memory.hpp), and stops where only half of that is left meanwhile:
//     others examine the same machine at the same time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/health/test_group.hpp"
#include "io/disk/disk.hpp"
#include "io/machine/facts.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::health {

/// Which GPUs are checked.
enum class gpu_choice : uint8_t {
  none,
  opened,  ///< those that this process has opened, as its ranks do
  all,     ///< of the machine
};

struct checkup_options {
  std::filesystem::path folder = {};  ///< whose disk is checked; empty: none
  io::fact_store store = {};          ///< what the machine reached before
  gpu_choice gpus = gpu_choice::opened;
  /// Change what a core computed, or memory held, for tests.
  std::function<void(int core, std::span<float> product)> spoil_product = {};
  std::function<void(std::span<uint64_t> words)> spoil_memory = {};
  /// Devices that exchange in place of GPUs (gpu/back_end.hpp), and what opens their groups where
  /// that is not the back end, for tests.
  std::vector<std::string> exchanging = {};
  group_opener open_group = {};
  double times_budget = 1;  ///< each check may take so many times its budget, for tests
  /// In place of the system's, for tests.
  std::function<std::optional<uint64_t>()> memory_left = {};
  std::function<result<std::unique_ptr<io::disk>>(const io::disk_options&)> open_disk = {};
};

/// All checks that are asked for, judged by what the machine reached before or by floors. What it
/// reached when it was not busy is kept.
fbs::CheckupReportT run_checkup(const fbs::RunCheckupT& asked, const checkup_options& options,
                                std::stop_token stop);

/// The same, for who does not care how.
using examiner = std::function<fbs::CheckupReportT(const fbs::RunCheckupT&, std::stop_token)>;

/// Of this machine. `folder`: whose disk is checked.
examiner examine_this_machine(std::filesystem::path folder, gpu_choice gpus);

}  // namespace troupe::health
