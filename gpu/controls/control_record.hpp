// The journal of a change that outlives its process: a small file each, written before the change
// and removed when that is undone. What was there before a control group is made is nothing: it is
// undone by removing the group. A setting of a device is undone by writing what was found.
//
//   {"troupe-control":1,"cgroup":2,"group":"/sys/fs/cgroup/a.slice/troupe-4711-0","turned_on":true,
//    "job":"tiny","rank":0,"pid":4711,"started":81230,"boot":"5c8b..."}
//   {"troupe-control":1,"kind":"rapl","settings":[{"where":"/sys/class/powercap/intel-rapl:0/...",
//    "found":165000000}],"job":"tiny","rank":0,"pid":4711,"started":81230,"boot":"5c8b..."}
//
// Pure.
//
// Invariants
//   CRE-1  A record names a group whose name is one that this program gives, by a whole path
//     without "." and "..", or settings that are this program's to change (DVS-4); whatever else
//     the bytes are, they are no record.
//   CRE-2  What was changed before a reboot is gone with it: that record is void. What a process
//     that lives has changed is left alone; another one with its number is not it.
//   CRE-3  Settings that stay where their process dies say at which pace they do, "stays_at":512,
//     at most the whole one. They are in force at that pace, or on their way there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/controls/cgroup_policy.hpp"
#include "gpu/controls/setting_policy.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu::controls {

/// What is read of a record at most.
inline constexpr size_t record_bytes = 256 << 10;
/// Names of records end so.
inline constexpr std::string_view record_suffix = ".control";

/// A file that is no record of this program, or of another version of it: why.
inline constexpr error_kind<std::string_view> no_control_record{
    "no_control_record", errc::bad_data, "it says of no change how it is undone: {}",
    "it stays as it is: look what it is, and take it away"};

/// A setting of a device, before it was changed.
struct found_setting {
  std::string where;
  uint64_t found = 0;
  bool operator==(const found_setting&) const = default;
};

struct control_record {
  cgroup_version version = cgroup_version::two;
  std::string group;       ///< that was made; empty: settings were changed
  bool turned_on = false;  ///< the cpu controller, for it, in the group that it is in (version 2)
  std::string job;
  int64_t rank = 0;
  int64_t pid = 0;
  uint64_t started = 0;  ///< when the process was, in the kernel's ticks since its boot
  std::string boot;      ///< the id of that
  setting_kind kind = setting_kind::cpufreq;  ///< of `settings`
  std::vector<found_setting> settings = {};
  std::string number_space = {};  ///< which `pid` is of, as a container's; empty: not known
  std::optional<int> stays_at = {};  ///< CRE-3; none: they end with the process
  bool operator==(const control_record&) const = default;
};

std::string record_text(const control_record& r);
/// Errors: no_control_record.
result<control_record> parse_record(std::string_view text);

/// What is set of which device.
struct setting_target {
  setting_kind kind = setting_kind::cpufreq;
  std::string gpu = {};  ///< its UUID, where it is a GPU's
  bool is_machines = false;  ///< whoever computes there is meant: the machine is held, and no job
};
setting_target target_of(const control_record& r);
/// The device's name, of which nothing else is set meanwhile: the kind, or the GPU. One of a record
/// is a plain name.
std::string device_of(const setting_target& target);

/// What is changed, for a person: the group, or the settings.
std::string subject_of(const control_record& r);

/// Of /proc/PID/stat: when the process was started, in ticks since the boot.
std::optional<uint64_t> start_ticks(std::string_view stat);

/// What to do about a change.
enum class record_verdict : uint8_t {
  in_use,  ///< its process lives
  undo,
  forget,  ///< a reboot has undone it
};
/// "in use", "undo", "forget".
std::string_view to_string(record_verdict verdict);

/// `started`: when the process that has its number now was; none: there is none (CRE-2).
record_verdict judge(const control_record& r, std::string_view boot,
                     std::optional<uint64_t> started);

}  // namespace troupe::gpu::controls
