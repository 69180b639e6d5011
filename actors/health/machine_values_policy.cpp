// A row for each value.
#include "actors/health/machine_values_policy.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "io/base/counted.hpp"
#include "io/base/median.hpp"

namespace troupe::health {

namespace {

struct value_row {
  std::optional<double> machine_values::*value;
  double least, most;  ///< that a machine has
  /// What tells apart: less than so many times the others' median, or more and by so much.
  double times, by;
  const char* own;     ///< words, with a place for the value
  const char* others;  ///< the same, behind "the others"
};

constexpr value_row value_rows[] = {
    {&machine_values::gpu_mhz, 1, 20'000, 0.95, 0, "its GPU runs at {} MHz", "at {}"},
    {&machine_values::gpu_limit_w, 1, 20'000, 0.97, 0, "its GPU may draw {} W", "{}"},
    {&machine_values::cpus, 1, 65'536, 0.99, 0, "it may use {} processors", "{}"},
    {&machine_values::cpu_mhz, 1, 100'000, 0.95, 0, "its processors run at {} MHz", "at {}"},
    {&machine_values::gpu_c, -50, 200, 1, 10, "its GPU has {} degrees", "{}"},
    {&machine_values::disk_sync_ms, 0, 1e6, 4, 20, "its disk syncs in {} ms", "in {}"},
};

bool is_value(const value_row& row, std::optional<double> x) {
  return x && *x >= row.least && *x <= row.most;  // MVL-1: what is no number is neither
}

/// MVL-2.
bool is_worse(const value_row& row, double own, double others) {
  if (row.times < 1) return own < row.times * others;
  return own > row.times * others && own >= others + row.by;
}

}  // namespace

machine_values values_in(const fbs::MachineVitals& said, size_t ranks) {
  machine_values out;
  out.cpu_mhz = said.cpu_mhz();
  out.cpus = said.cpus();
  out.disk_sync_ms = said.disk_sync_ms();
  const auto* gpus = said.gpus();
  if (gpus == nullptr || gpus->size() > ranks) return out;  // MVL-3
  out.gpu_mhz = said.gpu_mhz();
  out.gpu_limit_w = said.gpu_limit_w();
  out.gpu_c = said.gpu_c();
  return out;
}

std::string differing_values(const machine_values& own, std::span<const machine_values> others) {
  std::string out;
  size_t told = 0;
  for (const auto& row : value_rows) {
    const auto mine = own.*row.value;
    std::vector<double> theirs;
    for (const auto& o : others)
      if (is_value(row, o.*row.value)) theirs.push_back(*(o.*row.value));
    if (!is_value(row, mine) || theirs.empty()) continue;
    const auto of_others = median(theirs);
    if (!is_worse(row, *mine, of_others)) continue;
    out += fmt::format("{}{}, the other{} {}", told == 0 ? "" : "; ",
                       fmt::format(fmt::runtime(row.own), grouped(std::llround(*mine))),
                       theirs.size() > 1 ? "s" : "",
                       fmt::format(fmt::runtime(row.others), grouped(std::llround(of_others))));
    if (++told == values_told) break;
  }
  return out;
}

}  // namespace troupe::health
