// Facts from the kernel's own files.
#include "actors/base/hardware.hpp"

#include <sched.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "messages/registry.hpp"

namespace troupe::cluster {

namespace {

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name"))
      if (auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "unknown";
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

}  // namespace

fbs::HardwareFactsT hardware_facts() {
  fbs::HardwareFactsT f;
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  f.hostname = name;
  f.boot_id = first_line("/proc/sys/kernel/random/boot_id");
  f.cpu_model = cpu_model();
  f.cores = usable_cores();
  f.memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                   static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  f.instance_id = random_id();
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
