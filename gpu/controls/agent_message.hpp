// What a rank asks the agent of its machine, and what that answers (agent.fbs): bytes of strangers
// on both sides.
//
// Pure.
//
// Invariants
//   AGM-1  What is read is bounded before anything is kept of it, verified before it is looked at,
//     and means something: a word of power.control with the device that it is for, a name that a
//     line can show, a pace between none and the whole one, clocks that a device can have.
//   AGM-2  What is written is read again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/controls/actuator.hpp"
#include "gpu/controls/control_record.hpp"
#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::gpu::controls {

/// Of one message, with its prefix.
inline constexpr size_t most_agent_message_bytes = 2048;
/// Characters of the reason in an answer, and bytes of a job's or an agent's name.
inline constexpr size_t agent_reason_length = 300;
inline constexpr size_t agent_name_bytes = 128;
/// Clocks in an answer: of more of them some are told, evenly from the first to the last.
inline constexpr size_t agent_clocks_told = 128;

inline constexpr error_kind<std::string_view> bad_agent_message{
    "bad_agent_message", errc::bad_data, "no message between a job and a machine's agent: {}"};

enum class agent_verb : uint8_t { take, set, facts, let_go, clock, check_clock };

struct agent_request {
  uint32_t sequence = 0;
  agent_verb verb = agent_verb::facts;
  // Of take.
  setting_target target = {};
  control_owner owner = {};
  int pace_of_1024 = whole_pace;      ///< of set
  int clock_mhz = highest_clock_mhz;  ///< of clock
};

enum class agent_outcome : uint8_t {
  done,
  refused,     ///< it holds no such device, or holds it by another word, or serves enough already
  governed,    ///< another job has the device, or somebody else than the agent
  held_lower,  ///< heat slows the device
  failed,      ///< the device has not taken it
};

struct agent_answer {
  uint32_t sequence = 0;
  agent_outcome outcome = agent_outcome::done;
  std::string why = {};       ///< it is not done; of a check_clock: its note (take_note())
  std::string agent = {};     ///< its name
  actuator_facts facts = {};  ///< without a name
  std::vector<int> clocks_mhz = {};  ///< to take: as actuator::clocks_mhz()
  unsigned given_back_to = 0;        ///< to check_clock: as actuator::given_back_to()
};

/// How long the message is that begins so, with its prefix; none: the prefix is not there as a
/// whole. Errors: bad_agent_message, where none is so long, or so short.
result<std::optional<size_t>> agent_message_bytes(std::span<const std::byte> begun);

/// Texts are cut to what a message takes.
std::vector<std::byte> to_bytes(const agent_request& r);
std::vector<std::byte> to_bytes(const agent_answer& a);

/// A whole message. Errors: bad_agent_message.
result<agent_request> parse_agent_request(std::span<const std::byte> whole);
result<agent_answer> parse_agent_answer(std::span<const std::byte> whole);

}  // namespace troupe::gpu::controls
