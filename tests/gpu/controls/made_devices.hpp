// The settings of a machine that is a made tree: two policies of processors and two packages.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "gpu/controls/setting_governor.hpp"
#include "io/machine/available_memory.hpp"
#include "tests/io/scratch.hpp"

namespace troupe::gpu::controls::made {

namespace fs = std::filesystem;

/// With which a process ends that made_files ends.
inline constexpr int killed_code = 9;

inline void fill(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::trunc) << text;
}

/// Files of a kernel: notes each write as "FOLDER=TEXT", and may lie, refuse, or end the process.
class made_files final : public group_files {
 public:
  explicit made_files(fs::path records) : records_(std::move(records)) {}

  status write(const fs::path& file, std::string_view text) override {
    const int moment = moment_++;
    if (moment == dies_before) ::_exit(killed_code);
    if (file.parent_path().filename() == refused) return error{errc::permission, "nobody may"};
    if (file.parent_path().filename() == away) return error::system("write", EBUSY);
    if (done.empty())
      for (const auto& name : {"cpufreq.control", "rapl.control"})
        was_recorded = was_recorded || fs::exists(records_ / name);
    done.push_back(fmt::format("{}={}", file.parent_path().filename().string(), text));
    if (!lies) fill(file, fmt::format("{}\n", text));
    if (moment == dies_behind) ::_exit(killed_code);
    return {};
  }

  std::vector<std::string> done;
  std::string refused;  ///< a folder whose setting takes nothing
  std::string away;     ///< one of processors that are offline
  bool lies = false, was_recorded = false;
  int dies_before = -1, dies_behind = -1;  ///< at which of all writes

 private:
  fs::path records_;
  int moment_ = 0;
};

/// Two policies of processors and two packages, set by somebody below what they could do.
struct made_devices {
  scratch folder;
  std::shared_ptr<made_files> files;
  control_place at;

  made_devices() {
    at.devices = folder / "sys";
    at.processes = folder / "proc";
    at.records = folder / "groups";
    at.settings = folder / "settings";
    files = std::make_shared<made_files>(at.settings);
    at.groups = files;
    for (const char* policy : {"policy0", "policy1"}) {
      const auto of = at.devices / "devices/system/cpu/cpufreq" / policy;
      fill(of / "scaling_max_freq", "3000000\n");
      fill(of / "scaling_min_freq", "800000\n");
      fill(of / "cpuinfo_min_freq", "400000\n");
      fill(of / "cpuinfo_max_freq", "3400000\n");
    }
    for (const char* zone : {"intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"}) {
      const auto of = at.devices / "class/powercap" / zone;
      fill(of / "name", std::string_view(zone).ends_with(":0:0") ? "dram\n" : "package-0\n");
      fill(of / "enabled", "1\n");
      fill(of / "constraint_0_name", "long_term\n");
      fill(of / "constraint_0_power_limit_uw", "150000000\n");
      fill(of / "constraint_0_max_power_uw", "165000000\n");
    }
    fill(at.processes / "sys/kernel/random/boot_id", "boot-1\n");
    lives(::getpid());
  }
  void lives(int64_t pid) const {
    fill(at.processes / fmt::format("{}/stat", pid),
         fmt::format("{} (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 500 7\n", pid));
  }
  result<std::unique_ptr<setting_governor>> make(setting_kind kind, int64_t rank = 0,
                                                 const char* job = "tiny",
                                                 uint64_t launch = 1) const {
    return setting_governor::make(at, {kind, ""}, {job, rank, launch});
  }
  std::unique_ptr<setting_governor> governor(setting_kind kind, int64_t rank = 0) const {
    auto made = make(kind, rank);
    REQUIRE_MESSAGE(made, (made ? "" : render(made.error())));
    return std::move(*made);
  }
  /// What each setting of a kind is, by its folder.
  std::map<std::string, std::string> values(setting_kind kind) const {
    const bool of_clocks = kind == setting_kind::cpufreq;
    const auto all = at.devices / (of_clocks ? "devices/system/cpu/cpufreq" : "class/powercap");
    const char* file = of_clocks ? "scaling_max_freq" : "constraint_0_power_limit_uw";
    std::map<std::string, std::string> out;
    for (const auto& entry : fs::directory_iterator(all))
      out[entry.path().filename().string()] = io::kernel_text((entry.path() / file).string());
    return out;
  }
  /// As a cooling device of processors says it; 0: it is not at work.
  void cool(int state) const {
    const auto cooler = at.devices / "class/thermal/cooling_device7";
    fill(cooler / "type", "Processor\n");
    fill(cooler / "cur_state", fmt::format("{}\n", state));
  }
  size_t record_count() const {
    size_t out = 0;
    if (!fs::exists(at.settings)) return out;
    for (const auto& entry : fs::directory_iterator(at.settings))
      out += entry.path().extension() == record_suffix ? 1 : 0;
    return out;
  }
};

/// Has another process do it; how that ended. It has nothing of this one's to undo.
template <class Work>
int in_another_process(Work&& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    work();
    ::_exit(0);
  }
  int ended = 0;
  REQUIRE(::waitpid(child, &ended, 0) == child);
  REQUIRE(WIFEXITED(ended));
  return WEXITSTATUS(ended);
}

/// A whole life of a governor.
inline void live(const made_devices& m, setting_kind kind) {
  const auto made = m.make(kind);
  if (made && (*made)->set(512)) static_cast<void>((*made)->set(128));
}

/// As `live`, and killed once it is at half its pace.
inline void leave(const made_devices& m, setting_kind kind) {
  m.files->dies_behind = 3;
  REQUIRE(in_another_process([&] { live(m, kind); }) == killed_code);
  m.files->dies_behind = -1;
}

}  // namespace troupe::gpu::controls::made
