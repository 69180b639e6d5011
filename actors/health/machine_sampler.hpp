// Samples a machine: the kernel's files, a small write to the disk of the job's folder, the driver
// of GPUs, the logs. It blocks: for the thread of the actor that has it.
//
// Invariants
//   SMP-1  What cannot be read is not known; a sample never fails.
//   SMP-2  It leaves nothing behind: the file it writes to has no name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/health/log_watch.hpp"
#include "messages/schemas/health_generated.h"

namespace troupe::health {

/// A sample; `now_ns` of the caller's clock.
using machine_sampler = std::function<fbs::MachineVitalsT(int64_t now_ns)>;

/// Of this machine. `folder`: whose disk is looked at; `logs`: opened by who samples.
machine_sampler sample_this_machine(std::string folder, log_watch logs = {});

/// Milliseconds that 4 KiB took to be durable in the folder; none where it cannot be written.
std::optional<double> disk_sync_ms(const std::filesystem::path& folder);

}  // namespace troupe::health
