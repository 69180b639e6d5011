// The list of fields, and what is made of it.
#include "io/perf/hw_profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/formats/json_text.hpp"
#include "io/perf/csv.hpp"

namespace troupe::io::perf {

namespace {

using hw = hw_profile;

constexpr hw_field hw_word(std::string_view group, std::string_view name, std::string_view what,
                           hw::word hw::*text) {
  return {name, group, "1", feature_kind::category, what, nullptr, text};
}
/// Counts that may well be 0.
constexpr hw_field hw_count(std::string_view group, std::string_view name, std::string_view what,
                            hw::value hw::*number) {
  return {name, group, "1", feature_kind::number, what, number, nullptr};
}
/// What machines differ in by factors.
constexpr hw_field hw_scale(std::string_view group, std::string_view name, std::string_view unit,
                            std::string_view what, hw::value hw::*number) {
  return {name, group, unit, feature_kind::log_number, what, number, nullptr};
}

constexpr std::array every_hw_field{
    hw_word("cpu", "cpu_model", "processor", &hw::cpu_model),
    hw_word("cpu", "cpu_vendor", "its maker", &hw::cpu_vendor),
    hw_word("cpu", "cpu_family", "its family", &hw::cpu_family),
    hw_word("cpu", "cpu_number", "its model number", &hw::cpu_number),
    hw_word("cpu", "cpu_stepping", "its stepping", &hw::cpu_stepping),
    hw_word("cpu", "cpu_microcode", "its microcode", &hw::cpu_microcode),
    hw_word("cpu", "cpu_isa", "its richest instruction set that kernels use", &hw::cpu_isa),
    hw_word("cpu", "cpu_flags", "those that products can be made by", &hw::cpu_flags),
    hw_scale("cpu", "cpus", "1", "processors online", &hw::cpus),
    hw_scale("cpu", "usable_cpus", "1", "processors that this process may use", &hw::usable_cpus),
    hw_scale("cpu", "quota_cpus", "1", "processor time that its group may use", &hw::quota_cpus),
    hw_scale("cpu", "fast_cpus", "1", "of two kinds: processors of the faster", &hw::fast_cpus),
    hw_scale("cpu", "slow_cpus", "1", "of two kinds: processors of the slower", &hw::slow_cpus),
    hw_scale("cpu", "cores", "1", "cores online", &hw::cores),
    hw_scale("cpu", "sockets", "1", "sockets", &hw::sockets),
    hw_scale("cpu", "numa_nodes", "1", "NUMA nodes with processors", &hw::numa_nodes),
    hw_scale("cpu", "nodes_per_socket", "1", "more than 1 where a socket is divided (SNC, NPS)",
             &hw::nodes_per_socket),
    hw_scale("cpu", "threads_per_core", "1", "threads of a core, at most", &hw::threads_per_core),
    hw_scale("cpu", "cores_per_socket", "1", "cores of a socket, on average",
             &hw::cores_per_socket),
    hw_scale("cpu", "base_mhz", "MHz", "base clock", &hw::base_mhz),
    hw_scale("cpu", "max_mhz", "MHz", "highest clock of any processor", &hw::max_mhz),
    hw_scale("cpu", "l1d_kib", "KiB", "level 1 data cache, each", &hw::l1d_kib),
    hw_scale("cpu", "l1i_kib", "KiB", "level 1 instruction cache, each", &hw::l1i_kib),
    hw_scale("cpu", "l2_kib", "KiB", "level 2 cache, each", &hw::l2_kib),
    hw_scale("cpu", "l3_kib", "KiB", "level 3 cache, each", &hw::l3_kib),
    hw_scale("cpu", "l3_cpus", "1", "processors that share a level 3 cache", &hw::l3_cpus),
    hw_scale("cpu", "tdp_w", "W", "power limit of a package", &hw::tdp_w),
    hw_scale("memory", "mem_gib", "GiB", "memory", &hw::mem_gib),
    hw_scale("memory", "dimms", "1", "modules", &hw::dimms),
    hw_scale("memory", "dimm_gib", "GiB", "size of a module", &hw::dimm_gib),
    hw_scale("memory", "dimm_mt_s", "MT/s", "rate that modules run at", &hw::dimm_mt_s),
    hw_scale("memory", "dimm_ranks", "1", "ranks of a module", &hw::dimm_ranks),
    hw_scale("memory", "dimm_cas_ns", "ns", "column access of a module, by its own memory",
             &hw::dimm_cas_ns),
    hw_word("memory", "dimm_part", "part number of a module", &hw::dimm_part),
    hw_word("memory", "huge_page_mode", "transparent huge pages", &hw::huge_page_mode),
    hw_count("memory", "huge_pages", "huge pages set aside", &hw::huge_pages),
    hw_word("memory", "numa_balancing", "automatic NUMA balancing", &hw::numa_balancing),
    hw_word("system", "os", "operating system", &hw::os),
    hw_word("system", "kernel", "kernel", &hw::kernel),
    hw_word("system", "governor", "governor of clocks", &hw::governor),
    hw_count("system", "idle_states", "idle states of a processor", &hw::idle_states),
    hw_word("system", "virtual_machine", "whether it is one", &hw::virtual_machine),
    hw_word("system", "container", "the container around this process", &hw::container),
    hw_word("system", "machine_vendor", "the machine's maker", &hw::machine_vendor),
    hw_word("system", "machine_name", "its product name", &hw::machine_name),
    hw_word("gpu", "gpu_name", "GPU", &hw::gpu_name),
    hw_word("gpu", "gpu_driver", "its driver", &hw::gpu_driver),
    hw_count("gpu", "gpus", "GPUs", &hw::gpus),
    hw_scale("gpu", "gpu_gib", "GiB", "memory of a GPU", &hw::gpu_gib),
    hw_scale("gpu", "gpu_limit_w", "W", "power limit of a GPU", &hw::gpu_limit_w),
    hw_scale("gpu", "gpu_multiprocessors", "1", "multiprocessors of a GPU",
             &hw::gpu_multiprocessors),
    hw_scale("gpu", "gpu_pcie_lanes", "1", "PCIe lanes of a GPU", &hw::gpu_pcie_lanes),
    hw_scale("gpu", "gpu_pcie_gt_s", "GT/s", "PCIe rate of a GPU, at most", &hw::gpu_pcie_gt_s),
    hw_scale("gpu", "gpu_sm_mhz", "MHz", "clock of a GPU, as it was found", &hw::gpu_sm_mhz),
    hw_scale("gpu", "gpu_memory_mhz", "MHz", "clock of its memory, as it was found",
             &hw::gpu_memory_mhz),
    hw_scale("gpu", "gpu_temperature_c", "C", "temperature of a GPU, as it was found",
             &hw::gpu_temperature_c),
    hw_word("gpu", "gpu_slowed_by", "what held its clocks back; none: nothing", &hw::gpu_slowed_by),
    hw_word("io", "disk_kind", "kind of disk", &hw::disk_kind),
    hw_word("io", "disk_model", "disk", &hw::disk_model),
    hw_word("io", "file_system", "file system", &hw::file_system),
    hw_scale("io", "disk_gb", "GB", "size of the disk", &hw::disk_gb),
    hw_scale("io", "disk_queue", "1", "requests that its queue holds", &hw::disk_queue),
    hw_scale("io", "nic_gbit_s", "Gbit/s", "the quickest network card", &hw::nic_gbit_s),
    hw_count("io", "rdma_devices", "RDMA devices", &hw::rdma_devices),
    hw_scale("probe", "probe_threads", "1", "threads that measured", &hw::probe_threads),
    hw_scale("probe", "all_core_mhz", "MHz", "clock that the threads keep together",
             &hw::all_core_mhz),
    hw_scale("probe", "triad_one_gb_s", "GB/s", "triad, one thread", &hw::triad_one_gb_s),
    hw_scale("probe", "triad_gb_s", "GB/s", "triad, all threads", &hw::triad_gb_s),
    hw_scale("probe", "fma_gflop_s", "GFLOP/s", "float32 multiply-adds on registers",
             &hw::fma_gflop_s),
    hw_scale("probe", "fma_bf16_gflop_s", "GFLOP/s", "bfloat16 multiply-adds on registers",
             &hw::fma_bf16_gflop_s),
    hw_scale("probe", "chase_ns", "ns", "a load that waits for the last one", &hw::chase_ns),
    hw_scale("probe", "gemm_gflop_s", "GFLOP/s", "float32 matrix product", &hw::gemm_gflop_s),
    hw_scale("probe", "gemm_bf16_gflop_s", "GFLOP/s", "bfloat16 matrix product",
             &hw::gemm_bf16_gflop_s),
    hw_scale("probe", "adamw_mparam_s", "M/s", "parameters that AdamW updates",
             &hw::adamw_mparam_s),
    hw_scale("probe", "disk_read_gb_s", "GB/s", "disk, read", &hw::disk_read_gb_s),
    hw_scale("probe", "disk_write_gb_s", "GB/s", "disk, written durably", &hw::disk_write_gb_s),
    hw_scale("probe", "gpu_gemm_tflop_s", "TFLOP/s", "bfloat16 matrix product of a GPU",
             &hw::gpu_gemm_tflop_s),
    hw_scale("probe", "gpu_copy_gb_s", "GB/s", "memory of a GPU, read and written",
             &hw::gpu_copy_gb_s),
    hw_scale("probe", "gpu_adamw_mparam_s", "M/s", "parameters that AdamW updates on a GPU",
             &hw::gpu_adamw_mparam_s),
    hw_scale("probe", "gpu_h2d_gb_s", "GB/s", "host to GPU", &hw::gpu_h2d_gb_s),
    hw_scale("probe", "gpu_d2h_gb_s", "GB/s", "GPU to host", &hw::gpu_d2h_gb_s),
    hw_word("workload", "compute_type", "type that is computed in", &hw::compute_type),
    hw_scale("workload", "parameters", "1", "parameters of the model", &hw::parameters),
    hw_scale("workload", "layers", "1", "its layers", &hw::layers),
    hw_scale("workload", "hidden", "1", "its width", &hw::hidden),
    hw_scale("workload", "seq_len", "1", "tokens of a row", &hw::seq_len),
    hw_scale("workload", "micro_batch", "1", "rows of a micro-batch", &hw::micro_batch),
    hw_scale("workload", "tokens_per_step", "1", "tokens of a step", &hw::tokens_per_step),
    hw_scale("workload", "data_ranks", "1", "replicas", &hw::data_ranks),
    hw_scale("workload", "pipeline_stages", "1", "pipeline stages", &hw::pipeline_stages),
};

/// What firmware says where its maker entered nothing.
bool is_hw_placeholder(std::string_view text) {
  constexpr std::string_view none[] = {
      "To Be Filled By O.E.M.",
      "To be filled by O.E.M.",
      "Default string",
      "Not Specified",
      "Not Available",
      "System Product Name",
      "System manufacturer",
      "Unknown",
      "unknown",
      "NO DIMM",
  };
  return std::find(std::begin(none), std::end(none), text) != std::end(none);
}

}  // namespace

bool is_hw_number(const hw_field& field, double value) {
  return std::isfinite(value) && value >= 0 &&
         (value > 0 || field.kind != feature_kind::log_number);  // HWP-2
}

std::string_view expected_of(const hw_field& field) {
  return field.kind == feature_kind::log_number ? "above 0" : "of at least 0";
}

std::span<const hw_field> hw_fields() {
  return every_hw_field;
}

void drop_impossible(hw_profile& profile) {
  for (const auto& f : every_hw_field) {
    if (f.text != nullptr) {
      auto& word = profile.*f.text;
      if (!word) continue;
      word = shown(trimmed(*word));
      for (char& c : *word)
        if (static_cast<unsigned char>(c) >= 0x80) c = '?';  // of no known character set
      if (word->empty() || is_hw_placeholder(*word)) word.reset();
      continue;
    }
    auto& number = profile.*f.number;
    if (number && !is_hw_number(f, *number)) number.reset();
  }
}

std::string hw_cell(const hw_profile& profile, const hw_field& field) {
  if (field.text != nullptr) return (profile.*field.text).value_or("");
  const auto& number = profile.*field.number;
  return number ? fmt::format("{}", *number) : std::string();
}

nlohmann::ordered_json hw_json(const hw_profile& profile) {
  auto out = nlohmann::ordered_json::object();
  for (const auto& f : every_hw_field) {
    auto& group = out[std::string(f.group)];
    if (group.is_null()) group = nlohmann::ordered_json::object();
    if (f.text != nullptr && profile.*f.text) group[std::string(f.name)] = *(profile.*f.text);
    if (f.number != nullptr && profile.*f.number) group[std::string(f.name)] = *(profile.*f.number);
  }
  return out;
}

result<hw_profile> hw_of_json(const nlohmann::json& groups, const std::string& name) {
  if (!groups.is_object()) return not_hw_profile(name, "a profile is an object with its groups");
  hw_profile out;
  bool any = false;
  for (const auto& f : every_hw_field) {
    const auto group = groups.find(std::string(f.group));
    if (group == groups.end() || !group->is_object()) continue;
    const auto value = group->find(std::string(f.name));
    if (value == group->end()) continue;
    any = true;
    if (f.text != nullptr) {
      if (!value->is_string()) return not_hw_profile(name, fmt::format("{} is no text", f.name));
      out.*f.text = value->get<std::string>();
      continue;
    }
    if (!value->is_number() || !is_hw_number(f, value->get<double>()))
      return not_hw_profile(name, fmt::format("invalid {} {}, expected a number {}", f.name,
                                              value->dump(), expected_of(f)));
    out.*f.number = value->get<double>();
  }
  if (!any) return not_hw_profile(name, "no field of a machine is in it");
  drop_impossible(out);
  return out;
}

}  // namespace troupe::io::perf
