// The checks in their order, the load meanwhile, what is kept of the machine.
#include "actors/health/checkup.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"
#include "actors/base/hardware.hpp"
#include "actors/health/checks.hpp"
#include "actors/health/machine_sampler.hpp"
#include "gpu/host/peak.hpp"
#include "io/base/counted.hpp"
#include "io/disk/calibrate.hpp"
#include "io/machine/kernel_counters.hpp"

namespace troupe::health {

namespace {

constexpr double busy_disk_percent = 10;

std::chrono::hours believed() {
  return std::chrono::duration_cast<std::chrono::hours>(defaults::ceiling_memory);
}

std::optional<double> machine_seconds() {
  const auto ticks = io::parse_cpu_ticks(io::kernel_text("/proc/stat"));
  if (!ticks) return std::nullopt;
  return static_cast<double>(ticks->all - std::min(ticks->all, ticks->idle)) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// How much of the machine others have, from here to `of`.
class load_meter {
 public:
  load load_of(const checkup_under_way& c) const {
    load out;
    const double wall = gpu::seconds_now(gpu::time_kind::wall) - wall_;
    const double own =
        gpu::seconds_now(gpu::time_kind::thread) - own_ + c.helpers_seconds;
    if (const auto now = machine_seconds(); now && machine_ && wall > 0) {
      const double all = wall * std::max(1u, std::thread::hardware_concurrency());
      out.others_percent = std::clamp(100 * (*now - *machine_ - own) / all, 0.0, 100.0);
    }
    if (c.wall_seconds > 0) out.own_percent = 100 * c.own_seconds / c.wall_seconds;
    return out;
  }

 private:
  std::optional<double> machine_ = machine_seconds();
  double wall_ = gpu::seconds_now(gpu::time_kind::wall);
  double own_ = gpu::seconds_now(gpu::time_kind::thread);
};

/// How long processes wait for the disk while no check of it is under way: then it is not for ours.
class disk_meter {
 public:
  bool was_waited_for() const { return before_.value_or(0) > busy_disk_percent; }
  /// From here on to the end nothing of ours waits for it.
  void begin() {
    from_us_ = pressure().some_us;
    wall_ = gpu::seconds_now(gpu::time_kind::wall);
  }
  bool is_waited_for() const {
    const auto now = pressure().some_us;
    const double us = (gpu::seconds_now(gpu::time_kind::wall) - wall_) * 1e6;
    return now && from_us_ && us > 0 &&
           100 * static_cast<double>(*now - std::min(*now, *from_us_)) / us > busy_disk_percent;
  }

 private:
  static io::pressure pressure() {
    return io::parse_pressure(io::kernel_text("/proc/pressure/io"));
  }

  std::optional<double> before_ = pressure().some_percent;
  std::optional<uint64_t> from_us_ = {};
  double wall_ = 0;
};

std::string fact_of(const std::string& check, bool deep) {
  auto name = fmt::format("checkup-{}{}", check, deep ? "-deep" : "");
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::optional<double> kept_value(const checkup_options& options, const std::string& fact) {
  const auto kept = options.store.find(fact, believed());
  if (!kept || !kept->is_number()) return std::nullopt;
  const auto value = kept->get<double>();
  return value > 0 && value < 1e15 ? std::optional(value) : std::nullopt;
}

/// The best so far of this machine; of a disk, what checkpoints were measured with.
std::optional<double> best_so_far(const checkup_under_way& c, const fbs::CheckResultT& of) {
  if (!is_of_disk(of.check)) return kept_value(c.options, fact_of(of.check, c.deep));
  io::calibrate_options how;
  how.store = c.options.store;
  const auto disk = io::kept_calibration(c.options.folder, how);
  if (!disk) return std::nullopt;
  return of.check == "disk_write" ? disk->best.write_bytes_s : disk->best.read_bytes_s;
}

void judge_one(const checkup_under_way& c, fbs::CheckResultT& of, bool busy, bool disk_busy) {
  const auto& e = entry_of(of.check);
  const auto kept = e.of_kept > 0 ? best_so_far(c, of) : std::nullopt;
  const bool is_disk = is_of_disk(of.check);
  judge(of, kept, busy || (is_disk && disk_busy));
  if (e.of_kept > 0 && !is_disk && !busy && of.verdict == fbs::CheckVerdict::ok &&
      (!kept || of.seen > *kept))
    c.options.store.keep(fact_of(of.check, c.deep), of.seen);
}

/// Does it, and says of its results what it took.
template <class Check>
void carry_out(checkup_under_way& c, Check check) {
  if (c.stop.stop_requested()) return;  // EXM-1
  const auto first = c.results.size();
  const double begin = gpu::seconds_now(gpu::time_kind::wall);
  check(c);
  const double took = (gpu::seconds_now(gpu::time_kind::wall) - begin) * 1e3;
  for (auto i = first; i < c.results.size(); ++i) c.results[i]->took_ms = took;
}

}  // namespace

fbs::CheckupReportT run_checkup(const fbs::RunCheckupT& asked, const checkup_options& options,
                                std::stop_token stop) {
  const double begin = gpu::seconds_now(gpu::time_kind::wall);
  disk_meter disk;
  const load_meter meter;
  checkup_under_way c{asked.deep, options, std::move(stop)};
  if (!asked.bits_only) {
    carry_out(c, check_process);
    carry_out(c, check_clock);
  }
  carry_out(c, check_cores);
  if (!asked.bits_only) carry_out(c, check_gpus);
  carry_out(c, check_memory_pattern);
  if (!asked.bits_only) {
    carry_out(c, check_memory_bandwidth);
    carry_out(c, check_disk);
    disk.begin();
    carry_out(c, check_loopback);
    carry_out(c, check_gpu_exchange);
  }
  const auto load = meter.load_of(c);
  fbs::CheckupReportT out;
  out.busy = was_busy(load);
  out.others_percent = load.others_percent;
  const bool disk_busy = disk.was_waited_for() || disk.is_waited_for();
  for (auto& of : c.results) judge_one(c, *of, out.busy, disk_busy);
  out.checks = std::move(c.results);
  const auto facts = cluster::hardware_facts();
  out.hardware = fmt::format("{}, {}, {}", facts.cpu_model, counted(facts.cores, "cpu"),
                             gpu::instruction_sets().back());
  out.took_ms = (gpu::seconds_now(gpu::time_kind::wall) - begin) * 1e3;
  return out;
}

examiner examine_this_machine(std::filesystem::path folder, gpu_choice gpus) {
  checkup_options options;
  options.gpus = gpus;
  options.folder = std::move(folder);
  return [options](const fbs::RunCheckupT& asked, std::stop_token stop) {
    return run_checkup(asked, options, std::move(stop));
  };
}

}  // namespace troupe::health
