// The threads that compute, held to a share of the processor time that they could use: in a control
// group of their own, below that of their process, with a quota (cgroup_policy.hpp).
//
// Invariants
//   CTQ-1  What is changed is on the disk before the first change (control_record.hpp), and goes
//     from there once that is undone. Where it cannot be kept nothing is changed.
//   CTQ-2  Only the threads that are named are held, and those that they start. All are taken out
//     again, and the group goes, when this ends; one that could not be is held no more. The
//     group of a process that was killed holds nobody and goes with the next quota that is made, or
//     by `troupe power restore`.
//   CTQ-3  What a living process has changed nobody else undoes, nor what another kernel has: its
//     record is void and goes alone. Of a process that is not seen here, as another container's,
//     the threads in its group tell whether it lives, of which version 1 shows none: nothing of
//     such a group is changed, and one that the kernel does not remove is in use. Nothing is
//     removed outside the mount of control groups.
//   CTQ-4  The cpu controller is taken away from no group that counts on it: whoever makes a group
//     or looks for the last one holds the group above (hold_group). One that lost it all the same
//     has it again with the next quota.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/controls/actuator.hpp"
#include "gpu/controls/cgroup_policy.hpp"
#include "gpu/controls/control_record.hpp"
#include "gpu/controls/groups.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu::controls {

/// Why no quota can be made here.
inline constexpr error_kind<std::string_view> no_computing_threads{
    "no_computing_threads", errc::bad_config,
    "power.control = [\"{}\"] slows processors, and this rank computes on a device",
    "set power.control = [\"pace\"], which holds any device"};
inline constexpr error_kind<std::string_view> no_cpu_controller{
    "no_cpu_controller", errc::unavailable,
    "the processor time of threads cannot be bounded: {} has no cpu controller",
    "give this user one (systemd: Delegate=cpu in the unit), or set power.control = [\"pace\"]"};
inline constexpr error_kind<std::string_view> quota_refused{
    "quota_refused", errc::permission, "the processor time of threads cannot be bounded: {}",
    "run as root or where the cpu controller is this user's (systemd: Delegate=cpu), or set "
    "power.control = [\"pace\"]"};

/// A limit that is not seen here, as of a group outside the container: version 1 takes no quota
/// above it.
inline constexpr error_kind<std::string_view> quota_over_limit{
    "quota_over_limit", errc::unavailable,
    "the processor time of threads cannot be bounded: a group above has a limit that is below what "
    "they can use, and cannot be read here: {}",
    "give this rank fewer threads, or set power.control = [\"pace\"]"};

class thread_quota final : public actuator {
 public:
  /// Undoes first what dead processes have left (CTQ-2), as far as that can be. Errors:
  /// no_computing_threads, no_cpu_controller, quota_refused, quota_over_limit: a quota has been
  /// set then, nearly that of full speed, so that no later one is refused for what it is.
  static result<std::unique_ptr<thread_quota>> make(const control_place& at,
                                                    const control_owner& owner,
                                                    std::span<const int> threads);
  ~thread_quota() override;
  thread_quota(const thread_quota&) = delete;
  thread_quota& operator=(const thread_quota&) = delete;

  /// From now on; nothing once it has ended. Errors: quota_refused, quota_over_limit.
  status set(int pace_of_1024) override;
  /// CTQ-2
  void end() noexcept override;
  actuator_facts facts() const override;

 private:
  thread_quota(control_place at, control_record record, std::span<const int> threads)
      : at_(std::move(at)), record_(std::move(record)), threads_(threads.begin(), threads.end()) {}
  status begin();
  status write_quota(std::optional<int64_t> quota);

  const control_place at_;
  const control_record record_;
  const std::vector<int> threads_;
  mutable std::mutex mutex_;
  bool over_ = false;     // guarded by mutex_
  int pace_of_1024_ = 0;  // the same; 0: none is set
  recent_delays took_;    // the same: of a write, which the kernel has taken as it returns
};

/// Whether the group of a record has threads in it.
bool holds_threads(const control_record& r);

/// Undoes what a record of a group says (CTQ-2); of a process that is not seen here it removes the
/// group or does nothing (CTQ-3). Errors: what the system says.
status undo_quota(const control_place& at, const control_record& r);

}  // namespace troupe::gpu::controls
