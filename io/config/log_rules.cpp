// The default rules for lines of logs, and what is wrong with a configuration's own.
//
// Lines as kernels 5.10 to 6.12, NVIDIA's driver and NCCL write them; docs/health.md has the table.
#include <algorithm>
#include <set>
#include <string>

#include <fmt/format.h>

#include "io/base/printable.hpp"
#include "io/base/text.hpp"
#include "io/config/builder.hpp"
#include "io/logs/line_patterns.hpp"

namespace troupe::config {

const std::vector<log_rule_spec>& default_log_rules() {
  using health::finding_name;
  static const std::vector<log_rule_spec> all{
      {"gpu_off_the_bus", R"(NVRM: (Xid \([^)]*\): 79,|.*GPU has fallen off the bus))",
       finding_name::lost_device},
      {"gpu_xid", R"(NVRM: Xid \(|SXid \()"},
      {"out_of_memory", R"([Oo]ut of memory: Kill(ed)? process [0-9]+)",
       finding_name::memory_pressure},
      // By device: a floppy or an optical drive without a disk says so at each look.
      {"disk_error",
       R"((I/O|critical [a-z]+) error,? (on )?dev (sd|hd|vd|xvd|nvme|dm-|md|mmcblk|nbd|rbd))",
       finding_name::disk_failing},
      {"file_system_error",
       R"(EXT4-fs error|EXT4-fs \(.*Remounting filesystem read-only|Aborting journal on device|)"
       R"(XFS \([^)]*\): .*([Cc]orruption|I/O [Ee]rror)|BTRFS:? error)",
       finding_name::disk_failing},
      {"nvme_timeout",
       R"(nvme nvme[0-9]+: (I/O .*timeout|controller is down|Device not ready|Removing after))",
       finding_name::disk_failing},
      {"hardware_error", R"(\[Hardware Error\]|[Mm]achine [Cc]heck|EDAC MC[0-9]+: [0-9]+ UE )"},
      {"pcie_error", R"(PCIe Bus Error: severity=Uncorrect|AER: Uncorrect)"},
      {"kernel_stuck", R"(soft lockup - CPU#|hard LOCKUP on cpu|detected stalls on CPUs|)"
                       R"(INFO: task .* blocked for more than [0-9]+ seconds)"},
      {"network_stuck", R"(NETDEV WATCHDOG: )"},
      {"link_down", R"(Link is [Dd]own|link is down|: Link down|link status definitely down)"},
      {"nccl_warning", R"(NCCL WARN )"},
      {"cuda_error", R"(CUDA error|Cuda failure|CUDA_ERROR_[A-Z]+)"},
  };
  return all;
}

namespace detail {

namespace {

constexpr size_t name_bytes = 24;

/// Those of our own are as they are: a job is read many times.
bool is_default(const log_rule_spec& spec) {
  const auto& all = default_log_rules();
  return std::find(all.begin(), all.end(), spec) != all.end();
}

void check_names(builder& b) {
  std::set<std::string> names;
  for (const auto& [spec, at, match_at] : b.log_rules()) {
    if (spec.name.empty() && b.at_fault("health.log_rule.name")) continue;  // it has none: said
    if (!is_name(spec.name) || spec.name.size() > name_bytes)
      b.complain(
          at, "health.log_rule.name",
          fmt::format("{}, at most {}, got {}", name_rule, name_bytes, troupe::quoted(spec.name)));
    else if (!names.insert(spec.name).second)
      b.complain(at, "health.log_rule.name",
                 fmt::format("duplicate name {}", troupe::quoted(spec.name)));
  }
}

/// Each by itself, then all of them, the default ones among them, together.
void check_matches(builder& b) {
  bool own = false;
  for (const auto& [spec, at, match_at] : b.log_rules()) {
    if (spec.match.empty() || is_default(spec)) continue;
    own = true;
    if (const auto fault = io::line_patterns::check(spec.match); !fault)
      b.complain(match_at, "health.log_rule.match", printable(fault.error().message),
                 fault.error().hint);
  }
  if (!own || b.at_fault("health.log_rule.match")) return;
  std::vector<std::string> all;
  for (const auto& spec : b.target().health.log_rule)
    if (!spec.match.empty()) all.push_back(spec.match);
  if (const auto made = io::line_patterns::make(all); !made)
    b.complain(b.log_rules().front().at, "health.log_rule", made.error().message,
               made.error().hint);
}

}  // namespace

void check_log_rules(builder& b) {
  if (b.log_rules().empty()) return;
  check_names(b);
  const auto all = b.target().health.log_rule.size();
  if (all > most_log_rules)
    b.complain(
        b.log_rules().front().at, "health.log_rule",
        fmt::format("{} rules with the defaults, at most {} are looked for", all, most_log_rules));
  else
    check_matches(b);
}

}  // namespace detail

}  // namespace troupe::config
