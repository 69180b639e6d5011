// A job whose machine draws what the test says, whatever the machine does, for tests of budgets;
// and whether this machine lets one say so.
#pragma once

#include <string>
#include <system_error>
#include <vector>

#include "tests/cluster/job_files.hpp"

namespace troupe::cluster_test {

/// 50 W, whatever the machine does.
inline const std::vector<std::string> constant_watts{
    "power.model_idle_w=50", "power.model_core_w=0", "power.meter_interval_ms=100",
    "cluster.heartbeat_interval_ms=100", "checkpoint.resume=never"};

/// Behind those: next to nothing, whatever else works on the machine and however many processors
/// it has, so that who waits without a watt is not above its cap.
inline const std::vector<std::string> next_to_none{"power.model_idle_w=0",
                                                   "power.model_core_w=0.01"};

/// Files of the kernel and a driver that a meter may read.
inline bool a_meter_says_watts() {
  std::error_code none;
  if (fs::exists("/proc/driver/nvidia", none)) return true;
  for (const char* folder : {"/sys/class/powercap", "/sys/class/hwmon"})
    for (const auto& device : fs::directory_iterator(folder, none))
      for (const auto& file : fs::directory_iterator(device.path(), none)) {
        const auto name = file.path().filename().string();
        if (name == "energy_uj" || name.starts_with("power")) return true;
      }
  return false;
}

/// Whether the test is to be left out here, which is said.
inline bool is_metered_here() {
  if (!a_meter_says_watts()) return false;
  MESSAGE("skipped: a meter measures this machine, and what it says is not the test's");
  return true;
}

/// HOST:PORT of a job's coordinator, once it is said: other lines of the job may come before.
inline std::string job_address(program& up) {
  REQUIRE(up.until([&] { return up.port() != 0; }));
  return "127.0.0.1:" + std::to_string(up.port());
}

/// A line at the console of a job.
inline finished told_at_console(program& up, const std::string& line) {
  return ordered(up, line);
}

}  // namespace troupe::cluster_test
