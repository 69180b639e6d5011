// What traces call the time in which a power budget held back an operation of a rank, and what
// says by which budget: words that those who record and those who read traces share.
#pragma once

#include <string_view>

namespace troupe::power {

/// Work of a stage; its number is the pace in percent.
inline constexpr std::string_view held_by_pace = "held_by_pace";
/// The same, where the brake held it.
inline constexpr std::string_view held_by_brake = "held_by_brake";

/// The same, where a step was to begin between those of other jobs.
inline constexpr std::string_view held_by_offset = "held_by_offset";

constexpr bool is_power_hold(std::string_view work) noexcept {
  return work == held_by_pace || work == held_by_brake || work == held_by_offset;
}

/// A counter of the pacer: what the job keeps to.
inline constexpr std::string_view budget_counter = "budget W";
/// Before the name of the budget above the job, in the name of a counter: what that grants.
inline constexpr std::string_view cap_counter_of = "cap W of ";

}  // namespace troupe::power
