// All devices of a machine that the words of a control are for, held at one pace: for who holds a
// machine and no job's rank (`troupe power agent`). Each GPU, and the processors together, is held
// by the first of its words that it offers (io/config/power_control.hpp).
//
// Invariants
//   MCT-1  A device that somebody else governs is left to him. Who has it is the error of each set,
//     until he has ended; what others there can be set is set all the same.
//   MCT-2  A pace is set when each device governs it: nobody's else, and read back (SGV-4).
//   MCT-3  Nothing waits for a seat: with many devices that takes long, and each set asks again.
//   MCT-4  Devices that words are for are held, all of them, or nothing begins, and what was taken
//     over stays: who names a word
//     for GPUs and one for processors counts on both.
//   MCT-5  A device that is left at a pace for who holds the machine next (SGV-8) is held by that
//     word first, wherever it stands among those of the device: another one begins at what was
//     found. What is held of some devices is held, whatever became of the others.
//   MCT-6  What a job wishes for a device (agent_server.hpp) makes it slower than the others, and
//     never faster than all are held at: of both the lower is set.
//   MCT-7  So does a clock that a job's operation wishes for: it is below both (SGV-9), in no
//     record, and none is set of a device that several processes compute on, also while it is in
//     force (SGV-10), or that is held in watts.
//   MCT-8  A pace of all is set on all devices beside each other, a thread each, so that a driver
//     that takes long, or hangs, keeps none of the others from it. It is set once each has ended:
//     nothing bounds how long the kernel takes, and until then no other pace is begun, nor told as
//     in force.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "gpu/controls/actuator.hpp"
#include "gpu/controls/control_record.hpp"
#include "gpu/controls/groups.hpp"
#include "gpu/controls/setting_governor.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu::controls {

/// How a device may be held, by preference; one way at least, and all of that device.
using device_ways = std::vector<setting_target>;

/// The devices of this machine that words are for: the processors, each GPU. Errors:
/// no_such_setting, also where a word is for GPUs and there is none.
result<std::vector<device_ways>> devices_of_machine(const control_place& at,
                                                    std::span<const setting_kind> words);

/// The agent does not hold a device by that word: which, and what is so instead.
inline constexpr error_kind<std::string_view, std::string_view> setting_not_held{
    "setting_not_held", errc::unavailable, "\"{}\" is not what a device is held by here: {}"};

/// Its calls block for as long as the kernel or a driver works; from any thread.
class machine_controls {
 public:
  /// Errors: as setting_governor::make, but setting_governed (MCT-1); of several ways of a device
  /// that are not offered the first one's, with what the others say behind it.
  static result<std::unique_ptr<machine_controls>> make(control_place at,
                                                        std::vector<device_ways> devices,
                                                        const control_owner& owner);
  /// Errors: setting_governed; setting_held_lower; as setting_governor::set; the first of them.
  /// `is_any_set`: whether one device at least has it.
  status set(int pace_of_1024, bool* is_any_set = nullptr);
  /// The least that one of them was taken over at, in force (SGV-8), so that none is made faster by
  /// what another was not; the whole pace where none was.
  int adopted_at() const;
  /// What each is held by, "nvml_clocks"; none twice, and none of a device that somebody else has.
  std::vector<std::string_view> words() const;
  /// What the device of a target can do, which is held by that word. Errors: setting_governed;
  /// setting_not_held.
  result<actuator_facts> facts_of(const setting_target& target) const;
  /// From now on, until another is said; the whole pace: none. Errors: as facts_of, and as set, of
  /// that device alone: what could not be set is tried again with the next pace of all. MCT-6
  status wish(const setting_target& target, int pace_of_1024);
  /// Clocks that a job may have set of the device, as actuator::clocks_mhz(). Errors: as facts_of.
  /// MCT-7
  result<std::vector<int>> clocks_of(const setting_target& target) const;
  /// As actuator::set_clock(), of that device. Errors: as facts_of; its own. MCT-7
  status set_clock(const setting_target& target, int mhz);
  /// As actuator::check_clock(). Errors: as facts_of; its own.
  status check_clock(const setting_target& target);
  /// As actuator::take_note().
  std::string take_note(const setting_target& target);
  /// As actuator::given_back_to().
  unsigned given_back_to(const setting_target& target) const;
  /// Takes back what was set, as far as that can be; nothing is set afterwards.
  void end() noexcept;
  /// The same of what was not taken over, which stays: who does not come to hold the machine leaves
  /// it as it was (SGV-8).
  void leave() noexcept;
  /// What is set stays as it is, for who comes to hold the machine next (SGV-8); nothing is set
  /// afterwards.
  void stay() noexcept;
  /// The least that one of them may be held at: was set to last, in force or not, or taken over at.
  /// The whole pace: nothing here is slower than it was found.
  int held_at() const;

 private:
  struct held_device {
    device_ways ways;
    setting_target by = {};                           ///< which of them `governor` is
    std::unique_ptr<setting_governor> governor = {};  ///< none: somebody else's
    int held_at = whole_pace;                         ///< MCT-5
    int wished = whole_pace;                          ///< MCT-6
    std::optional<int> granted = {};                  ///< none: nobody has said a pace of all yet
  };
  machine_controls(control_place at, control_owner owner)
      : at_(std::move(at)), owner_(std::move(owner)) {}
  device_ways ways_to_take(const held_device& d) const;
  status take(held_device& d) const;
  /// Null: no such device.
  const held_device* find(const setting_target& target) const;
  /// Errors: as facts_of.
  result<setting_governor*> governor_of(const setting_target& target) const;
  status set_one(held_device& d, int pace_of_1024) const;
  status set_governed(held_device& d, int pace_of_1024) const;

  const control_place at_;
  const control_owner owner_;
  mutable std::mutex mutex_;
  bool over_ = false;                 ///< guarded by mutex_
  std::vector<held_device> devices_;  ///< guarded by mutex_
};

}  // namespace troupe::gpu::controls
