// All devices of a machine that one word of a control names, held at one pace: for who holds a
// machine and no job's rank (`troupe power agent`).
//
// Invariants
//   MCT-1  A device that somebody else governs is left to him. Who has it is the error of each set,
//     until he has ended; what others there can be set is set all the same.
//   MCT-2  A pace is set when each device governs it: nobody's else, and read back (SGV-4).
//   MCT-3  Nothing waits for a seat: with many devices that takes long, and each set asks again.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "gpu/controls/actuator.hpp"
#include "gpu/controls/control_record.hpp"
#include "gpu/controls/groups.hpp"
#include "gpu/controls/setting_governor.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu::controls {

/// What a word of a control sets on this machine: one target, or one for each GPU. Errors:
/// no_such_setting.
result<std::vector<setting_target>> targets_of_machine(const control_place& at, setting_kind kind);

/// Its calls block for as long as the kernel or a driver works; from any thread.
class machine_controls {
 public:
  /// Errors: as setting_governor::make, but setting_governed (MCT-1).
  static result<std::unique_ptr<machine_controls>> make(control_place at,
                                                        std::vector<setting_target> targets,
                                                        const control_owner& owner);
  /// Errors: setting_governed; setting_held_lower; as setting_governor::set; the first of them.
  /// `is_any_set`: whether one device at least has it.
  status set(int pace_of_1024, bool* is_any_set = nullptr);
  /// Takes back what was set, as far as that can be; nothing is set afterwards.
  void end() noexcept;

 private:
  struct held_device {
    setting_target target;
    std::unique_ptr<setting_governor> governor;  ///< none: somebody else's
  };
  machine_controls(control_place at, control_owner owner)
      : at_(std::move(at)), owner_(std::move(owner)) {}
  status take(held_device& d) const;
  status set_one(held_device& d, int pace_of_1024) const;

  const control_place at_;
  const control_owner owner_;
  std::mutex mutex_;
  bool over_ = false;                 ///< guarded by mutex_
  std::vector<held_device> devices_;  ///< guarded by mutex_
};

}  // namespace troupe::gpu::controls
