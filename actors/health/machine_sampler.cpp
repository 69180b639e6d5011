// Files of the kernel, one after the other.
#include "actors/health/machine_sampler.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "gpu/meters/nvml.hpp"
#include "io/base/median.hpp"
#include "io/machine/available_memory.hpp"
#include "io/machine/kernel_counters.hpp"

namespace troupe::health {

namespace {

constexpr size_t gpus_told = 16;

int64_t nanoseconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

/// Not known where it is none that a device can have.
uint16_t short_number(uint64_t x) {
  return x <= UINT16_MAX ? static_cast<uint16_t>(x) : uint16_t{0};
}

class sampler {
 public:
  sampler(std::string folder, log_watch logs) : folder_(std::move(folder)), logs_(std::move(logs)) {
    if (const auto path = io::parse_unified_cgroup(io::kernel_text("/proc/self/cgroup")))
      cpu_stat_ = fmt::format("/sys/fs/cgroup{}/cpu.stat", *path);
    if (auto meter = gpu::nvml::gpu_meter::open()) gpus_ = std::move(*meter);
  }

  fbs::MachineVitalsT sample(int64_t now_ns) {
    const auto begin = nanoseconds(CLOCK_MONOTONIC);
    fbs::MachineVitalsT out;
    out.sampled_ns = now_ns;
    pressures(out);
    processors(out, begin);
    out.cpus = usable_cpus();
    out.quota_cpus = static_cast<float>(quota_cpus().value_or(0));
    clocks(out);
    const auto memory = io::parse_memory(io::kernel_text("/proc/meminfo"));
    if (memory.total) out.memory_bytes = static_cast<int64_t>(*memory.total);
    if (memory.available) out.available_bytes = static_cast<int64_t>(*memory.available);
    if (const auto errors = io::parse_packet_errors(io::kernel_text("/proc/net/dev")))
      out.nic_errors = static_cast<int64_t>(*errors);
    devices(out);
    logs_.look(out, now_ns);
    struct statvfs room {};
    if (statvfs(folder_.c_str(), &room) == 0) {
      out.disk_free_bytes = static_cast<int64_t>(room.f_bavail * room.f_frsize);
      out.disk_bytes = static_cast<int64_t>(room.f_blocks * room.f_frsize);
    }
    out.sampling_ms = static_cast<double>(nanoseconds(CLOCK_MONOTONIC) - begin) / 1e6;
    if (!written_ns_ || begin - *written_ns_ >= disk_period_ns) {
      written_ns_ = begin;
      synced_ms_ = disk_sync_ms(folder_);
      cpu_mhz_ = processor_mhz();  // asks each processor: seldom, too
    }
    out.disk_sync_ms = synced_ms_.value_or(-1);
    out.cpu_mhz = short_number(static_cast<uint64_t>(cpu_mhz_.value_or(0)));
    return out;
  }

 private:
  static constexpr int64_t disk_period_ns =
      std::chrono::nanoseconds(defaults::vitals_disk_period).count();

  static void pressures(fbs::MachineVitalsT& out) {
    const auto memory = io::parse_pressure(io::kernel_text("/proc/pressure/memory"));
    out.memory_some_percent = memory.some_percent.value_or(-1);
    out.memory_full_percent = memory.full_percent.value_or(-1);
    out.cpu_some_percent =
        io::parse_pressure(io::kernel_text("/proc/pressure/cpu")).some_percent.value_or(-1);
    const auto disks = io::parse_pressure(io::kernel_text("/proc/pressure/io"));
    out.io_some_percent = disks.some_percent.value_or(-1);
    out.io_full_percent = disks.full_percent.value_or(-1);
  }

  void processors(fbs::MachineVitalsT& out, int64_t at_ns) {
    const auto ticks = io::parse_cpu_ticks(io::kernel_text("/proc/stat"));
    if (ticks && ticks_ && ticks->all > ticks_->all && ticks->stolen >= ticks_->stolen)
      out.steal_percent = share(ticks->stolen - ticks_->stolen, ticks->all - ticks_->all);
    ticks_ = ticks;
    if (cpu_stat_.empty()) return;
    const auto throttled = io::parse_throttled_us(io::kernel_text(cpu_stat_));
    if (throttled && throttled_us_ && *throttled >= *throttled_us_ && at_ns > sampled_ns_)
      out.throttled_percent =
          share((*throttled - *throttled_us_) * 1000, static_cast<uint64_t>(at_ns - sampled_ns_));
    throttled_us_ = throttled;
    sampled_ns_ = at_ns;
  }

  /// In a virtual machine it is what the host says, at all times.
  static std::optional<double> processor_mhz() {
    if (const auto said = io::parse_cpu_mhz(io::kernel_text("/proc/cpuinfo"))) return said;
    constexpr size_t asked = 16;
    std::vector<double> all;
    for (size_t cpu = 0; cpu < asked; ++cpu)
      if (const auto mhz = io::parse_scaling_mhz(io::kernel_text(
              fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", cpu))))
        all.push_back(*mhz);
    return all.empty() ? std::nullopt : std::optional(upper_median(std::move(all)));
  }

  static uint16_t usable_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(getpid(), sizeof(set), &set) == 0
               ? static_cast<uint16_t>(CPU_COUNT(&set))
               : uint16_t{0};
  }

  /// Asked each time: what a container may take is changed while it runs.
  static std::optional<double> quota_cpus() {
    return io::least_cpu_quota(io::kernel_text("/proc/self/cgroup"), [](const auto& file) {
      return io::kernel_text((std::filesystem::path("/sys/fs/cgroup") / file).string());
    });
  }

  /// CLOCK_BOOTTIME runs on while the machine sleeps, as the wall clock does.
  void clocks(fbs::MachineVitalsT& out) {
    const auto ahead = nanoseconds(CLOCK_REALTIME) - nanoseconds(CLOCK_BOOTTIME);
    if (ahead_ns_) out.clock_set_ms = static_cast<double>(ahead - *ahead_ns_) / 1e6;
    ahead_ns_ = ahead;
  }

  /// Of all devices the slowest, the warmest, and the one with the least limit.
  static void take_extremes(const gpu::nvml::gpu_reading& said, fbs::MachineVitalsT& out) {
    const auto take_least = [](uint16_t& into, uint64_t x) {
      if (const auto number = short_number(x); number > 0)
        into = into > 0 ? std::min(into, number) : number;
    };
    take_least(out.gpu_mhz, said.sm_mhz.value_or(0));
    take_least(out.gpu_limit_w, said.power_limit_mw.value_or(0) / 1000);
    constexpr int64_t warmest = 1000;
    const auto c = said.temperature_c.value_or(warmest);
    if (c < warmest)
      out.gpu_c = std::max(out.gpu_c, static_cast<int16_t>(std::max<int64_t>(c, -300)));
  }

  void devices(fbs::MachineVitalsT& out) {
    if (!gpus_) return;
    if (const auto event = gpus_->wait_xid(std::chrono::milliseconds(0)); event && *event)
      xids_[(*event)->index % gpus_told] = (*event)->xid;
    for (const auto& d : gpus_->devices()) {
      if (out.gpus.size() == gpus_told) break;
      auto& g = *out.gpus.emplace_back(std::make_unique<fbs::GpuVitalsT>());
      g.device = fmt::format("gpu{}", d.index);
      g.xid_number = xids_[d.index % gpus_told];
      const auto said = gpus_->read(d.index);
      if (!said) continue;
      if (said->ecc_uncorrected) g.ecc_errors = static_cast<int64_t>(*said->ecc_uncorrected);
      if (said->slowed_by) g.slowed_by = *said->slowed_by;
      take_extremes(*said, out);
    }
  }

  std::string folder_, cpu_stat_;
  log_watch logs_;
  std::unique_ptr<gpu::nvml::gpu_meter> gpus_;
  std::array<uint64_t, gpus_told> xids_{};
  std::optional<io::cpu_ticks> ticks_;
  std::optional<uint64_t> throttled_us_;
  std::optional<int64_t> ahead_ns_, written_ns_;
  std::optional<double> synced_ms_, cpu_mhz_;
  int64_t sampled_ns_ = 0;
};

}  // namespace

machine_sampler sample_this_machine(std::string folder, log_watch logs) {
  return [own = std::make_shared<sampler>(std::move(folder), std::move(logs))](int64_t now_ns) {
    return own->sample(now_ns);
  };
}

std::optional<double> disk_sync_ms(const std::filesystem::path& folder) {
  const int file = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);  // SMP-2
  if (file < 0) return std::nullopt;
  static constexpr std::array<char, 4096> page{};
  const auto begin = nanoseconds(CLOCK_MONOTONIC);
  const bool durable = write(file, page.data(), page.size()) == static_cast<ssize_t>(page.size()) &&
                       fdatasync(file) == 0;
  const auto took = nanoseconds(CLOCK_MONOTONIC) - begin;
  close(file);
  if (!durable) return std::nullopt;
  return static_cast<double>(took) / 1e6;
}

}  // namespace troupe::health
