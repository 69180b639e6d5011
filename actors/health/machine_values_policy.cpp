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
    {&machine_values::threads, 1, 65'536, 0.99, 0, "its rank has {} threads", "{}"},
    {&machine_values::cpus, 0.01, 65'536, 0.99, 0, "it may use {} processors", "{}"},
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

/// "1,980"; of a quota, which may be half a processor, "0.5".
std::string digits_of(double x) {
  constexpr double whole_from = 10, tenth = 0.05;
  const bool is_whole = x >= whole_from || std::abs(x - std::round(x)) < tenth;
  return is_whole ? grouped(std::llround(x)) : fmt::format("{:.2g}", x);
}

}  // namespace

machine_values values_in(const fbs::Vitals& said) {
  machine_values out;
  if (said.rank_threads() > 0) out.threads = said.rank_threads();
  const auto* machine = said.machine();
  if (machine == nullptr) return out;
  out.cpu_mhz = machine->cpu_mhz();
  out.disk_sync_ms = machine->disk_sync_ms();
  const double quota = machine->quota_cpus();
  if (machine->cpus() > 0) out.cpus = machine->cpus();
  if (quota > 0) out.cpus = std::min(out.cpus.value_or(quota), quota);
  const auto* gpus = machine->gpus();
  const size_t ranks = said.ranks() != nullptr ? said.ranks()->size() : 0;
  if (gpus == nullptr || gpus->size() > ranks) return out;  // MVL-3
  out.gpu_mhz = machine->gpu_mhz();
  out.gpu_limit_w = machine->gpu_limit_w();
  out.gpu_c = machine->gpu_c();
  return out;
}

std::string crowded_threads(const machine_values& own, size_t ranks) {
  const bool are_known = own.threads.value_or(0) >= 1 && own.cpus.value_or(0) > 0;
  if (!are_known || *own.threads * static_cast<double>(ranks) <= *own.cpus) return "";
  const auto threads = digits_of(*own.threads), cpus = digits_of(*own.cpus);
  if (ranks == 1) return fmt::format("its rank has {} threads on {} processors", threads, cpus);
  return fmt::format("its {} ranks have {} threads each on {} processors", ranks, threads, cpus);
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
                       fmt::format(fmt::runtime(row.own), digits_of(*mine)),
                       theirs.size() > 1 ? "s" : "",
                       fmt::format(fmt::runtime(row.others), digits_of(of_others)));
    if (++told == values_told) break;
  }
  return out;
}

}  // namespace troupe::health
