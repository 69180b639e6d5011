// Drills: faults that a job makes itself ([[inject]]), so that a person sees his cluster heal
// before it must. What acts when is decided in actors/train/drill_policy.hpp.
//
// Why a configuration and no command: a drill is of a job and its steps. So it is repeated by
// running the job again, and nobody can begin one in a job that does not say so; and a job that
// does is started by nobody who has not said that he knows (--allow-injection).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "io/config/job.hpp"

namespace troupe::config {

inline constexpr std::array<std::string_view, 7> drill_words{
    "slow", "hang", "wrong_bit", "wrong_product", "fail", "disk_slow", "drop"};

/// The flag without which a job with drills is refused.
inline constexpr std::string_view drill_flag = "--allow-injection";

/// No step that a drill falls due in is greater.
inline constexpr int64_t last_drill_step = 1'000'000'000;

/// The rank that a drill names; none: it names a node.
std::optional<int64_t> rank_of(const drill_spec& drill);

/// "rank 2 hangs".
std::string drill_text(const drill_spec& drill);

/// When: "step 30", "step 30, then every 10 steps", "each step from 30 on".
std::string drill_steps_text(const drill_spec& drill);

}  // namespace troupe::config
