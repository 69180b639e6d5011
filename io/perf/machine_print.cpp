// Words and sums: see machine_print.hpp.
#include "io/perf/machine_print.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "io/file.hpp"

namespace troupe::io::perf {

namespace {

constexpr std::string_view memory_unit = " GiB";
/// Memory is rounded up to so many parts of a power of two: a step is an eighth of it at most.
constexpr uint64_t eighths = 8;
constexpr double a_step_apart = 1 + 1.01 / eighths;  // four digits are told

bool is_print_char(char c) {
  return c >= ' ' && c <= '~' && c != '"' && c != '\\';  // neither needs an escape in JSON
}

std::string plain_text(std::string text) {
  for (auto& c : text)
    if (!is_print_char(c)) c = '?';
  if (text.size() > print_bytes) text.resize(print_bytes);
  return text;
}

/// Of a set, whatever order it was told in.
std::string sum_of(const std::set<std::string>& texts) {
  uint32_t sum = 0;
  for (const auto& t : texts) {
    const auto line = t + "\n";
    sum = crc32c(std::as_bytes(std::span(line.data(), line.size())), sum);
  }
  return fmt::format("{:08x}", sum);
}

/// A kind without its memory, and that.
struct kind_words {
  std::string_view before, behind;
  double gib = 0;  ///< 0: it is not told
};

kind_words words_of_kind(std::string_view kind) {
  const auto unit = kind.find(memory_unit);
  const auto comma = unit == kind.npos ? kind.npos : kind.rfind(", ", unit);
  if (comma == kind.npos) return {kind, {}};
  kind_words out{kind.substr(0, comma), kind.substr(unit + memory_unit.size())};
  const auto* end = kind.data() + unit;
  const auto [rest, failed] = std::from_chars(kind.data() + comma + 2, end, out.gib);
  const bool is_memory = failed == std::errc() && rest == end && out.gib > 0;
  return is_memory ? out : kind_words{kind, {}};
}

/// Up to an eighth of the power of two: of what is built in the kernel keeps some hundredths, now
/// more, now less.
uint64_t built_in_bytes(uint64_t usable) {
  constexpr uint64_t most = uint64_t{1} << 60;
  const auto step = std::max<uint64_t>(1, std::bit_floor(std::min(usable, most)) / eighths);
  return (std::min(usable, most) + step - 1) / step * step;
}

}  // namespace

machine_print print_of(const machine_facts& facts) {
  if (facts.cpu_model.empty()) return {};
  constexpr double gib = 1 << 30;
  auto kind = fmt::format("{}, {} cores", facts.cpu_model.substr(0, print_bytes), facts.cores);
  const auto memory = static_cast<double>(built_in_bytes(facts.memory_bytes)) / gib;
  if (memory > 0) kind += fmt::format(", {:.4g}{}", memory, memory_unit);
  std::map<std::string, size_t> gpus;
  for (const auto& name : facts.gpus) ++gpus[name];
  for (const auto& [name, count] : gpus) kind += fmt::format(", {} x {}", count, name);
  machine_print out{plain_text(std::move(kind)), {}};
  if (!gpus.empty() && !facts.gpu_uuids.empty())  // MCP-2
    out.gpu_ids = sum_of({facts.gpu_uuids.begin(), facts.gpu_uuids.end()});
  return out;
}

machine_print print_of_all(std::span<const machine_print> machines) {
  std::set<std::string> kinds;
  for (const auto& m : machines) {
    if (!m.is_known()) return {};
    kinds.insert(m.kind);
  }
  if (kinds.empty()) return {};
  if (kinds.size() == 1) return {*kinds.begin(), {}};
  return {fmt::format("{} kinds of machines, {}", kinds.size(), sum_of(kinds)), {}};
}

bool may_be_same(const machine_print& a, const machine_print& b) {
  if (!a.is_known() || !b.is_known()) return false;
  if (a.gpu_ids != b.gpu_ids && !a.gpu_ids.empty() && !b.gpu_ids.empty()) return false;
  const auto x = words_of_kind(a.kind), y = words_of_kind(b.kind);
  if (x.before != y.before || x.behind != y.behind) return false;
  return std::max(x.gib, y.gib) <= a_step_apart * std::min(x.gib, y.gib);
}

bool is_print_text(std::string_view text) {
  return text.size() <= print_bytes && std::ranges::all_of(text, is_print_char);
}

}  // namespace troupe::io::perf
