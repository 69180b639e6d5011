// Names, numbers, and the table between them: see processor_name.hpp.
#include "io/machine/processor_name.hpp"

#include <algorithm>
#include <array>
#include <fstream>

namespace troupe::io {

namespace {

/// As Arm and the makers publish them, in MIDR_EL1.
struct arm_maker {
  std::string_view id, name;
};
constexpr std::array arm_makers{
    arm_maker{"0x41", "ARM"},       arm_maker{"0x43", "Cavium"}, arm_maker{"0x46", "Fujitsu"},
    arm_maker{"0x48", "HiSilicon"}, arm_maker{"0x4e", "NVIDIA"}, arm_maker{"0x50", "APM"},
    arm_maker{"0x51", "Qualcomm"},  arm_maker{"0x61", "Apple"},  arm_maker{"0xc0", "Ampere"},
};
struct arm_part {
  std::string_view maker, id, name;
};
constexpr std::array arm_parts{
    arm_part{"0x41", "0xd03", "Cortex-A53"},  arm_part{"0x41", "0xd04", "Cortex-A35"},
    arm_part{"0x41", "0xd05", "Cortex-A55"},  arm_part{"0x41", "0xd07", "Cortex-A57"},
    arm_part{"0x41", "0xd08", "Cortex-A72"},  arm_part{"0x41", "0xd09", "Cortex-A73"},
    arm_part{"0x41", "0xd0a", "Cortex-A75"},  arm_part{"0x41", "0xd0b", "Cortex-A76"},
    arm_part{"0x41", "0xd0c", "Neoverse-N1"}, arm_part{"0x41", "0xd0d", "Cortex-A77"},
    arm_part{"0x41", "0xd40", "Neoverse-V1"}, arm_part{"0x41", "0xd41", "Cortex-A78"},
    arm_part{"0x41", "0xd44", "Cortex-X1"},   arm_part{"0x41", "0xd49", "Neoverse-N2"},
    arm_part{"0x41", "0xd4a", "Neoverse-E1"}, arm_part{"0x41", "0xd4f", "Neoverse-V2"},
    arm_part{"0x43", "0x0a1", "ThunderX"},    arm_part{"0x43", "0x0af", "ThunderX2"},
    arm_part{"0x46", "0x001", "A64FX"},       arm_part{"0x48", "0xd01", "TaiShan-v110"},
    arm_part{"0x4e", "0x004", "Carmel"},      arm_part{"0x50", "0x000", "X-Gene"},
    arm_part{"0x61", "0x022", "M1 Icestorm"}, arm_part{"0x61", "0x023", "M1 Firestorm"},
    arm_part{"0xc0", "0xac3", "Ampere-1"},    arm_part{"0xc0", "0xac4", "Ampere-1a"},
};

std::string_view without_blanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\0'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// What stands behind the first line's "key : "; empty where there is none.
std::string_view of_key(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto colon = line.find(':');
    if (colon != line.npos && without_blanks(line.substr(0, colon)) == key)
      return without_blanks(line.substr(colon + 1));
  }
  return {};
}

/// Firmware's own words may be anything.
std::string printable_name(std::string_view text) {
  constexpr size_t longest = 128;
  std::string out(without_blanks(text.substr(0, text.find('\0'))).substr(0, longest));
  std::ranges::replace_if(
      out, [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

/// "ARM Neoverse-N1"; "ARM 0xfff" of a part that the table has not, "0x99 0xfff" of such a maker.
std::string name_of_arm(std::string_view maker, std::string_view part) {
  const auto known = std::ranges::find(arm_makers, maker, &arm_maker::id);
  const auto as = std::ranges::find_if(
      arm_parts, [&](const arm_part& p) { return p.maker == maker && p.id == part; });
  return printable_name(std::string(known == arm_makers.end() ? maker : known->name) + " " +
                        std::string(as == arm_parts.end() ? part : as->name));
}

std::string text_of_file(const std::filesystem::path& file, size_t most_bytes) {
  std::ifstream in(file, std::ios::binary);
  std::string out(most_bytes, '\0');
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<size_t>(std::max<std::streamsize>(0, in.gcount())));
  return out;
}

}  // namespace

std::string processor_name_of(std::string_view cpuinfo, std::string_view device_tree) {
  if (const auto name = of_key(cpuinfo, "model name"); !name.empty()) return printable_name(name);
  const auto maker = of_key(cpuinfo, "CPU implementer"), part = of_key(cpuinfo, "CPU part");
  if (!maker.empty() && !part.empty()) return name_of_arm(maker, part);
  return printable_name(device_tree);
}

std::string processor_name_here(const std::filesystem::path& root) {
  constexpr size_t first_processors = 64 << 10, model_bytes = 1024;
  return processor_name_of(text_of_file(root / "proc/cpuinfo", first_processors),
                           text_of_file(root / "sys/firmware/devicetree/base/model", model_bytes));
}

}  // namespace troupe::io
