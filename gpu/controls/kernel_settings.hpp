// The clocks of processors and the limits of their packages, as files of the kernel.
//
// Source of the files' names and units: Documentation/admin-guide/pm/cpufreq.rst and
// Documentation/power/powercap/powercap.rst of Linux.
//
// Invariants
//   SGV-5  Nothing is written outside the tree of the kernel's devices.
//   SGV-7  scaling_max_freq reads the least that anybody asks for, and a write is one request:
//     while a cooling device holds clocks down only what was known before (known_settings.hpp) is
//     taken for found, and what reads lower than what was set again is set all the same. Without a
//     cooling device at work it is not.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gpu/controls/setting_port.hpp"

namespace troupe::gpu::controls {

class kernel_settings final : public setting_port {
 public:
  kernel_settings(control_place at, setting_kind kind) : at_(std::move(at)), kind_(kind) {}
  result<std::vector<machine_setting>> find(const std::vector<found_setting>& before) override;
  status write(const std::string& where, uint64_t value) override;
  result<uint64_t> read_back(const std::string& where, uint64_t written) override;
  bool is_held_lower() const override;

 private:
  const control_place at_;
  const setting_kind kind_;
};

}  // namespace troupe::gpu::controls
