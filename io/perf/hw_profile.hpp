// What a machine is and what it was measured to do, field by field, in the groups and units that
// tables of machines have (table.hpp): what a predictor asks by, and learns from.
//
// A field that is not known is absent, never 0: most machines lack some of them (a virtual machine
// has no DIMMs to be read, a container no governor). One list of fields serves the text, the JSON,
// the row of a table and its schema.
//
// Invariants
//   HWP-1  A field has one unit, the last word of its name where it is not "1", and one group.
//   HWP-2  A word is printable and not empty; a number is finite, and above 0 where its kind is
//     log: what is neither is left out (drop_impossible).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "io/perf/table.hpp"

namespace troupe::io::perf {

/// GiB are 2^30 bytes, KiB 2^10; GB, GB/s and Gbit/s count by 1e9.
struct hw_profile {
  using value = std::optional<double>;
  using word = std::optional<std::string>;

  // cpu: of the first processor where they may differ
  word cpu_model, cpu_vendor, cpu_family, cpu_number, cpu_stepping, cpu_microcode, cpu_isa,
      cpu_flags;
  value cpus, usable_cpus, quota_cpus, fast_cpus, slow_cpus, cores, sockets, numa_nodes,
      nodes_per_socket, threads_per_core, cores_per_socket, base_mhz, max_mhz, l1d_kib, l1i_kib,
      l2_kib, l3_kib, l3_cpus, tdp_w;

  // memory
  value mem_gib, dimms, dimm_gib, dimm_mt_s, dimm_ranks, dimm_cas_ns, huge_pages;
  word dimm_part, huge_page_mode, numa_balancing;

  // system
  word os, kernel, governor, virtual_machine, container, machine_vendor, machine_name;
  value idle_states;

  // gpu: of the first one, and how many there are
  word gpu_name, gpu_driver, gpu_slowed_by;
  value gpus, gpu_gib, gpu_limit_w, gpu_multiprocessors, gpu_pcie_lanes, gpu_pcie_gt_s, gpu_sm_mhz,
      gpu_memory_mhz, gpu_temperature_c;

  // io: the disk under a folder, and the network
  word disk_kind, disk_model, file_system;
  value disk_gb, disk_queue, nic_gbit_s, rdma_devices;

  // probe: measured (gpu/predict/probes.hpp)
  value probe_threads, all_core_mhz, triad_one_gb_s, triad_gb_s, fma_gflop_s, fma_bf16_gflop_s,
      chase_ns, gemm_gflop_s, gemm_bf16_gflop_s, adamw_mparam_s, disk_read_gb_s, disk_write_gb_s,
      gpu_gemm_tflop_s, gpu_copy_gb_s, gpu_adamw_mparam_s, gpu_h2d_gb_s, gpu_d2h_gb_s;

  // workload: what is to run on it; of a configuration
  word compute_type;
  value parameters, layers, hidden, seq_len, micro_batch, tokens_per_step, data_ranks,
      pipeline_stages;

  bool operator==(const hw_profile&) const = default;
};

/// One of them; exactly one of `number` and `text` is there.
struct hw_field {
  std::string_view name, group, unit;
  feature_kind kind;
  std::string_view what;  ///< a few words for people
  hw_profile::value hw_profile::*number = nullptr;
  hw_profile::word hw_profile::*text = nullptr;
};

/// All of them, group by group.
std::span<const hw_field> hw_fields();

/// Whether a field can have that number (HWP-2), and which it can, in words.
bool is_hw_number(const hw_field& field, double value);
std::string_view expected_of(const hw_field& field);

/// Leaves out what HWP-2 does not allow, and words that makers put where nothing was entered.
void drop_impossible(hw_profile& profile);

/// As a cell of a table; empty: absent.
std::string hw_cell(const hw_profile& profile, const hw_field& field);

/// {"cpu": {"cpus": 8, ...}, ...}: what is there, by group.
nlohmann::ordered_json hw_json(const hw_profile& profile);

/// Text that holds no machine's profile: whose it is, and why.
inline constexpr error_kind<std::string_view, std::string_view> not_hw_profile{
    "not_hw_profile", errc::bad_data, "{}: {}",
    "name a file that `troupe predict probe --json` or `troupe predict probe -o` has made"};

/// Back from the same; fields that are not known here are left out. `name`: what errors call it.
/// Errors: not_hw_profile, also for what HWP-2 does not allow.
result<hw_profile> hw_of_json(const nlohmann::json& groups, const std::string& name);

}  // namespace troupe::io::perf
