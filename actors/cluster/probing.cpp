// Kept, waited for, or measured.
#include "actors/cluster/probing.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "actors/base/defaults.hpp"
#include "actors/base/hardware.hpp"
#include "gpu/back_end.hpp"
#include "io/disk/calibrate.hpp"
#include "io/machine/available_memory.hpp"
#include "io/perf/hw_reader.hpp"

namespace troupe::cluster {

namespace {

using io::perf::hw_profile;

gpu::predict::probe_troubles probe_processors(const machine_probing& how, int threads,
                                              hw_profile& into) {
  constexpr uint64_t share = 8;  // others have the rest of what is left
  constexpr uint64_t unknown = uint64_t{1} << 30;
  constexpr double quick_s = 2, full_s = 9;
  const auto host = gpu::open_device("host", threads);
  if (!host) return {host.error().message};
  gpu::predict::probe_options options;
  options.threads = threads;
  options.full = how.full;
  options.seconds = how.full ? full_s : quick_s;
  options.memory_bytes = io::available_memory().value_or(unknown) / share;
  options.stopped = [stop = how.stop] { return stop.stop_requested(); };
  return gpu::predict::probe_host(**host, options, into);
}

/// MPR-2.
std::optional<hw_profile> kept_here(const machine_probing& how, const io::perf::probe_key& key) {
  constexpr auto young = std::chrono::duration_cast<std::chrono::hours>(defaults::ceiling_memory);
  auto whole = key;
  whole.host_only = false;
  whole.disk = io::perf::device_under(".");
  const auto by_person = io::perf::find_probes(how.store, whole, young);
  return by_person ? by_person : io::perf::find_probes(how.store, key, young);
}

/// What rooflines are made of: on a busy machine the rest may find no time, at every start.
bool has_rates(const hw_profile& is) {
  return is.gemm_gflop_s && is.gemm_bf16_gflop_s && is.adamw_mparam_s;
}

/// MPR-1. Nothing: others measured for longer than that, or it is to stop.
std::optional<hw_profile> measured_or_kept(const machine_probing& how) {
  if (how.store.here().empty()) return std::nullopt;
  const auto key = host_probe_key(how.full);
  if (key.boot_id.empty()) return std::nullopt;  // HWK-1: it would be kept for nobody
  for (auto waited = std::chrono::milliseconds(0);; waited += defaults::probe_turn_period) {
    if (const auto kept = kept_here(how, key)) return kept;
    if (how.stop.stop_requested()) return std::nullopt;
    const auto turn = io::perf::lock_probes(how.store, defaults::probe_turn_period);
    if (!turn) {
      if (waited >= how.patience) return std::nullopt;
      continue;
    }
    if (!*turn) return std::nullopt;                         // no file can be written there
    if (const auto kept = kept_here(how, key)) return kept;  // by who had the turn before
    hw_profile now;
    const auto troubles = how.measure ? how.measure(now) : probe_processors(how, key.threads, now);
    io::perf::drop_impossible(now);
    // What was cut short lacks numbers without a word of it.
    if (!how.stop.stop_requested() && (troubles.empty() || has_rates(now)))
      io::perf::keep_probes(how.store, key, now);
    return now;
  }
}

/// MPR-4. In place of a person's, which is of the disk under the folder that this process is in;
/// that says nothing of another.
void add_kept_disk(const machine_probing& how, const std::string& disk, hw_profile& into) {
  if (how.folder.empty()) return;
  io::calibrate_options asked;
  asked.store = how.store;
  const auto kept = io::kept_calibration(how.folder, asked);
  if (!kept) {
    if (disk != io::perf::device_under(".")) into.disk_read_gb_s = into.disk_write_gb_s = {};
    return;
  }
  into.disk_read_gb_s = kept->best.read_bytes_s / 1e9;
  into.disk_write_gb_s = kept->best.write_bytes_s / 1e9;
}

}  // namespace

io::perf::probe_key host_probe_key(bool full) {
  const auto facts = hardware_facts();
  io::perf::probe_key key;
  key.boot_id = facts.boot_id;
  key.threads = std::max(1, static_cast<int>(facts.cores));
  key.full = full;
  key.host_only = true;
  return key;
}

hw_profile probe_this_machine(const machine_probing& how) {
  const auto probes = how.measures ? measured_or_kept(how) : std::nullopt;
  const auto disk = how.folder.empty() ? std::string() : io::perf::device_under(how.folder);
  auto out = io::perf::read_hw_profile({"/", disk});
  if (probes)
    for (const auto& field : io::perf::hw_fields())
      if (field.group == "probe") out.*field.number = (*probes).*field.number;
  add_kept_disk(how, disk, out);
  io::perf::drop_impossible(out);
  return out;
}

}  // namespace troupe::cluster
