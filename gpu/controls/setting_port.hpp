// Where settings of devices are found, written and read back: files of the kernel, or the library
// of NVIDIA's driver. An edge.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
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
/// What others compute on is not this job's to slow: which kind, of what.
inline constexpr error_kind<std::string_view, std::string_view> shared_device{
    "shared_device", errc::unavailable, "power.control = [\"{}\"] cannot be held: {}",
    "give the rank a GPU of its own, without MIG, or set power.control = [\"pace\"]"};
/// What was set cannot be read while something else holds it lower: which kind, what holds it.
inline constexpr error_kind<std::string_view, std::string_view> setting_held_lower{
    "setting_held_lower", errc::unavailable,
    "power.control = [\"{}\"] cannot be held now: {} slows processors, so that what was set does "
    "not show",
    "wait until the machine is cooler, or set power.control = [\"pace\"]"};

/// A setting as it is now.
struct machine_setting {
  found_setting now;
  setting_range range;
};

/// Of one target. Its calls block for as long as the kernel or the driver takes.
class setting_port {
 public:
  virtual ~setting_port() = default;
  /// In the order of their names; one at least. `before`: what was found of some by whoever changed
  /// them since, in place of what they are now. Errors: no_such_setting, shared_device,
  /// setting_held_lower.
  virtual result<std::vector<machine_setting>> find(const std::vector<found_setting>& before) = 0;
  /// Errors: what the system or the driver says; nothing is changed then.
  virtual status write(const std::string& where, uint64_t value) = 0;
  /// What it reads once `written` is. Errors: what the system or the driver says; bad_data.
  virtual result<uint64_t> read_back(const std::string& where, uint64_t written) = 0;
  /// Whether what was set may read lower than it is (SGV-7).
  virtual bool is_held_lower() const { return false; }
  /// Processes that compute on it beside one that is the job's, as far as that is known.
  virtual unsigned others() const { return 0; }
};

/// Errors: no_such_setting.
result<std::unique_ptr<setting_port>> open_setting_port(const control_place& at,
                                                        const setting_target& target);

}  // namespace troupe::gpu::controls
