// Examines the machine it runs on: limits of the process, its clocks, a known product on each core
// and GPU, memory, the disk of a folder, loopback. Knows no actor. It blocks, for some seconds:
// for threads that may.
//
// Invariants
//   EXM-1  Each check ends: it begins nothing new once its budget is over, or a stop is asked for.
//   EXM-2  A check that cannot be made is unknown and says why; none ends the program.
//   EXM-3  It leaves nothing behind: its file's name goes before anything is written to it.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>

#include "io/machine/facts.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::health {

struct checkup_options {
  std::filesystem::path folder = {};  ///< whose disk is checked; empty: none
  io::fact_store store = {};          ///< what the machine reached before
  bool gpus = true;
  /// Change what a core computed, or memory held, for tests.
  std::function<void(int core, std::span<float> product)> spoil_product = {};
  std::function<void(std::span<uint64_t> words)> spoil_memory = {};
};

/// All checks that are asked for, judged by what the machine reached before or by floors. What it
/// reached when it was not busy is kept.
fbs::CheckupReportT run_checkup(const fbs::RunCheckupT& asked, const checkup_options& options,
                                std::stop_token stop);

/// The same, for who does not care how.
using examiner = std::function<fbs::CheckupReportT(const fbs::RunCheckupT&, std::stop_token)>;

/// Of this machine. `folder`: whose disk is checked.
examiner examine_this_machine(std::filesystem::path folder);

}  // namespace troupe::health
