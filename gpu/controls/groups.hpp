// The control groups and settings of a machine as files, and what else of its kernel a control
// asks. An edge: tests have a tree of their own.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/controls/known_settings.hpp"
#include "gpu/meters/nvml_library.hpp"
#include "io/base/result.hpp"
#include "io/file.hpp"
#include "io/local_socket.hpp"

namespace troupe::gpu::controls {

/// Makes, writes and removes groups, and writes settings. Its calls block for as long as the kernel
/// takes.
class group_files {
 public:
  virtual ~group_files() = default;
  /// Errors: what the system says.
  virtual status make(const std::filesystem::path& group);
  /// Into a file that is there, in one write. Errors: what the system says.
  virtual status write(const std::filesystem::path& file, std::string_view text);
  /// Success where there is none. Errors: what the system says, as while a thread is in it.
  virtual status remove(const std::filesystem::path& group);
};

/// Where settings are journalled on a machine. Only root may change them, and so it is root's: gone
/// with a reboot, as they are, and emptied by nobody at a session's end or by age.
inline constexpr const char* settings_folder = "/run/troupe/controls";

/// Where a control finds what it asks, and keeps what it has changed.
struct control_place {
  /// The folder of the journals of groups (control_record.hpp), which are any user's; empty: none.
  std::filesystem::path records;
  /// The same of settings, and their seats (seat.hpp): one of a machine, for all who may set them.
  std::filesystem::path settings = {};
  std::filesystem::path mount = "/sys/fs/cgroup";
  std::filesystem::path processes = "/proc";
  std::filesystem::path devices = "/sys";
  std::function<result<const nvml::library*>()> gpu_library = &nvml::load;
  std::shared_ptr<group_files> groups = std::make_shared<group_files>();
  /// Of all copies of this one.
  std::shared_ptr<known_settings> known = std::make_shared<known_settings>();
  /// Whether a clock that was set again is that one though heat holds it lower, so that its record
  /// goes (SGV-7); else the record stays, for whoever goes on here.
  bool is_set_in_heat = true;
  /// How long another may change the groups below one (hold_group).
  std::chrono::milliseconds patience{2000};
  /// How long another launch may have a device: longer than a process may take to end in order, so
  /// that what a head has lost keeps nobody of the one that goes on for it (seat.hpp).
  std::chrono::milliseconds seat_patience{6000};
  /// How long nobody else may have been seen to compute on a GPU before its clocks are set for
  /// single operations again (sharing_policy.hpp): who restarts is back before that.
  std::chrono::milliseconds alone_for{10'000};
  /// Where the agent of the machine is asked for what this process may not set; empty: nowhere.
  std::filesystem::path agent_socket = {};
  /// How long each of its answers may take: a driver sets some devices meanwhile.
  std::chrono::milliseconds agent_patience{5000};
  /// Whose that agent is.
  std::function<result<io::socket_peer>(int)> peer_of = &io::peer_of;
};

/// While it is kept nobody else who asks for the same group changes what is below it, in this
/// process or another: the kernel's lock of its folder, so that it does not matter whose records
/// are where. Whoever has not got it within `at.patience`, as of a process that is stopped, goes on
/// without.
io::unique_fd hold_group(const control_place& at, const std::filesystem::path& group);

/// The groups that this process is in, as the kernel says it.
std::string own_groups(const control_place& at);
/// The id of this boot; empty: not known.
std::string boot_id(const control_place& at);
/// Of what its processes' numbers are (a namespace of the kernel); empty: not known.
std::string number_space(const control_place& at);
/// When a process was started, in ticks since the boot; none: there is no such process.
std::optional<uint64_t> started_ticks(const control_place& at, int64_t pid);

}  // namespace troupe::gpu::controls
