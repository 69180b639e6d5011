// The kernel's files, group by group.
#include "io/perf/hw_reader.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "io/machine/available_memory.hpp"
#include "io/machine/kernel_counters.hpp"
#include "io/machine/processor_name.hpp"
#include "io/perf/csv.hpp"
#include "io/perf/dimms.hpp"

namespace troupe::io::perf {

namespace fs = std::filesystem;

namespace {

constexpr double hw_gib = 1024.0 * 1024 * 1024;
constexpr std::string_view processors = "sys/devices/system/cpu";

/// The files under a root.
class hw_tree {
 public:
  explicit hw_tree(fs::path root) : root_(std::move(root)) {}

  std::string text(const fs::path& path) const { return kernel_text((root_ / path).string()); }
  hw_profile::word word(const fs::path& path) const {
    const auto all = text(path);
    const auto one = trimmed(all);
    return one.empty() ? std::nullopt : hw_profile::word(one);
  }
  /// A file's number, times `unit`.
  hw_profile::value number(const fs::path& path, double unit = 1) const {
    const auto all = text(path);
    const auto n = number_in(all);
    return n ? hw_profile::value(*n * unit) : std::nullopt;
  }
  /// How many the list in a file has; nothing where it has none.
  hw_profile::value listed(const fs::path& path) const {
    const auto count = numbers_in_list(text(path)).size();
    return count > 0 ? hw_profile::value(static_cast<double>(count)) : std::nullopt;
  }
  bool has(const fs::path& path) const {
    std::error_code fault;
    return fs::exists(root_ / path, fault);
  }
  /// The names in a folder, in their order.
  std::vector<std::string> names(const fs::path& path) const {
    std::vector<std::string> out;
    std::error_code fault;
    for (auto at = fs::directory_iterator(root_ / path, fault);
         !fault && at != fs::directory_iterator(); at.increment(fault))
      out.push_back(at->path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  /// The name of what a link leads to; empty: nothing.
  std::string target(const fs::path& path) const {
    std::error_code fault;
    const auto real = fs::canonical(root_ / path, fault);
    return fault ? std::string() : real.filename().string();
  }

 private:
  fs::path root_;
};

/// What stands behind "KEY<blanks>:" or "KEY=" at a line's begin, of the first such line.
hw_profile::word value_behind(std::string_view text, std::string_view key, char sign) {
  for (size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto line = text.substr(at, end - at);
    const auto sign_at = line.find(sign);
    if (sign_at != line.npos && trimmed(line.substr(0, sign_at)) == key) {
      auto value = trimmed(line.substr(sign_at + 1));
      if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
        value = value.substr(1, value.size() - 2);
      return value.empty() ? std::nullopt : hw_profile::word(value);
    }
    at = end + 1;
  }
  return std::nullopt;
}

bool has_word(std::string_view words, std::string_view wanted) {
  for (size_t at = words.find(wanted); at != words.npos; at = words.find(wanted, at + 1)) {
    const auto end = at + wanted.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' '))
      return true;
  }
  return false;
}

/// The first of those that kernels are compiled for, and of ARM's, that the processor has.
hw_profile::word isa_of(std::string_view flags) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> richest{{
      {"amx_bf16", "amx_bf16"},
      {"avx512_bf16", "avx512_bf16"},
      {"avx512f", "avx512"},
      {"avx2", "avx2"},
      {"sve2", "sve2"},
      {"sve", "sve"},
      {"asimd", "asimd"},
  }};
  for (const auto& [flag, name] : richest)
    if (has_word(flags, flag)) return std::string(name);
  return std::nullopt;
}

/// All flags by which products get quicker that the processor has, in one order.
hw_profile::word product_flags_of(std::string_view flags) {
  constexpr std::string_view of_products[] = {
      "f16c",        "fma",         "avx2",     "avx_vnni", "avx512f",  "avx512_vnni",
      "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16", "amx_fp16", "asimd",
      "asimddp",     "i8mm",        "bf16",     "sve",      "sve2",     "svebf16"};
  std::string out;
  for (const auto flag : of_products)
    if (has_word(flags, flag)) out += fmt::format("{}{}", out.empty() ? "" : " ", flag);
  return out.empty() ? std::nullopt : hw_profile::word(out);
}

void read_names(const hw_tree& tree, hw_profile& out) {
  const auto text = tree.text("proc/cpuinfo");
  const auto of = [&](std::string_view key) { return value_behind(text, key, ':'); };
  const auto board = tree.text("sys/firmware/devicetree/base/model");
  if (auto name = io::processor_name_of(text, board); !name.empty()) out.cpu_model = name;
  out.cpu_vendor = of("vendor_id");
  out.cpu_family = of("cpu family");
  out.cpu_number = of("model");
  out.cpu_stepping = of("stepping");
  out.cpu_microcode = of("microcode");
  const auto flags = of("flags");
  if (flags) {  // x86's say whether there is somebody below
    out.cpu_isa = isa_of(*flags);
    out.cpu_flags = product_flags_of(*flags);
    out.virtual_machine = has_word(*flags, "hypervisor") ? "yes" : "no";
  } else if (const auto features = of("Features")) {
    out.cpu_isa = isa_of(*features);
    out.cpu_flags = product_flags_of(*features);
  }
}

hw_profile::value quota_of(const hw_tree& tree) {
  return least_cpu_quota(tree.text("proc/self/cgroup"), [&](const fs::path& file) {
    return tree.text(fs::path("sys/fs/cgroup") / file);
  });
}

/// Processors of two kinds: of Intel's by their units, of others' by their capacity.
void read_kinds(const hw_tree& tree, const std::vector<int>& online, hw_profile& out) {
  out.fast_cpus = tree.listed("sys/devices/cpu_core/cpus");
  out.slow_cpus = tree.listed("sys/devices/cpu_atom/cpus");
  if (out.fast_cpus && out.slow_cpus) return;
  out.fast_cpus = out.slow_cpus = std::nullopt;
  std::map<double, int> of_capacity;
  for (const int cpu : online)
    if (const auto n = tree.number(fmt::format("{}/cpu{}/cpu_capacity", processors, cpu)))
      ++of_capacity[*n];
  if (of_capacity.size() < 2) return;
  out.fast_cpus = of_capacity.rbegin()->second;
  out.slow_cpus = static_cast<double>(online.size()) - *out.fast_cpus;
}

void read_topology(const hw_tree& tree, hw_profile& out) {
  const auto online = numbers_in_list(tree.text(fs::path(processors) / "online"));
  if (!online.empty()) out.cpus = static_cast<double>(online.size());
  std::set<std::string> siblings, packages;
  for (const int cpu : online) {
    const auto folder = fs::path(fmt::format("{}/cpu{}", processors, cpu));
    const auto topology = folder / "topology";
    auto with = tree.word(topology / "core_cpus_list");
    if (!with) with = tree.word(topology / "thread_siblings_list");
    const auto threads = with ? numbers_in_list(*with).size() : 0;
    if (threads > 0) {
      siblings.insert(*with);
      out.threads_per_core =
          std::max(out.threads_per_core.value_or(0), static_cast<double>(threads));
    }
    const auto package = tree.number(topology / "physical_package_id");
    if (package && *package >= 0) packages.insert(fmt::format("{}", *package));
    if (const auto mhz = tree.number(folder / "cpufreq/cpuinfo_max_freq", 1e-3))
      out.max_mhz = std::max(out.max_mhz.value_or(0), *mhz);
  }
  if (!siblings.empty()) out.cores = static_cast<double>(siblings.size());
  if (!packages.empty()) out.sockets = static_cast<double>(packages.size());
  if (out.cores && out.sockets) out.cores_per_socket = *out.cores / *out.sockets;
  read_kinds(tree, online, out);
}

/// "32K", "1M": in KiB.
hw_profile::value kib_in(std::string_view text) {
  const auto line = trimmed(text);
  if (line.empty()) return std::nullopt;
  const double unit = line.back() == 'M' ? 1024 : 1;
  const bool has_unit = line.back() == 'M' || line.back() == 'K';
  const auto n = has_unit ? number_in(line.substr(0, line.size() - 1)) : std::nullopt;
  return n ? hw_profile::value(*n * unit) : std::nullopt;
}

void read_caches(const hw_tree& tree, hw_profile& out) {
  const auto caches = fs::path(processors) / "cpu0/cache";
  for (const auto& name : tree.names(caches)) {
    if (!name.starts_with("index")) continue;
    const auto one = caches / name;
    const auto level = tree.word(one / "level").value_or("");
    const auto type = tree.word(one / "type").value_or("");
    const auto kib = kib_in(tree.text(one / "size"));
    if (level == "1") (type == "Instruction" ? out.l1i_kib : out.l1d_kib) = kib;
    if (level == "2") out.l2_kib = kib;
    if (level == "3") {
      out.l3_kib = kib;
      out.l3_cpus = tree.listed(one / "shared_cpu_list");
    }
  }
}

void read_processors(const hw_tree& tree, hw_profile& out) {
  read_names(tree, out);
  read_topology(tree, out);
  read_caches(tree, out);
  const auto status = tree.text("proc/self/status");
  if (const auto list = value_behind(status, "Cpus_allowed_list", ':'))
    out.usable_cpus = static_cast<double>(numbers_in_list(*list).size());
  out.quota_cpus = quota_of(tree);
  out.numa_nodes = tree.listed("sys/devices/system/node/has_cpu");
  if (out.numa_nodes && out.sockets) out.nodes_per_socket = *out.numa_nodes / *out.sockets;
  const auto first = fs::path(processors) / "cpu0";
  out.base_mhz = tree.number(first / "cpufreq/base_frequency", 1e-3);
  out.governor = tree.word(first / "cpufreq/scaling_governor");
  const auto states = tree.names(first / "cpuidle");
  const auto count = std::count_if(states.begin(), states.end(),
                                   [](const auto& name) { return name.starts_with("state"); });
  if (count > 0) out.idle_states = static_cast<double>(count);
  out.tdp_w = tree.number("sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw", 1e-6);
}

/// Sizes that the kernel's error detection knows, in MiB, where the firmware's table is root's.
void read_checked_dimms(const hw_tree& tree, hw_profile& out) {
  const fs::path controllers = "sys/devices/system/edac/mc";
  double count = 0;
  for (const auto& mc : tree.names(controllers)) {
    if (!mc.starts_with("mc")) continue;
    for (const auto& name : tree.names(controllers / mc)) {
      if (!name.starts_with("dimm")) continue;
      const auto gib = tree.number(controllers / mc / name / "size", 1.0 / 1024);
      if (!gib || *gib <= 0) continue;
      ++count;
      out.dimm_gib = gib;
    }
  }
  if (count > 0) out.dimms = count;
}

/// Of the first module whose own memory the kernel reads and anybody may look into: one driver has
/// those of DDR4, one of DDR5.
hw_profile::value cas_of(const hw_tree& tree) {
  for (const auto* driver : {"sys/bus/i2c/drivers/ee1004", "sys/bus/i2c/drivers/spd5118"})
    for (const auto& name : tree.names(driver))
      if (const auto ns = cas_ns_in(tree.text(fs::path(driver) / name / "eeprom"))) return ns;
  return std::nullopt;
}

void read_memory(const hw_tree& tree, hw_profile& out) {
  const auto text = tree.text("proc/meminfo");
  if (const auto total = parse_memory(text).total)
    out.mem_gib = static_cast<double>(*total) / hw_gib;
  if (const auto pages = value_behind(text, "HugePages_Total", ':'))
    out.huge_pages = number_in(*pages);
  const auto mode = tree.text("sys/kernel/mm/transparent_hugepage/enabled");
  const auto open = mode.find('['), close = mode.find(']');
  if (open != mode.npos && close != mode.npos && open < close)
    out.huge_page_mode = mode.substr(open + 1, close - open - 1);
  out.numa_balancing = tree.word("proc/sys/kernel/numa_balancing");
  out.dimm_cas_ns = cas_of(tree);
  const auto modules = dimms_in(tree.text("sys/firmware/dmi/tables/DMI"));
  if (modules.empty()) return read_checked_dimms(tree, out);
  out.dimms = static_cast<double>(modules.size());
  out.dimm_gib = modules.front().gib;
  out.dimm_mt_s = modules.front().mt_s;
  out.dimm_ranks = modules.front().ranks;
  out.dimm_part = modules.front().part;
}

void read_system(const hw_tree& tree, hw_profile& out) {
  const auto release = tree.text("etc/os-release");
  if (const auto id = value_behind(release, "ID", '='))
    out.os = fmt::format("{} {}", *id, value_behind(release, "VERSION_ID", '=').value_or(""));
  out.kernel = tree.word("proc/sys/kernel/osrelease");
  out.machine_vendor = tree.word("sys/class/dmi/id/sys_vendor");
  out.machine_name = tree.word("sys/class/dmi/id/product_name");
  if (tree.has(".dockerenv")) out.container = "docker";
  if (tree.has("run/.containerenv")) out.container = "podman";
  if (const auto named = tree.word("run/systemd/container")) out.container = named;
}

/// How the first of NVIDIA's GPUs is connected.
void read_gpu_link(const hw_tree& tree, hw_profile& out) {
  const fs::path devices = "sys/bus/pci/devices";
  for (const auto& name : tree.names(devices)) {
    const auto one = devices / name;
    const auto what = tree.word(one / "class").value_or("");
    const bool computes = what.starts_with("0x0302") || what.starts_with("0x0300");
    if (!computes || tree.word(one / "vendor") != hw_profile::word("0x10de")) continue;
    out.gpu_pcie_lanes = tree.number(one / "current_link_width");
    const auto rate = tree.text(one / "max_link_speed");
    out.gpu_pcie_gt_s = number_in(std::string_view(rate).substr(0, rate.find(' ')));
    return;
  }
}

hw_profile::word file_system_of(std::string_view mounts, std::string_view device) {
  for (size_t at = 0; at < mounts.size();) {
    const auto end = std::min(mounts.find('\n', at), mounts.size());
    const auto line = mounts.substr(at, end - at);
    at = end + 1;
    const auto kind = line.find(" - ");
    if (kind == line.npos || !has_word(line.substr(0, kind), device)) continue;
    const auto rest = line.substr(kind + 3);
    return hw_profile::word(rest.substr(0, rest.find(' ')));
  }
  return std::nullopt;
}

void read_disk(const hw_tree& tree, const std::string& device, hw_profile& out) {
  if (device.empty()) return;
  out.file_system = file_system_of(tree.text("proc/self/mountinfo"), device);
  auto disk = fs::path("sys/dev/block") / device;
  if (!tree.has(disk / "queue")) disk /= "..";  // a partition's disk
  if (!tree.has(disk / "queue")) return;
  const auto name = tree.target(disk);
  const auto rotates = tree.word(disk / "queue/rotational");
  if (name.starts_with("nvme"))
    out.disk_kind = "nvme";
  else if (name.starts_with("vd") || name.starts_with("xvd"))
    out.disk_kind = "virtual";
  else if (rotates)
    out.disk_kind = *rotates == "1" ? "rotating" : "solid";
  out.disk_model = tree.word(disk / "device/model");
  constexpr double sector_gb = 512e-9;
  out.disk_gb = tree.number(disk / "size", sector_gb);
  out.disk_queue = tree.number(disk / "queue/nr_requests");
}

void read_network(const hw_tree& tree, hw_profile& out) {
  const fs::path cards = "sys/class/net";
  for (const auto& name : tree.names(cards)) {
    const auto gbit = tree.number(cards / name / "speed", 1e-3);  // -1: not known
    if (gbit && *gbit > 0) out.nic_gbit_s = std::max(out.nic_gbit_s.value_or(0), *gbit);
  }
  if (tree.has("sys/class/infiniband"))
    out.rdma_devices = static_cast<double>(tree.names("sys/class/infiniband").size());
}

}  // namespace

std::vector<int> numbers_in_list(std::string_view text) {
  constexpr size_t longer_than_any = 1 << 16;
  std::vector<int> out;
  const auto line = trimmed(text);
  for (size_t at = 0; at < line.size();) {
    const auto end = std::min(line.find(',', at), line.size());
    const auto part = line.substr(at, end - at);
    at = end + 1;
    const auto dash = part.find('-');
    const auto first = number_in(part.substr(0, dash));
    const auto last = dash == part.npos ? first : number_in(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= longer_than_any) return {};
    for (int i = static_cast<int>(*first); i <= static_cast<int>(*last); ++i) out.push_back(i);
    if (out.size() > longer_than_any) return {};
  }
  return out;
}

hw_profile read_hw_profile(const hw_source& source) {
  const hw_tree tree(source.root);
  hw_profile out;
  read_processors(tree, out);
  read_memory(tree, out);
  read_system(tree, out);
  read_gpu_link(tree, out);
  read_disk(tree, source.disk, out);
  read_network(tree, out);
  drop_impossible(out);
  return out;
}

std::string boot_id(const fs::path& root) {
  return hw_tree(root).word("proc/sys/kernel/random/boot_id").value_or("");
}

std::string device_under(const fs::path& folder) {
  struct stat of {};
  if (::stat(folder.c_str(), &of) != 0) return {};
  return fmt::format("{}:{}", major(of.st_dev), minor(of.st_dev));
}

}  // namespace troupe::io::perf
