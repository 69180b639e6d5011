// [[health.log_rule]]: the defaults and what they find, what a configuration adds, replaces and
// switches off, and what is refused.
#include <algorithm>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/config/load.hpp"
#include "io/config/show.hpp"
#include "io/logs/line_patterns.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::config;
using health::finding_name;

namespace {

const std::string bare = "[model]\nlayers = 4\nheads = 4\nhidden = 64\n[data]\npath = \"text\"\n";

result<job> with_log_rules(const std::string& text) {
  return parse(bare + text, "job.toml");
}

/// The default rule that a line fits, or "".
std::string rule_of(const std::string& line) {
  static const auto all = [] {
    std::vector<std::string> out;
    for (const auto& r : default_log_rules()) out.push_back(r.match);
    auto made = io::line_patterns::make(out);
    REQUIRE(made);
    return std::move(*made);
  }();
  const auto at = all.first_fit(line);
  return at ? default_log_rules()[*at].name : "";
}

}  // namespace

TEST_CASE("log rules: without one the defaults hold, and they are shown") {
  const auto got = with_log_rules("");
  REQUIRE(got);
  CHECK(got->health.log_rule == default_log_rules());
  CHECK(with_log_rules("[health]\nlog_rule = []\n")->health.log_rule == default_log_rules());
  const auto shown = to_toml(*got);
  CHECK(shown.find("[[health.log_rule]]\nname = \"gpu_off_the_bus\"\n") != std::string::npos);
  CHECK(parse(shown, "again")->health == got->health);  // J-4
}

TEST_CASE("J-7: log rules: one's own come first, and take the place of a default of their name") {
  const auto got = with_log_rules(
      "[[health.log_rule]]\nname = 'fans'\nmatch = 'fan \\d+ failed'\nfinding = 'device_hot'\n"
      "[[health.log_rule]]\nname = 'gpu_xid'\nmatch = ''\n");
  REQUIRE_MESSAGE(got, (got ? "" : render(got.error())));
  const auto& rules = got->health.log_rule;
  REQUIRE(rules.size() == default_log_rules().size() + 1);
  CHECK(rules[0] == log_rule_spec{"fans", "fan \\d+ failed", finding_name::device_hot});
  CHECK(rules[1] == log_rule_spec{"gpu_xid", "", finding_name::log_rule});
  CHECK(std::count_if(rules.begin(), rules.end(), [](auto& r) { return r.name == "gpu_xid"; }) ==
        1);
  CHECK(parse(to_toml(*got), "again")->health == got->health);  // J-4
}

TEST_CASE("log rules: what is wrong with one is said with its place") {
  struct wrong {
    std::string text, place, what;
  };
  const std::string rule = "[[health.log_rule]]\n";
  const std::string named = rule + "name = 'a'\n";
  std::string many, hard;
  for (size_t i = 0; i < most_log_rules; ++i)
    many += fmt::format("{}name = 'a{}'\nmatch = 'a'\n", rule, i);
  for (int i = 0; i < 30; ++i)
    hard += fmt::format("{}name = 'a{}'\nmatch = '[a-z]{{300}}'\n", rule, i);
  for (const auto& w : {
           wrong{named + "match = 'fan ('\n", "job.toml:9:9", "missing ): fan ("},
           wrong{named + "match = '(?=a)'\n", "job.toml:9:9", "invalid perl operator: (?="},
           wrong{named + "match = '" + std::string(513, 'a') + "'\n", "job.toml:9:9", "513"},
           wrong{named + "match = 'a'\nfinding = 'disk_failin'\n", "job.toml:10:11",
                 "did you mean \"disk_failing\"?"},
           wrong{named + "match = 'a'\nfindin = 'disk_failing'\n", "job.toml:10:1",
                 "did you mean health.log_rule.finding?"},
           wrong{named, "job.toml:7:1", "needs a match"},
           wrong{rule + "match = 'a'\n", "job.toml:7:1", "needs a name"},
           wrong{rule + "name = 'a b'\nmatch = 'a'\n", "job.toml:7:1", "\"a b\""},
           wrong{rule + "name = '" + std::string(25, 'a') + "'\nmatch = 'a'\n", "job.toml:7:1",
                 "at most 24"},
           wrong{named + "match = 'a'\n" + named + "match = 'b'\n", "job.toml:10:1",
                 "duplicate name \"a\""},
           wrong{hard, "job.toml:7:1", "at most 8192"},
           wrong{"[health]\nlog_rule = 3\n", "job.toml:8:1", "expected [[health.log_rule]] tables"},
           wrong{many, "job.toml:7:1", "at most 64"},
       }) {
    CAPTURE(w.text);
    const auto got = with_log_rules(w.text);
    REQUIRE_FALSE(got);
    const auto said = render(got.error());
    CAPTURE(said);
    CHECK(said.find(w.place) != std::string::npos);
    CHECK(said.find(w.what) != std::string::npos);
  }
}

TEST_CASE("log rules: the defaults are expressions, plainly named, and find what they are for") {
  CHECK(default_log_rules().size() <= most_log_rules / 2);  // there is room for one's own
  for (const auto& r : default_log_rules())
    CHECK_MESSAGE(io::line_patterns::check(r.match), r.name);
  struct row {
    const char *line, *rule;
  };
  const row rows[] = {
      row{"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.",
          "gpu_off_the_bus"},
      row{"NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", "gpu_off_the_bus"},
      row{"NVRM: Xid (PCI:0000:3b:00): 31, pid=1, Ch 00000008, MMU Fault", "gpu_xid"},
      row{"NVRM: Xid (0000:03:00): 14, Channel 00000001", "gpu_xid"},
      row{"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal", "gpu_xid"},
      row{"Out of memory: Killed process 4711 (python3) total-vm:1kB", "out_of_memory"},
      row{"Memory cgroup out of memory: Killed process 4711 (python3)", "out_of_memory"},
      row{"Out of memory: Kill process 4711 (x) score 900 or sacrifice child", "out_of_memory"},
      row{"blk_update_request: I/O error, dev sda, sector 8 op 0x0:(READ)", "disk_error"},
      row{"I/O error, dev nvme0n1, sector 8 op 0x1:(WRITE) flags 0x800", "disk_error"},
      row{"critical medium error, dev sdb, sector 8 op 0x0:(READ)", "disk_error"},
      row{"Buffer I/O error on dev dm-3, logical block 0, async page read", "disk_error"},
      row{"blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ)", ""},
      row{"EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2", "file_system_error"},
      row{"EXT4-fs (sda1): Remounting filesystem read-only", "file_system_error"},
      row{"EXT4-fs (sda1): mounted filesystem with ordered data mode", ""},
      row{"XFS (dm-0): Metadata corruption detected at xfs_agf_read_verify", "file_system_error"},
      row{"XFS (sda1): Corruption detected. Unmount and run xfs_repair", "file_system_error"},
      row{"XFS (sdb1): metadata I/O error in \"xfs_trans_read\" at daddr 0x8", "file_system_error"},
      row{"XFS (sdb1): Mounting V5 Filesystem", ""},
      row{"BTRFS error (device sda1): bdev /dev/sda1 errs: wr 1", "file_system_error"},
      row{"nvme nvme0: I/O 123 QID 4 timeout, aborting", "nvme_timeout"},
      row{"nvme nvme0: I/O tag 641 (c281) opcode 0x1 (I/O Cmd) QID 8 timeout, reset",
          "nvme_timeout"},
      row{"nvme nvme0: controller is down; will reset: CSTS=0xffffffff", "nvme_timeout"},
      row{"nvme nvme0: 8/0/0 default/read/poll queues", ""},
      row{"mce: [Hardware Error]: CPU 2: Machine Check: 0 Bank 4", "hardware_error"},
      row{"{1}[Hardware Error]: Hardware error from APEI Generic", "hardware_error"},
      row{"EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "hardware_error"},
      row{"EDAC MC0: 1 CE memory read error on CPU_SrcID#0", ""},
      row{"pcieport 0000:00:1c.0: PCIe Bus Error: severity=Uncorrected (Fatal)", "pcie_error"},
      row{"pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Data Link", ""},
      row{"watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:1]", "kernel_stuck"},
      row{"INFO: task jbd2/sda1-8:99 blocked for more than 120 seconds.", "kernel_stuck"},
      row{"NETDEV WATCHDOG: eth0 (e1000e): transmit queue 0 timed out", "network_stuck"},
      row{"e1000e 0000:00:1f.6 eno1: NIC Link is Down", "link_down"},
      row{"mlx5_core 0000:17:00.0 eth2: Link down", "link_down"},
      row{"bond0: (slave eth0): link status definitely down, disabling slave", "link_down"},
      row{"ata1: SATA link down (SStatus 0 SControl 300)", ""},
      row{"host:1:2 [0] misc/socket.cc:483 NCCL WARN socketProgress: closed", "nccl_warning"},
      row{"host:1:2 [0] NCCL INFO Bootstrap : Using eth0", ""},
      row{"RuntimeError: CUDA error: an illegal memory access was encountered", "cuda_error"},
      row{"step 3/10 | loss 2.1", ""},
  };
  for (const auto& [line, rule] : rows) {
    CAPTURE(line);
    CHECK(rule_of(line) == rule);
  }
}
