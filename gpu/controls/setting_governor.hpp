// Settings of a machine's devices, held at a pace (setting_policy.hpp) by one rank of one job.
//
// Invariants
//   SGV-1  What was found is on the disk before the first change (control_record.hpp), and goes
//     from there once it is set again. Where it cannot be kept nothing is changed.
//   SGV-2  What is taken back is what was found, never a default; what a dead process has left is
//     taken back before anything is taken for found.
//   SGV-3  A device has one governor at a time, whose lock says who it is (seat.hpp). The other
//     ranks of the job there set nothing, since all of them have one pace, and take over where it
//     is gone; another job, of the same name or not, is refused.
//   SGV-4  A pace is set when it was read back, not when it was written, also where a clock has
//     already written the same.
//   SGV-8  What an owner whose settings are adopted has left (control_owner::is_adopted) stays as
//     it is, with what was found before it, under the next such owner, until that one sets another
//     pace. Any other owner takes it back. A pace is in the record before it is set, so a death
//     between the two leaves what was meant.
//   SGV-9  A clock that is asked for (set_clock) is no pace: it is not in the record, raises
//     nothing above what the pace lets a device have, and is undone with it. Who does not govern
//     sets none. All settings of a device are written, also where one of them takes none: that is
//     the error.
//   SGV-10 While another process than the job's computes on a GPU it has no clock of an operation
//     (sharing_policy.hpp): those in force when it comes are given back as they are looked at
//     next, and taken again once it is gone. A person hears of each of both once, and is told
//     with each step as long as they are (given_back_to).
//   SGV-6  What is taken back is no longer this program's to set, whatever else stays. Processors
//     that are offline keep nobody from the others: what was found of them goes from record to
//     record until it can be set.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/controls/actuator.hpp"
#include "gpu/controls/control_record.hpp"
#include "gpu/controls/groups.hpp"
#include "gpu/controls/setting_port.hpp"
#include "gpu/controls/sharing_policy.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/recent_delays.hpp"
#include "io/base/result.hpp"
#include "io/folder/lock.hpp"

namespace troupe::gpu::controls {

/// Nothing can be set here: of what, and why.
inline constexpr error_kind<std::string_view, std::string_view> setting_refused{
    "setting_refused", errc::permission, "power.control = [\"{}\"] cannot be held: {}",
    "run as root, in a container with /sys and /run/troupe of the host, both writable, or set "
    "power.control = [\"pace\"]"};
/// SGV-3: of what, and who has it.
inline constexpr error_kind<std::string_view, std::string_view> setting_governed{
    "setting_governed", errc::unavailable,
    "power.control = [\"{}\"] cannot be held: another job has it on this machine: {}",
    "end that job, or set power.control = [\"pace\"]"};
/// SGV-4: which setting, what was written, what it reads.
inline constexpr error_kind<std::string_view, uint64_t, uint64_t> setting_not_in_force{
    "setting_not_in_force", errc::unavailable, "{0} reads {2} after {1} was written",
    "something else on this machine sets it (tuned, thermald, a BMC): end that, or set "
    "power.control = [\"pace\"]"};

class setting_governor final : public actuator {
 public:
  /// Errors: those of setting_port::find(), setting_refused, setting_governed; that of what was
  /// left and cannot be taken back (SGV-2).
  static result<std::unique_ptr<setting_governor>> make(const control_place& at,
                                                        const setting_target& target,
                                                        const control_owner& owner);
  ~setting_governor() override;
  setting_governor(const setting_governor&) = delete;
  setting_governor& operator=(const setting_governor&) = delete;

  /// Errors: setting_not_in_force; as make's, where it takes over.
  status set(int pace_of_1024) override;
  void end() noexcept override;
  actuator_facts facts() const override;
  /// A clock's, where it governs; of a machine's device (setting_target::is_machines) while not
  /// several processes compute on it. SGV-9
  bool sets_clocks() const override;
  std::vector<int> clocks_mhz() const override;
  /// Errors: what the system or the driver says.
  status set_clock(int mhz) override;
  /// SGV-10. Errors: setting_not_in_force; what the system or the driver says.
  status check_clock() override;
  std::string take_note() override;
  /// SGV-10
  unsigned given_back_to() const override;
  /// Ends it where it has taken over: what it found so stays. SGV-8
  void leave() noexcept;
  /// Ends it: what it has set stays, with what was found before it. SGV-8
  void stay() noexcept;
  /// Whether this one governs, and no other rank of the job (SGV-3).
  bool governs() const;
  /// At which pace it was taken over, in force; none: what was found is in force as it begins.
  /// SGV-8
  std::optional<int> adopted_at() const;

 private:
  setting_governor(control_place at, setting_target target, control_owner owner)
      : at_(std::move(at)),
        target_(std::move(target)),
        owner_(std::move(owner)),
        sharing_(std::chrono::nanoseconds(at_.alone_for).count()) {}
  result<bool> govern();
  result<bool> adopt();
  status keep_pace(int pace_of_1024);
  std::filesystem::path own_record() const;
  uint64_t wanted_of(const setting_range& range) const;
  status begin(const std::vector<found_setting>& away);
  status write_clock();
  status look_for_others();

  const control_place at_;
  const setting_target target_;
  const control_owner owner_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  bool over_ = false;
  std::optional<io::folder_lock> lock_;  ///< none: another rank of the job governs
  // Where this one governs.
  std::unique_ptr<setting_port> port_;
  control_record record_;
  std::vector<machine_setting> settings_;
  std::vector<uint64_t> in_force_;  ///< of each; 0: not known
  std::vector<bool> unread_;        ///< of each: it was written for a clock, and not read since
  recent_delays took_;              ///< from a write until it was read back, each setting
  std::optional<int> adopted_at_;
  int pace_of_1024_ = whole_pace, clock_mhz_ = highest_clock_mhz;
  sharing_policy sharing_;
};

/// Whether what is set of it was left so for this owner to go on from, by this word. SGV-8
bool is_left_to_next(const control_place& at, const setting_target& target,
                     const control_owner& owner);

/// Sets what the record in a file found again (SGV-2), or forgets it after a reboot. Errors:
/// setting_governed; setting_not_in_force; what the system says.
status undo_settings(const control_place& at, const std::filesystem::path& file,
                     const control_record& r);

}  // namespace troupe::gpu::controls
