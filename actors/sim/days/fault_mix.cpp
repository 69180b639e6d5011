// Published counts, and a reader of lines with commas.
#include "actors/sim/days/fault_mix.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "actors/sim/days/assumptions.hpp"
#include "io/base/text.hpp"

namespace troupe::sim {

namespace {

using enum fault_scope;

constexpr counted_cause llama3_rows[] = {{"Faulty GPU", 148, "lost_device", node},
                                         {"GPU HBM3 Memory", 72, "lost_device", node},
                                         {"Software Bug", 54, "dead_process", job},
                                         {"Network Switch/Cable", 31, "half_open_link", node},
                                         {"Network Switch/Cable", 4, "lost_host", at_switch},
                                         {"Host Maintenance", 32, "lost_host", node},
                                         {"GPU SRAM Memory", 19, "lost_device", node},
                                         {"GPU System Processor", 17, "stuck_device", node},
                                         {"NIC", 7, "half_open_link", node},
                                         {"NCCL Watchdog Timeouts", 7, "stuck_collective", node},
                                         {"Silent Data Corruption", 6, "wrong_bits", node},
                                         {"GPU Thermal Interface + Sensor", 6, "lost_device", node},
                                         {"SSD", 3, "disk_failing", node},
                                         {"Power Supply", 3, "lost_host", node},
                                         {"Server Chassis", 2, "lost_host", node},
                                         {"IO Expansion Board", 2, "lost_host", node},
                                         {"Dependency", 2, "dead_process", job},
                                         {"CPU", 2, "lost_host", node},
                                         {"System Memory", 2, "lost_host", node}};
constexpr double llama3_days = 54, llama3_nodes = 2048;

constexpr counted_cause byterobust_rows[] = {
    {"CUDA Error", 6763, "lost_device", node},  // 21 of 62 illegal accesses are the machine's
    {"CUDA Error", 13205, "dead_process", job},
    {"CPU Overload", 6095, "cpu_starved", node},
    {"CPU OOM", 5567, "memory_pressure", node},
    {"Insufficient Disk Space", 2755, "disk_full", job},
    {"Infiniband Error", 1599, "half_open_link", node},
    {"Filesystem Mount", 1176, "dead_process", job},
    {"HDFS Error", 1104, "dead_process", job},
    {"Container Error", 781, "dead_process", node},
    {"OS Kernel Panic", 203, "lost_host", node},
    {"GPU Memory Error", 188, "lost_device", node},
    {"External Service Error", 128, "dead_process", job},
    {"GPU Unavailable", 76, "lost_device", node},
    {"Disk Fault", 47, "disk_failing", node},
    {"Job Hang", 4447, "stuck_device", node},  // 21 of 26
    {"Job Hang", 1059, "stuck_collective", job},
    {"MFU Decline", 442, "straggler", node},
    {"NaN value", 111, "wrong_bits", node},  // 3 of 4
    {"NaN value", 37, "bad_loss", job}};
/// Of its MoE job of 9,600 GPUs: 125 incidents in a month (table 4, derived).
constexpr double byterobust_rate = 3.47;

constexpr std::string_view heading = "cause,per_1000_node_days,symptom,scope";
constexpr std::array<std::string_view, 3> scope_names = {"node", "switch", "job"};

fault_mix mix_of(std::string name, std::span<const counted_cause> rows) {
  fault_mix out;
  out.name = std::move(name);
  for (const auto& r : rows)
    out.causes.push_back(
        {std::string(r.row), static_cast<double>(r.count), std::string(r.symptom), r.scope});
  return out;
}

std::string unknown(std::string_view what, std::string_view word,
                    std::span<const std::string_view> words) {
  const auto near = nearest(word, words);
  const auto hint = near.empty() ? std::string() : fmt::format("; did you mean {}?", near);
  return fmt::format("unknown {} \"{}\"{}", what, word.substr(0, 40), hint);
}

result<fault_cause> cause_of(const std::vector<std::string_view>& fields, size_t line) {
  if (fields.size() != 4)
    return bad_mix(line, fmt::format("{} fields, not 4: cause,per_1000_node_days,symptom,scope",
                                     fields.size()));
  fault_cause out;
  out.cause = fields[0];
  if (out.cause.empty() || out.cause.front() == '#') return bad_mix(line, "the cause has no name");
  const auto number = fields[1];
  const auto* end = number.data() + number.size();
  const auto read = std::from_chars(number.data(), end, out.per_1000_node_days);
  if (read.ec != std::errc() || read.ptr != end || !(out.per_1000_node_days >= 0) ||
      out.per_1000_node_days > fault_mix::rate_ceiling)
    return bad_mix(line, fmt::format("per_1000_node_days is \"{}\", not a number from 0 to {}",
                                     number.substr(0, 40), fault_mix::rate_ceiling));
  if (std::find(finding_names.begin(), finding_names.end(), fields[2]) == finding_names.end())
    return bad_mix(line, unknown("symptom", fields[2], finding_names));
  out.symptom = fields[2];
  const auto scope = std::find(scope_names.begin(), scope_names.end(), fields[3]);
  if (scope == scope_names.end()) return bad_mix(line, unknown("scope", fields[3], scope_names));
  out.scope = static_cast<fault_scope>(scope - scope_names.begin());
  return out;
}

}  // namespace

std::string_view to_string(fault_scope scope) {
  return scope_names[static_cast<size_t>(scope)];
}

double fault_mix::rate() const {
  double sum = 0;
  for (const auto& c : causes) sum += c.per_1000_node_days;
  return sum;
}

fault_mix fault_mix::at_rate(double per_1000_node_days) const {
  fault_mix out = *this;
  const double now = rate();
  for (auto& c : out.causes)
    c.per_1000_node_days = now > 0 ? c.per_1000_node_days / now * per_1000_node_days : 0;
  return out;
}

std::string fault_mix::text() const {
  auto out = fmt::format("{}\n", heading);
  for (const auto& c : causes)
    out +=
        fmt::format("{},{},{},{}\n", c.cause, c.per_1000_node_days, c.symptom, to_string(c.scope));
  return out;
}

std::span<const counted_cause> llama3_table5() {
  return llama3_rows;
}
std::span<const counted_cause> byterobust_table1() {
  return byterobust_rows;
}

fault_mix llama3_mix() {
  auto out = mix_of("llama3", llama3_rows);
  out.person_share = assumed::llama3_person_share.value;
  return out.at_rate(out.rate() / (llama3_days * llama3_nodes / 1000));
}

fault_mix byterobust_mix() {
  auto out = mix_of("byterobust", byterobust_rows);
  out.person_share = assumed::rollback_share.value;
  return out.at_rate(byterobust_rate);
}

result<fault_mix> parse_mix(std::string_view text, std::string name) {
  fault_mix out;
  out.name = std::move(name);
  out.person_share = assumed::rollback_share.value;
  if (text.size() > fault_mix::most_bytes)
    return bad_mix(1, fmt::format("more than {} bytes in all", fault_mix::most_bytes));
  bool headed = false;
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto said = without_blanks(text.substr(at, end - at));
    at = end + 1;
    ++line;
    if (said.empty() || said.front() == '#') continue;
    if (!std::exchange(headed, true)) {
      if (said != heading) return bad_mix(line, fmt::format("the heading is not {}", heading));
      continue;
    }
    TROUPE_TRY(cause, cause_of(comma_parts(said), line));
    if (out.causes.size() == fault_mix::most_causes)
      return bad_mix(line, fmt::format("more than {} causes", fault_mix::most_causes));
    out.causes.push_back(std::move(cause));
  }
  if (out.causes.empty()) return bad_mix(line, "no cause");
  return out;
}

}  // namespace troupe::sim
