// What can be found wrong with a cluster that trains: a fixed list. Each finding has a stable name,
// which stands in messages, logs and docs/health.md.
//
// FND-1  A name is never reused or changed. One that nothing raises yet is there all the same: it
//        is the word for what is noticed by other means.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::health {

/// In the order of the table below.
enum class finding_name : uint8_t {
  dead_process,
  lost_host,
  frozen_process,
  half_open_link,
  cut_pair,
  stuck_collective,
  stuck_device,
  lost_device,
  bad_loss,
  loss_spike,
  wrong_bits,
  step_regression,
  straggler,
  disk_full,
  disk_slow,
  disk_failing,
  memory_pressure,
  cpu_starved,
  clock_jump,
  log_rule,
  device_hot,
  checkpoint_behind,
  head_lost,
  slow_part,
};

/// How much it matters: fbs::FindingSeverity's, of the same value.
enum class severity : uint8_t { info, warning, error };

struct finding_facts {
  std::string_view name;
  severity matters;
  std::string_view about;  ///< one sentence without a full stop
};

// clang-format off
inline constexpr std::array<finding_facts, 24> finding_table = [] {
  using s = severity;
  return std::array<finding_facts, 24>{{
    {"dead_process", s::error,
     "A process of the job has ended, or an actor that others wait for is not there"},
    {"lost_host", s::error, "No process of a host can be reached any more"},
    {"frozen_process", s::error,
     "A process is there and does nothing: stopped, or it gets no time to run"},
    {"half_open_link", s::error, "A connection stands, and nothing comes through it any more"},
    {"cut_pair", s::error, "Two nodes do not reach each other, while others reach both"},
    {"stuck_collective", s::error,
     "No rank's operation ends, and this rank is whom the others wait for"},
    {"stuck_device", s::error, "A rank's device was given an operation and does not end it"},
    {"lost_device", s::error, "A device does not answer its driver any more"},
    {"bad_loss", s::error, "The loss is not a finite number"},
    {"loss_spike", s::warning, "The loss rose far beyond what its last steps varied"},
    {"wrong_bits", s::error, "A rank computes or holds other bits than its equals"},
    {"step_regression", s::warning, "Steps take longer than they did"},
    {"straggler", s::warning, "A rank or a link makes the steps of all longer"},
    {"disk_full", s::error, "There is no room left where the job writes"},
    {"disk_slow", s::warning, "Small writes take long where the job writes"},
    {"disk_failing", s::error, "A disk reports errors"},
    {"memory_pressure", s::warning, "A machine has too little memory for what runs on it"},
    {"cpu_starved", s::warning,
     "Processes of a machine wait for its processors, or get less of them"},
    {"clock_jump", s::warning, "A machine's wall clock was set"},
    {"log_rule", s::warning, "A line of a log fits a rule that names no other finding"},
    {"device_hot", s::warning, "A device is slowed by its heat"},
    {"checkpoint_behind", s::warning, "The newest committed checkpoint is older than it should be"},
    {"head_lost", s::error, "The head does not answer any more"},
    {"slow_part", s::warning,
     "A part of a step takes longer on a rank than it did, or than on its peers"},
  }};
}();
// clang-format on

constexpr const finding_facts& facts_of(finding_name name) {
  return finding_table[static_cast<size_t>(name)];
}

/// By its stable name; none: there is no such finding.
std::optional<finding_name> find_finding(std::string_view name);

/// The nearest name, or empty where none is near.
std::string_view nearest_finding(std::string_view name);

}  // namespace troupe::health
