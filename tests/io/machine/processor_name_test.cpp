// What processors are called, by files as kernels of several kinds have them.
#include "io/machine/processor_name.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "tests/io/scratch.hpp"

using namespace troupe;

namespace {

std::string arm_of(const std::string& maker, const std::string& part) {
  return io::processor_name_of(
      "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\n"
      "CPU implementer\t: " +
          maker + "\nCPU architecture: 8\nCPU part\t: " + part + "\nCPU revision\t: 1\n",
      "");
}

}  // namespace

TEST_CASE("processor name: the kernel's, where it has one, of the first processor") {
  CHECK(io::processor_name_of("processor\t: 0\nmodel\t\t: 49\nmodel name\t: AMD EPYC 7B12\n"
                              "processor\t: 1\nmodel name\t: another\n",
                              "a board") == "AMD EPYC 7B12");
  CHECK(io::processor_name_of("model name\t: odd \x01 \xff\n", "") == "odd ? ?");
}

TEST_CASE("processor name: ARM's numbers are names, those that no table has stay numbers") {
  CHECK(arm_of("0x41", "0xd0c") == "ARM Neoverse-N1");
  CHECK(arm_of("0x41", "0xd08") == "ARM Cortex-A72");
  CHECK(arm_of("0xc0", "0xac3") == "Ampere Ampere-1");
  CHECK(arm_of("0x46", "0x001") == "Fujitsu A64FX");
  CHECK(arm_of("0x41", "0xfff") == "ARM 0xfff");
  CHECK(arm_of("0x99", "0xd0c") == "0x99 0xd0c");  // a part's number is its maker's own
}

TEST_CASE("processor name: where the kernel tells no processor the device tree names the machine") {
  using namespace std::string_literals;
  CHECK(io::processor_name_of("processor\t: 0\nhart\t: 1\n", "SiFive HiFive Unmatched A00\0"s) ==
        "SiFive HiFive Unmatched A00");
  CHECK(io::processor_name_of("", "").empty());
}

TEST_CASE("processor name: it is read from the kernel's files, each of which may be missing") {
  const scratch root;
  CHECK(io::processor_name_here(root.path).empty());
  const auto tree = root / "sys/firmware/devicetree/base";
  std::filesystem::create_directories(tree);
  std::ofstream(tree / "model") << "A board" << '\0';
  CHECK(io::processor_name_here(root.path) == "A board");
  std::filesystem::create_directories(root / "proc");
  std::ofstream(root / "proc/cpuinfo") << "CPU implementer\t: 0x41\nCPU part\t: 0xd4f\n";
  CHECK(io::processor_name_here(root.path) == "ARM Neoverse-V2");
}
