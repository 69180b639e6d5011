// Profiles of machines: from trees of the kernel's files, as rows of a table, and kept.
#include <barrier>
#include <cctype>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/locked_file.hpp"
#include "io/perf/csv.hpp"
#include "io/perf/dimms.hpp"
#include "io/perf/hw_reader.hpp"
#include "io/perf/hw_rows.hpp"
#include "io/perf/kept_probes.hpp"
#include "io/perf/readers.hpp"
#include "tests/errors.hpp"
#include "tests/io/full_disk.hpp"
#include "tests/io/scratch.hpp"
#include "tests/io/tree.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::perf;

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours a_day{24};

/// A machine's files under a folder.
struct fake_machine {
  scratch dir;

  void put(const std::string& path, const std::string& text) const { put_file(dir / path, text); }
  void put_cpu(int cpu, int package, const std::string& siblings) const {
    const auto folder = fmt::format("sys/devices/system/cpu/cpu{}/topology/", cpu);
    put(folder + "core_cpus_list", siblings + "\n");
    put(folder + "physical_package_id", fmt::format("{}\n", package));
  }
  hw_profile read(const std::string& disk = "") const { return read_hw_profile({dir.path, disk}); }
};

/// As SMBIOS has them: a formatted area, and texts.
std::string dmi_structure(uint8_t type, std::string area, const std::string& texts) {
  area.insert(0, {static_cast<char>(type), static_cast<char>(area.size() + 4), 0, 0});
  return area + texts + std::string(texts.empty() ? 2 : 1, '\0');
}

/// Of type 17, to offset 22h.
std::string dimm_area(uint16_t size, uint32_t extended_mib, uint16_t mt_s, uint16_t configured) {
  std::string area(0x22 - 4, '\0');
  const auto put = [&](size_t at, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i)
      area[at - 4 + static_cast<size_t>(i)] = static_cast<char>(value >> (8 * i) & 0xff);
  };
  put(0x0c, size, 2);
  put(0x15, mt_s, 2);
  put(0x1a, 2, 1);  // the second text
  put(0x1b, 2, 1);
  put(0x1c, extended_mib, 4);
  put(0x20, configured, 2);
  return area;
}

const std::string dimm_texts = std::string("bank 0") + '\0' + "M393A8G40" + '\0';

hw_profile some_profile() {
  hw_profile out;
  out.cpu_model = "Some \"CPU\", 2 GHz";
  out.cpus = 8;
  out.mem_gib = 31.25;
  out.triad_gb_s = 40.5;
  return out;
}

}  // namespace

TEST_CASE("HWP-1 names end with their units, and no two fields have one name") {
  std::set<std::string_view> names;
  for (const auto& field : hw_fields()) {
    CAPTURE(field.name);
    CHECK(names.insert(field.name).second);
    CHECK((field.number == nullptr) != (field.text == nullptr));
    CHECK((field.kind == feature_kind::category) == (field.text != nullptr));
    if (field.unit == "1") continue;
    std::string end = "_";
    for (const char c : field.unit)
      if (c != '/') end += static_cast<char>(std::tolower(c));
    // "GB/s" ends a name as "gb_s", "M/s" of parameters as "mparam_s"
    const auto slash = field.unit.find('/');
    if (slash != field.unit.npos) end.insert(slash + 1, "_");
    if (field.unit == "M/s") end = "_mparam_s";
    CHECK(field.name.ends_with(end));
  }
}

TEST_CASE("HWP-2 a machine without a single file has no field, and no 0 in place of one") {
  const fake_machine machine;
  CHECK(machine.read("254:0") == hw_profile{});
  CHECK(boot_id(machine.dir.path).empty());
}

TEST_CASE("a bare virtual machine says what it is, and what it does not say is absent") {
  const fake_machine machine;
  machine.put("proc/cpuinfo",
              "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n"
              "model name\t: AMD EPYC\nstepping\t: 1\nmicrocode\t: 0xa101148\n"
              "flags\t\t: fpu avx avx2 hypervisor avx512f avx512_bf16\n\n");
  machine.put("proc/meminfo",
              "MemTotal:        8388608 kB\nMemAvailable: 4 kB\n"
              "HugePages_Total:       0\n");
  machine.put("proc/sys/kernel/osrelease", "6.1.0-40-amd64\n");
  machine.put("proc/sys/kernel/random/boot_id", "5c0d-11\n");
  machine.put("etc/os-release", "PRETTY_NAME=\"Debian 12\"\nVERSION_ID=\"12\"\nID=debian\n");
  machine.put("sys/devices/system/cpu/online", "0-1\n");
  machine.put_cpu(0, 0, "0");
  machine.put_cpu(1, 0, "1");
  machine.put("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
  machine.put("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n");
  machine.put("sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n");
  machine.put("sys/devices/system/cpu/cpu0/cache/index3/level", "3\n");
  machine.put("sys/devices/system/cpu/cpu0/cache/index3/size", "32M\n");
  machine.put("sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "0-1\n");
  const auto said = machine.read();
  hw_profile wanted;
  wanted.cpu_model = "AMD EPYC";
  wanted.cpu_vendor = "AuthenticAMD";
  wanted.cpu_family = "25";
  wanted.cpu_number = "17";
  wanted.cpu_stepping = "1";
  wanted.cpu_microcode = "0xa101148";
  wanted.cpu_isa = "avx512_bf16";
  wanted.cpu_flags = "avx2 avx512f avx512_bf16";
  wanted.virtual_machine = "yes";
  wanted.cpus = wanted.cores = wanted.cores_per_socket = wanted.l3_cpus = 2;
  wanted.sockets = wanted.threads_per_core = 1;
  wanted.l1d_kib = 32;
  wanted.l3_kib = 32 * 1024;
  wanted.mem_gib = 8;
  wanted.huge_pages = 0;  // there is that file: it is no absent one
  wanted.os = "debian 12";
  wanted.kernel = "6.1.0-40-amd64";
  CHECK(hw_json(said).dump(1) == hw_json(wanted).dump(1));
  CHECK(boot_id(machine.dir.path) == "5c0d-11");
}

TEST_CASE("a quota of control groups of version 1 is read as version 2's is") {
  const fake_machine machine;
  machine.put("proc/self/cgroup", "5:memory:/a\n3:cpu,cpuacct:/a.slice/b\n");
  machine.put("sys/fs/cgroup/cpu,cpuacct/a.slice/b/cpu.cfs_quota_us", "-1\n");
  machine.put("sys/fs/cgroup/cpu,cpuacct/a.slice/b/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(machine.read().quota_cpus);
  machine.put("sys/fs/cgroup/cpu,cpuacct/a.slice/cpu.cfs_quota_us", "125000\n");
  machine.put("sys/fs/cgroup/cpu,cpuacct/a.slice/cpu.cfs_period_us", "50000\n");
  CHECK(machine.read().quota_cpus == 2.5);
}

TEST_CASE("256 processors on two sockets, of which some are offline, are counted as they are") {
  const fake_machine machine;
  machine.put("sys/devices/system/cpu/online", "0-127,130-255\n");
  for (int cpu = 0; cpu < 256; ++cpu)
    machine.put_cpu(cpu, cpu % 128 / 64, fmt::format("{},{}", cpu % 128, cpu % 128 + 128));
  machine.put("sys/devices/system/cpu/cpu7/cpufreq/cpuinfo_max_freq", "3700000\n");
  machine.put("sys/devices/system/node/has_cpu", "0-7\n");
  machine.put("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-15,64\n");
  machine.put("proc/self/cgroup", "0::/a.slice/b\n");
  machine.put("sys/fs/cgroup/a.slice/b/cpu.max", "max 100000\n");
  machine.put("sys/fs/cgroup/a.slice/cpu.max", "250000 100000\n");
  const auto said = machine.read();
  CHECK(said.cpus == 254);
  CHECK(said.cores == 128);
  CHECK(said.sockets == 2);
  CHECK(said.cores_per_socket == 64);
  CHECK(said.threads_per_core == 2);
  CHECK(said.max_mhz == 3700);
  CHECK(said.numa_nodes == 8);
  CHECK(said.nodes_per_socket == 4);
  CHECK(said.usable_cpus == 17);
  CHECK(said.quota_cpus == 2.5);
  CHECK_FALSE(said.fast_cpus);
}

TEST_CASE("processors of two kinds are told apart, by their units or by their capacity") {
  const fake_machine intel;
  intel.put("sys/devices/cpu_core/cpus", "0-15\n");
  intel.put("sys/devices/cpu_atom/cpus", "16-23\n");
  CHECK(intel.read().fast_cpus == 16);
  CHECK(intel.read().slow_cpus == 8);
  const fake_machine arm;
  arm.put("sys/devices/system/cpu/online", "0-5");
  for (int cpu = 0; cpu < 6; ++cpu)
    arm.put(fmt::format("sys/devices/system/cpu/cpu{}/cpu_capacity", cpu),
            cpu < 4 ? "446\n" : "1024\n");
  CHECK(arm.read().fast_cpus == 2);
  CHECK(arm.read().slow_cpus == 4);
}

TEST_CASE("HWP-2 odd text of the kernel's files is absent, never a number") {
  const fake_machine machine;
  machine.put("proc/cpuinfo", "model name\t: \x01 CPU \xff\nflags");
  machine.put("proc/meminfo", "MemTotal: many kB\nHugePages_Total: -3\n");
  machine.put("sys/devices/system/cpu/online", "0-99999999\n");
  machine.put("sys/devices/system/cpu/cpu0/cpufreq/base_frequency", "0\n");
  machine.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "\n");
  machine.put("sys/class/net/eth0/speed", "-1\n");
  machine.put("sys/class/net/eth1/speed", "25000\n");
  machine.put("sys/class/dmi/id/product_name", "To Be Filled By O.E.M.\n");
  machine.put("sys/class/dmi/id/sys_vendor", "Somebody\n");
  machine.put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  hw_profile wanted;
  wanted.cpu_model = "? CPU ?";
  wanted.nic_gbit_s = 25;
  wanted.machine_vendor = "Somebody";
  wanted.huge_page_mode = "madvise";
  CHECK(hw_json(machine.read()).dump(1) == hw_json(wanted).dump(1));
}

TEST_CASE("numbers_in_list reads the kernel's lists and no other") {
  CHECK(numbers_in_list("0-2,8\n") == std::vector<int>{0, 1, 2, 8});
  CHECK(numbers_in_list("5") == std::vector<int>{5});
  for (const char* none : {"", "\n", "2-1", "-3", "a", "1,b", "0-65536", "1-"})
    CHECK(numbers_in_list(none).empty());
}

TEST_CASE("the disk under a folder is found through its partition, with its file system") {
  const fake_machine machine;
  machine.put("sys/block/nvme0n1/queue/rotational", "0\n");
  machine.put("sys/block/nvme0n1/queue/nr_requests", "1023\n");
  machine.put("sys/block/nvme0n1/device/model", "SOME SSD 1T   \n");
  machine.put("sys/block/nvme0n1/size", "2000000000\n");
  machine.put("sys/block/nvme0n1/nvme0n1p1/size", "1000\n");
  machine.put("sys/dev/block/README", "");
  fs::create_directory_symlink("../../block/nvme0n1/nvme0n1p1",
                               machine.dir / "sys/dev/block/259:1");
  machine.put("proc/self/mountinfo",
              "21 1 0:20 / /proc rw - proc proc rw\n"
              "22 1 259:1 / /data rw,noatime shared:1 - ext4 /dev/nvme0n1p1 rw\n");
  const auto said = machine.read("259:1");
  CHECK(said.disk_kind == "nvme");
  CHECK(said.disk_model == "SOME SSD 1T");
  CHECK(said.file_system == "ext4");
  CHECK(said.disk_queue == 1023);
  REQUIRE(said.disk_gb);
  CHECK(*said.disk_gb == doctest::Approx(1024));
  CHECK_FALSE(machine.read("0:20").disk_kind);
  CHECK(machine.read("0:20").file_system == "proc");
}

TEST_CASE("modules of the firmware's table are counted without empty slots") {
  const auto table = dmi_structure(0, "bios", std::string("maker") + '\0') +
                     dmi_structure(17, dimm_area(0x7fff, 65536, 5600, 4800), dimm_texts) +
                     dmi_structure(17, dimm_area(0, 0, 0, 0), "") +
                     dmi_structure(17, dimm_area(32, 0, 3200, 0), dimm_texts) +
                     dmi_structure(127, "", "");
  const auto modules = dimms_in(table);
  REQUIRE(modules.size() == 2);
  CHECK(modules[0].gib == 64);
  CHECK(modules[0].mt_s == 4800);
  CHECK(modules[0].ranks == 2);
  CHECK(modules[0].part == "M393A8G40");
  CHECK(modules[1].gib == 0.03125);
  CHECK(modules[1].mt_s == 3200);
  // Wherever it is cut, what is whole is read and nothing else.
  for (size_t size = 0; size < table.size(); ++size)
    CHECK(dimms_in(std::string_view(table).substr(0, size)).size() <= 2);
  const fake_machine machine;
  machine.put("sys/firmware/dmi/tables/DMI", table);
  CHECK(machine.read().dimms == 2);
  CHECK(machine.read().dimm_gib == 64);
}

TEST_CASE("a module's column access is what its own memory says, of DDR4 and of DDR5 alone") {
  std::string ddr4(512, '\0'), ddr5(1024, '\0');
  ddr4[2] = 0x0c;
  ddr4[24] = 0x6e;     // 13.75 ns
  ddr4[123] = '\x9c';  // less 100 ps
  CHECK(*cas_ns_in(ddr4) == doctest::Approx(13.65));
  ddr5[2] = 0x12;
  ddr5[30] = '\x80';
  ddr5[31] = 0x3e;
  CHECK(*cas_ns_in(ddr5) == doctest::Approx(16));
  CHECK_FALSE(cas_ns_in(ddr4.substr(0, 125)));
  CHECK_FALSE(cas_ns_in(ddr5.substr(0, 31)));
  CHECK_FALSE(cas_ns_in(""));
  ddr5[31] = '\xff';
  CHECK_FALSE(cas_ns_in(ddr5));
  ddr4[2] = 0x0b;  // DDR3
  CHECK_FALSE(cas_ns_in(ddr4));
  ddr4[2] = 0x0c;
  const fake_machine machine;
  machine.put("sys/bus/i2c/drivers/ee1004/module/version", "");
  machine.put("sys/bus/i2c/drivers/ee1004/0-0050/eeprom", ddr4);
  REQUIRE(machine.read().dimm_cas_ns);
  CHECK(*machine.read().dimm_cas_ns == doctest::Approx(13.65));
}

TEST_CASE("a machine's row is learned from and asked by in the form of a person's own fleet") {
  scratch dir;
  const auto file = dir / "fleet.csv";
  REQUIRE(add_hw_row(file, "node1", some_profile(), "tokens_per_s"));
  auto other = some_profile();
  other.cpus = 16;
  REQUIRE(add_hw_row(file, "node2", other, "tokens_per_s"));
  auto text = read_file(file, 1 << 20);
  REQUIRE(text);
  // A person enters a label, and the first machine is measured again.
  auto labelled = *text;
  labelled.insert(labelled.find('\n', labelled.find("node1")), "1500");
  put_file(file, labelled);
  other.cpus = 4;
  REQUIRE(add_hw_row(file, "node1", other, "tokens_per_s"));
  const auto table = read_dataset(dir.path, "fleet", [](std::string_view) { return true; });
  REQUIRE_MESSAGE(table, table.error().message);
  CHECK(table->features.size() == hw_fields().size());
  CHECK(table->outputs == std::vector<std::string>{"tokens_per_s"});
  REQUIRE(table->rows.size() == 2);
  const auto* first = table->find("node1");
  REQUIRE(first);
  CHECK(first->labels[0] == 1500);
  CHECK(first->cpu_model == "Some \"CPU\", 2 GHz");
  for (size_t i = 0; i < table->features.size(); ++i) {
    const auto& feature = table->features[i];
    if (feature.name == "cpus") CHECK(first->numbers[i] == 4);
    if (feature.name == "mem_gib") CHECK(first->numbers[i] == 31.25);
    if (feature.name == "l3_kib") CHECK(std::isnan(first->numbers[i]));
  }
  CHECK_FALSE(table->find("node2")->labelled());
}

TEST_CASE("a row is added to no table that is not one of machines, and the file stays") {
  scratch dir;
  put_file(dir / "other.csv", "a,b\n1,2\n");
  CHECK(is_error(add_hw_row(dir / "other.csv", "n", some_profile(), "y"), no_fleet));
  CHECK(tree_of(dir.path)["other.csv"] == "file a,b\n1,2\n");
  CHECK_FALSE(fs::exists(dir / "other.toml"));
  CHECK(add_hw_row(dir / "fleet.txt", "n", some_profile(), "y").error().code == errc::usage);
}

TEST_CASE("machines are read back from a table and from what `probe --json` says") {
  scratch dir;
  const auto file = dir / "fleet.csv";
  REQUIRE(add_hw_row(file, "node1", some_profile(), "tokens_per_s"));
  auto other = some_profile();
  other.gemm_gflop_s = 123.456789;
  REQUIRE(add_hw_row(file, "node2", other, "tokens_per_s"));
  const auto machines = read_hw_machines(file);
  REQUIRE_MESSAGE(machines, render(machines.error()));
  REQUIRE(machines->size() == 2);
  CHECK((*machines)[0].id == "node1");
  CHECK((*machines)[0].profile == some_profile());
  CHECK((*machines)[1].profile == other);
  for (const nlohmann::ordered_json& told :
       {nlohmann::ordered_json{{"profile", hw_json(other)}, {"kept", false}}, hw_json(other)}) {
    put_file(dir / "node3.json", told.dump());
    const auto one = read_hw_machines(dir / "node3.json");
    REQUIRE_MESSAGE(one, render(one.error()));
    REQUIRE(one->size() == 1);
    CHECK(one->front().id == "node3");
    CHECK(one->front().profile == other);
  }
}

TEST_CASE("HWP-2 of a file a number that cannot be ends the reading, with its place") {
  scratch dir;
  const auto csv_of = [&](const std::string& text) {
    put_file(dir / "m.csv", text);
    return read_hw_machines(dir / "m.csv");
  };
  CHECK(csv_of("row_id,cpus\nn,8\n"));
  CHECK(csv_of("row_id,cpus,what else\nn,,x\n"));
  CHECK(is_error(csv_of("row_id,cpus\nn,8\nm,many\n"), bad_csv, "3", "cpus", "many"));
  CHECK(is_error(csv_of("row_id,cpus\nn,0\n"), bad_csv, "2", "cpus"));
  CHECK(is_error(csv_of("name,cpus\nn,8\n"), no_fleet));
  CHECK(is_error(csv_of("row_id,cpus\n"), no_fleet));
  const auto json_of = [&](const std::string& text) {
    put_file(dir / "m.json", text);
    return read_hw_machines(dir / "m.json");
  };
  CHECK(json_of(R"({"profile":{"cpu":{"cpus":8,"of a later release":1}}})"));
  for (const auto* text :
       {"{", "[]", "{}", R"({"profile":[]})", R"({"profile":{"cpu":{"cpus":0}}})",
        R"({"profile":{"cpu":{"cpus":"8"}}})", R"({"profile":{"cpu":{"cpu_model":8}}})"}) {
    CAPTURE(text);
    CHECK(is_error(json_of(text), not_hw_profile));
  }
}

TEST_CASE("a table of anything else that has ids is not one of machines, and blanks are no id's") {
  scratch dir;
  put_file(dir / "people.csv", "row_id,age\nnode1,7\n");
  CHECK(is_error(add_hw_row(dir / "people.csv", "node1", some_profile(), "y"), no_fleet));
  CHECK(is_error(fleet_columns(dir / "people.csv"), no_fleet));
  CHECK(tree_of(dir.path)["people.csv"] == "file row_id,age\nnode1,7\n");
  CHECK(fleet_columns(dir / "people.txt").error().code == errc::usage);
  const auto file = dir / "fleet.csv";
  CHECK(fleet_columns(file)->empty());
  CHECK_FALSE(fs::exists(file));
  for (const char* id : {" node1", "node1\t", "node1"})
    REQUIRE(add_hw_row(file, id, some_profile(), "y"));
  const auto table = read_csv(file);
  REQUIRE(table);
  REQUIRE(table->rows.size() == 1);
  CHECK(table->rows[0].cells[0] == "node1");
  CHECK(*fleet_columns(file) == table->columns);
}

TEST_CASE("HWR-1 machines that add their rows at once lose none of them") {
  scratch dir;
  const auto file = dir / "fleet.csv";
  constexpr size_t machines = 8, times = 4;
  std::vector<status> outcomes(machines);
  std::vector<std::thread> all;
  for (size_t i = 0; i < machines; ++i)
    all.emplace_back([&, i] {
      for (size_t n = 0; n < times && outcomes[i]; ++n)
        outcomes[i] = add_hw_row(file, fmt::format("node{}-{}", i, n), some_profile(), "y",
                                 std::chrono::minutes(5));
    });
  for (auto& one : all) one.join();
  for (const auto& outcome : outcomes) CHECK(outcome);
  const auto table = read_csv(file);
  REQUIRE(table);
  CHECK(table->rows.size() == machines * times);
  // Whoever holds the table is waited for, and not for ever.
  const auto before = read_file(file, 1 << 20);
  const auto held = open_locked(file, std::chrono::milliseconds(0));
  REQUIRE(held);
  CHECK(is_error(add_hw_row(file, "late", some_profile(), "y", std::chrono::milliseconds(0)),
                 fleet_busy));
  CHECK(*read_file(file, 1 << 20) == *before);
}

TEST_CASE("HWR-2 a row that a full disk does not take leaves neither a table nor its schema") {
  scratch dir;
  const auto file = dir / "fleet.csv";
  const std::string long_id(8 * hw_schema("y").size(), 'n');  // the schema fits, its table does not
  const auto add = [&](rlim_t room, const std::string& id) {
    const full_disk disk(room);
    return add_hw_row(file, id, some_profile(), "y");
  };
  CHECK(add(0, "node1").error().code == errc::io);
  CHECK(tree_of(dir.path).empty());
  CHECK(add(2 * hw_schema("y").size(), long_id).error().code == errc::io);
  CHECK(tree_of(dir.path).empty());
  // Through a link that leads nowhere yet: the link is a person's.
  fs::create_symlink("elsewhere.csv", file);
  CHECK_FALSE(add(0, "node1"));
  CHECK(fs::is_symlink(fs::symlink_status(file)));
  CHECK_FALSE(fs::exists(dir / "elsewhere.csv"));
  fs::remove(file);
  // What was there stays as it was: an empty file of a person's, a table, a schema.
  put_file(file, "");
  put_file(dir / "fleet.toml", "# mine\n");
  const auto mine = tree_of(dir.path);
  CHECK_FALSE(add(0, "node1"));
  CHECK(tree_of(dir.path) == mine);
  REQUIRE(add_hw_row(file, "node1", some_profile(), "y"));
  const auto whole = tree_of(dir.path);
  CHECK_FALSE(add(0, "node2"));
  CHECK(tree_of(dir.path) == whole);
  REQUIRE(add_hw_row(file, "node2", some_profile(), "y"));
}

TEST_CASE("HWR-1 a row that could not be written takes no table with it that another has made") {
  // Two begin one table at once; the disk has no room for the longer row. The kernel has a long way
  // to it, so that both have seen none there before either of them has made it.
  const std::string long_id(8 * hw_schema("y").size(), 'n');
  std::string way = ".";
  for (int i = 0; i < 180; ++i) way += "/d/..";
  for (int round = 0; round < 20; ++round) {
    scratch dir;
    fs::create_directory(dir / "d");
    fs::create_directory_symlink(way, dir / "on");
    auto file = dir.path;
    for (int i = 0; i < 30; ++i) file /= "on";
    file /= "fleet.csv";
    status fits, does_not;
    {
      const full_disk disk(2 * hw_schema("y").size());
      std::barrier both(2);
      std::thread other([&] {
        both.arrive_and_wait();
        does_not = add_hw_row(file, long_id, some_profile(), "y", std::chrono::minutes(5));
      });
      both.arrive_and_wait();
      fits = add_hw_row(file, "node1", some_profile(), "y", std::chrono::minutes(5));
      other.join();
    }
    CHECK(fits);
    CHECK_FALSE(does_not);
    const auto table = read_csv(file);
    REQUIRE(table);
    CHECK(table->rows.size() == 1);
  }
}

TEST_CASE("HWK-1 measurements are found for the same start, GPUs, threads and disk alone") {
  scratch dir;
  const fact_store store{dir / "cache", "0123456789abcdef", "1.2.3", 1'800'000'000};
  const probe_key key{"boot", {"GPU-1"}, 8, "8:0", false};
  CHECK_FALSE(find_probes(store, key, a_day));
  keep_probes(store, key, some_profile());
  hw_profile wanted;
  wanted.triad_gb_s = 40.5;  // and nothing of what is read anew each time
  const auto found = find_probes(store, key, a_day);
  REQUIRE(found);
  CHECK(*found == wanted);
  const auto with = [&](auto change) {
    auto other = key;
    change(other);
    return find_probes(store, other, a_day).has_value();
  };
  CHECK_FALSE(with([](auto& k) { k.boot_id = "later"; }));
  CHECK_FALSE(with([](auto& k) { k.boot_id = ""; }));
  CHECK_FALSE(with([](auto& k) { k.gpus.clear(); }));
  CHECK_FALSE(with([](auto& k) { k.threads = 4; }));
  CHECK_FALSE(with([](auto& k) { k.disk = "8:16"; }));
  CHECK_FALSE(with([](auto& k) { k.full = true; }));  // HWK-2
  auto full = key;
  full.full = true;
  keep_probes(store, full, some_profile());
  CHECK(with([](auto& k) { k.full = true; }));
  CHECK(with([](auto&) {}));
  CHECK_FALSE(with([](auto& k) { k.host_only = true; }));  // kept beside it
}

TEST_CASE("HWK-3 of a damaged file no number is believed") {
  scratch dir;
  const fact_store store{dir / "cache", "0123456789abcdef", "1.2.3", 1'800'000'000};
  const probe_key key{"boot", {}, 8, "", false};
  keep_probes(store, key, some_profile());
  const auto file = store.here() / "hardware-probes.json";
  auto text = tree_of(dir.path / "cache")["0123456789abcdef/hardware-probes.json"].substr(5);
  const auto at = text.find("40.5");
  REQUIRE(at != text.npos);
  text[at] = '9';
  put_file(file, text);
  CHECK_FALSE(find_probes(store, key, a_day));
  auto impossible = some_profile();
  impossible.chase_ns = -1;
  keep_probes(store, key, impossible);
  CHECK_FALSE(find_probes(store, key, a_day));
}

TEST_CASE("HWK-4 one measures a machine at a time, and another one is told so") {
  scratch dir;
  const fact_store store{dir / "cache", "0123456789abcdef", "1.2.3", 1'800'000'000};
  const std::chrono::milliseconds at_once{0};
  {
    const auto first = lock_probes(store, at_once);
    REQUIRE(first);
    CHECK(*first);
    CHECK(is_error(lock_probes(store, at_once), probes_busy));
  }
  CHECK(lock_probes(store, at_once));
}

TEST_CASE("HWP-2 what cannot be is left out, and what is left out is an empty cell") {
  auto profile = some_profile();
  profile.cpus = 0;
  profile.gpus = 0;
  profile.max_mhz = std::numeric_limits<double>::infinity();
  profile.os = " \n";
  drop_impossible(profile);
  CHECK_FALSE(profile.cpus);
  CHECK(profile.gpus == 0);
  CHECK_FALSE(profile.max_mhz);
  CHECK_FALSE(profile.os);
  for (const auto& field : hw_fields())
    if (field.name == "cpus" || field.name == "os") CHECK(hw_cell(profile, field).empty());
  CHECK(hw_json(profile)["memory"]["mem_gib"] == 31.25);
}
