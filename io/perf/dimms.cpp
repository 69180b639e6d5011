// Structures of SMBIOS: a formatted area of as many bytes as its second byte says, then texts that
// end with a zero each, then one more zero.
#include "io/perf/dimms.hpp"

#include <cstdint>

namespace troupe::io::perf {

namespace {

constexpr uint8_t memory_device = 17;

/// One structure: its formatted area, and the texts behind it.
struct firmware_part {
  std::string_view area, texts;

  uint8_t byte(size_t at) const {
    return at < area.size() ? static_cast<uint8_t>(area[at]) : uint8_t{0};
  }
  uint32_t number(size_t at, size_t bytes) const {
    uint32_t out = 0;
    for (size_t i = bytes; i-- > 0;) out = out << 8 | byte(at + i);
    return at + bytes <= area.size() ? out : 0;
  }
  /// The text that the byte at `at` names: the first is 1.
  std::string text(size_t at) const {
    size_t begin = 0;
    for (uint8_t left = byte(at); left > 0 && begin < texts.size(); --left) {
      const auto end = texts.find('\0', begin);
      if (left == 1) return std::string(texts.substr(begin, end - begin));
      if (end == texts.npos) break;
      begin = end + 1;
    }
    return {};
  }
};

/// Of offset 0Ch: MiB, or KiB by its highest bit; 7FFFh: MiB in the double word at 1Ch.
std::optional<double> gib_of(const firmware_part& s) {
  constexpr uint32_t unknown = 0xffff, extended = 0x7fff, in_kib = 0x8000;
  const auto size = s.number(0x0c, 2);
  if (size == unknown) return std::nullopt;
  if (size == extended) return static_cast<double>(s.number(0x1c, 4) & 0x7fffffffu) / 1024;
  if ((size & in_kib) != 0) return static_cast<double>(size & 0x7fffu) / (1024.0 * 1024);
  return static_cast<double>(size) / 1024;
}

std::optional<double> positive(uint32_t value) {
  constexpr uint32_t unknown = 0xffff;
  return value == 0 || value == unknown ? std::nullopt
                                        : std::optional<double>(static_cast<double>(value));
}

}  // namespace

std::optional<double> cas_ns_in(std::string_view spd) {
  constexpr size_t kind_at = 2;
  constexpr uint8_t ddr4 = 0x0c, ddr5 = 0x12;
  const auto byte = [spd](size_t at) { return static_cast<uint8_t>(spd[at]); };
  double ns = 0;
  if (spd.size() > 125 && byte(kind_at) == ddr4)  // in eighths of a ns, and in ps beside them
    ns = 0.125 * byte(24) + 0.001 * static_cast<int8_t>(byte(123));
  else if (spd.size() > 31 && byte(kind_at) == ddr5)  // in ps
    ns = 0.001 * (byte(30) + 256 * byte(31));
  constexpr double least = 5, most = 50;
  return ns >= least && ns <= most ? std::optional<double>(ns) : std::nullopt;
}

std::vector<dimm> dimms_in(std::string_view table) {
  std::vector<dimm> out;
  for (size_t at = 0; at + 4 <= table.size();) {
    const auto bytes = static_cast<uint8_t>(table[at + 1]);
    if (bytes < 4 || at + bytes > table.size()) break;
    const auto end = table.find(std::string_view("\0\0", 2), at + bytes);
    if (end == table.npos) break;
    const firmware_part s{table.substr(at, bytes), table.substr(at + bytes, end - at - bytes)};
    at = end + 2;
    if (s.byte(0) != memory_device) continue;
    const auto gib = gib_of(s);
    if (gib && *gib <= 0) continue;  // an empty slot
    const auto configured = positive(s.number(0x20, 2));
    out.push_back({gib, configured ? configured : positive(s.number(0x15, 2)),
                   positive(s.byte(0x1b) & 0x0fu), s.text(0x1a)});
  }
  return out;
}

}  // namespace troupe::io::perf
