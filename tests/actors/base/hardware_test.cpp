// What a process is told of its machine: memory that its control group does not give it is not its.
#include "actors/base/hardware.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::cluster;

TEST_CASE("machine: the least limit of the control groups counts, in either version") {
  const scratch here;
  auto write = [&](const std::string& name, const std::string& text) {
    const auto path = here / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  };
  write("two", "0::/user.slice/job");
  write("one", "12:cpu,cpuacct:/a\n9:hugetlb,memory:/a/b");
  CHECK(control_group_limit(here / "two", here / "fs") == 0);
  write("fs/user.slice/memory.max", "5000000000");
  write("fs/user.slice/job/memory.max", "max");
  CHECK(control_group_limit(here / "two", here / "fs") == 5'000'000'000);
  write("fs/memory.max", "4000000000");
  CHECK(control_group_limit(here / "two", here / "fs") == 4'000'000'000);
  CHECK(control_group_limit(here / "one", here / "fs") == 0);
  write("fs/memory/a/b/memory.limit_in_bytes", "3000000000");
  write("fs/memory/a/memory.limit_in_bytes", "9223372036854771712");
  CHECK(control_group_limit(here / "one", here / "fs") == 3'000'000'000);
  CHECK(control_group_limit(here / "absent", here / "fs") == 0);
}

TEST_CASE("machine: memory is what the control groups of the process leave of it") {
  const scratch here;
  std::ofstream(here / "groups") << "0::/job\n";
  CHECK(hardware_facts(here / "groups", here / "fs").memory_bytes == physical_memory());
  std::filesystem::create_directories(here / "fs" / "job");
  std::ofstream(here / "fs" / "job" / "memory.max") << "3000000\n";
  CHECK(hardware_facts(here / "groups", here / "fs").memory_bytes == 3'000'000);
  std::ofstream(here / "fs" / "job" / "memory.max") << (uint64_t{1} << 59) << "\n";
  CHECK(hardware_facts(here / "groups", here / "fs").memory_bytes == physical_memory());
}

TEST_CASE("machine: it has at least the processors that the process may use") {
  const auto facts = hardware_facts();
  CHECK(facts.cores > 0);
  CHECK(facts.machine_cpus >= facts.cores);
}

TEST_CASE("machine: the driver of its GPUs is the version that its module says") {
  const scratch here;
  const auto driver_of = [&](const char* text) {
    std::ofstream(here / "version") << text;
    return hardware_facts(here / "groups", here / "fs", here / "version").gpu_driver;
  };
  CHECK(hardware_facts(here / "groups", here / "fs", here / "version").gpu_driver.empty());
  CHECK(driver_of("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 "
                  "UTC 2024\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n") ==
        "550.54.15");
  CHECK(driver_of("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release "
                  "Build  (dvs-builder@U22-I3)\n") == "580.65.06");
  CHECK(driver_of("something else\n") == "");
}

TEST_CASE("machine: the UUIDs of its GPUs are those that the driver's module says, in order") {
  const scratch here;
  const auto uuids = [&] {
    return hardware_facts(here / "groups", here / "fs", here / "nvidia" / "version").gpu_uuids;
  };
  const auto write = [&](const char* device, const std::string& text) {
    std::filesystem::create_directories(here / "nvidia" / "gpus" / device);
    std::ofstream(here / "nvidia" / "gpus" / device / "information") << text;
  };
  CHECK(uuids().empty());
  write("0000:0b:00.0",
        "Model: \t\t NVIDIA L4\nIRQ:   \t\t 64\nGPU UUID: \t GPU-b2\nVideo BIOS: \t x\n");
  write("0000:0a:00.0", "Model: \t\t NVIDIA L4\nGPU UUID: \t GPU-c3 \n");
  write("0000:0d:00.0", "Model: x\n");
  write("0000:0e:00.0", "GPU UUID: \t GPU-" + std::string(1000, 'x') + "\n");
  CHECK(uuids() == std::vector<std::string>{"GPU-b2", "GPU-c3"});
  write("0000:0c:00.0", "GPU UUID: \t GPU-" + std::string(36, '?') + "\n");  // not opened
  CHECK(uuids().empty());  // those that are open now would be another machine's
  write("0000:0c:00.0", "GPU UUID: \t GPU-a1\n");
  CHECK(uuids() == std::vector<std::string>{"GPU-a1", "GPU-b2", "GPU-c3"});
  for (int i = 100; i < 200; ++i)
    write(fmt::format("{}", i).c_str(), fmt::format("GPU UUID: \t GPU-{}\n", i));
  CHECK(uuids().size() == 64);
}
