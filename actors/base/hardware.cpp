// Facts from the kernel's own files.
#include "actors/base/hardware.hpp"

#include <sched.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "io/machine/processor_name.hpp"
#include "messages/registry.hpp"

namespace troupe::cluster {

namespace fs = std::filesystem;

namespace {

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string cpu_model() {
  auto name = io::processor_name_here();
  return name.empty() ? "unknown" : name;
}

uint32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
  return 1;
}

std::string random_id() {
  uint64_t words[2] = {};
  if (getrandom(words, sizeof(words), 0) != static_cast<ssize_t>(sizeof(words)))
    words[0] = static_cast<uint64_t>(getpid());
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

/// The number a file of limits holds; 0 for "max", for what is as good as none, or without a file.
uint64_t limit_in(const fs::path& file) {
  std::ifstream in(file);
  uint64_t bytes = 0;
  if (!(in >> bytes) || bytes >= uint64_t{1} << 60) return 0;
  return bytes;
}

uint64_t lesser(uint64_t a, uint64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

/// The least limit of a group and those that it is in. A path that is not there is of another
/// namespace: then the mount is the group.
uint64_t least_limit(const fs::path& mount, const std::string& group, const char* file) {
  uint64_t least = limit_in(mount / file);
  for (fs::path at = fs::path(group).relative_path(); !at.empty(); at = at.parent_path())
    least = lesser(least, limit_in(mount / at / file));
  return least;
}

/// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar 5 ...": the first word that
/// is digits and dots. Empty where there is none.
std::string driver_version_in(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return {};
  std::istringstream words(line);
  for (std::string word; words >> word;)
    if (word.find('.') != word.npos && word.find_first_not_of("0123456789.") == word.npos)
      return word;
  return {};
}

/// "GPU UUID: GPU-4f1d...", with blanks: of each folder's file. What says none is left out. Where
/// one says none yet (its driver sleeps until somebody computes) there are none at all: which of
/// them say it would be another machine's each time.
std::vector<std::string> gpu_uuids_in(const fs::path& gpus) {
  constexpr size_t most = 64, longest = 64;
  std::vector<std::string> out;
  std::error_code fault;
  for (auto it = fs::directory_iterator(gpus, fault); !fault && it != fs::directory_iterator();
       it.increment(fault)) {
    std::ifstream in(it->path() / "information");
    for (std::string line; out.size() < most && std::getline(in, line);) {
      if (!line.starts_with("GPU UUID:")) continue;
      if (line.find('?') != line.npos) return {};
      const auto begin = line.find("GPU-"), end = line.find_last_not_of(" \t\r");
      if (begin != line.npos && end - begin < longest)
        out.push_back(line.substr(begin, end + 1 - begin));
    }
  }
  std::ranges::sort(out);
  return out;
}

}  // namespace

uint64_t control_group_limit(const fs::path& groups, const fs::path& mount) {
  std::ifstream in(groups);
  uint64_t least = 0;
  for (std::string line; std::getline(in, line);) {  // "0::/user.slice" or "9:memory:/user.slice"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const auto controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const auto group = line.substr(second + 1);
    if (controllers == ",,")
      least = lesser(least, least_limit(mount, group, "memory.max"));
    else if (controllers.find(",memory,") != controllers.npos)
      least = lesser(least, least_limit(mount / "memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

uint64_t physical_memory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

fbs::HardwareFactsT hardware_facts(const fs::path& groups, const fs::path& mount,
                                   const fs::path& driver) {
  fbs::HardwareFactsT f;
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  f.hostname = name;
  f.boot_id = first_line("/proc/sys/kernel/random/boot_id");
  f.cpu_model = cpu_model();
  f.cores = usable_cores();
  f.machine_cpus =
      std::max(f.cores, static_cast<uint32_t>(std::max(0L, sysconf(_SC_NPROCESSORS_ONLN))));
  f.memory_bytes = lesser(physical_memory(), control_group_limit(groups, mount));
  f.instance_id = random_id();
  f.gpu_driver = driver_version_in(driver);
  f.gpu_uuids = gpu_uuids_in(driver.parent_path() / "gpus");
  return f;
}

process_usage usage_now() {
  process_usage u;
  rusage r{};
  getrusage(RUSAGE_SELF, &r);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  u.cpu_seconds = seconds(r.ru_utime) + seconds(r.ru_stime);
  std::ifstream in("/proc/self/statm");
  uint64_t all = 0, resident = 0;
  if (in >> all >> resident) u.rss_bytes = resident * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  return u;
}

/// Not getrusage's: what a process had before its exec counts there.
uint64_t peak_memory() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

uint64_t own_schema_hash() {
  return schema_hash();
}

std::string own_version() {
  return TROUPE_VERSION;
}

}  // namespace troupe::cluster
