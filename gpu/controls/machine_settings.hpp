// The settings of this machine's devices, as files of its kernel: found, read, written. An edge.
//
// Source of the files' names and units: Documentation/admin-guide/pm/cpufreq.rst and
// Documentation/power/powercap/powercap.rst of Linux.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/controls/control_record.hpp"
#include "gpu/controls/groups.hpp"
#include "gpu/controls/setting_policy.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu::controls {

/// Why nothing of that kind can be set here.
inline constexpr error_kind<std::string_view, std::string_view> no_such_setting{
    "no_such_setting", errc::unavailable, "power.control = [\"{}\"] cannot be held here: {}",
    "most virtual machines have no such setting: set power.control = [\"pace\"]"};

/// A setting as it is now.
struct machine_setting {
  found_setting now;
  setting_range range;
};

/// All of a kind, in the order of their names. Errors: no_such_setting.
result<std::vector<machine_setting>> find_settings(const control_place& at, setting_kind kind);

/// Errors: bad_data where the file holds no number.
result<uint64_t> read_setting(const std::string& where);

}  // namespace troupe::gpu::controls
