// Judging a launch.
#include "actors/sim/invariants.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "io/base/error.hpp"

namespace troupe::sim {

namespace {

bool on_disk(const launch_report& launch, uint64_t step) {
  return std::find(launch.checkpoints.begin(), launch.checkpoints.end(), step) !=
         launch.checkpoints.end();
}

/// With retention a newer one will do, of which no report may have told: one that was committed
/// after the end, say.
bool has_newer(const launch_report& launch, uint64_t step) {
  return launch.keeps_some && std::any_of(launch.checkpoints.begin(), launch.checkpoints.end(),
                                          [&](auto s) { return s > step; });
}

std::optional<std::string> judge_end(const launch_report& launch) {  // SIM-2, SIM-4
  if (launch.ends.empty())
    return launch.head_lost ? std::nullopt : std::optional<std::string>("no RunEnded came");
  if (launch.ends.size() > 1) return fmt::format("RunEnded came {} times", launch.ends.size());
  if (launch.spoke_after_end) return "a step was reported after RunEnded";
  const auto& end = launch.ends.front();
  const auto code = static_cast<errc>(end.code);
  if (launch.worst == harm::none && code != errc::none)
    return fmt::format("no harmful fault was injected, and yet: {}", end.message);
  if (launch.worst == harm::stops && code != errc::none && code != errc::cancelled)
    return fmt::format("it was told to stop, and yet: {}", end.message);
  if (!end.checkpoint.empty()) {
    const auto step =
        std::strtoull(end.checkpoint.c_str() + end.checkpoint.find("step-") + 5, nullptr, 10);
    if (!on_disk(launch, step) && !has_newer(launch, step))
      return fmt::format("{} is not on the disk", end.checkpoint);
  }
  if (code != errc::none) return std::nullopt;
  const auto last = launch.steps.empty() ? launch.resumed_step : launch.steps.back();
  if (last < launch.target_steps) return fmt::format("it succeeded after step {}", last);
  if (!on_disk(launch, last)) return fmt::format("it succeeded without a checkpoint of {}", last);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> judge(const launch_report& launch) {
  auto expected = launch.resumed_step;
  for (size_t i = 0; i < launch.steps.size(); ++i) {  // SIM-3
    const auto step = launch.steps[i];
    const bool again = i > 0 && launch.epochs[i] > launch.epochs[i - 1];
    const auto oldest = std::max(launch.saved_before[i], launch.resumed_step) + 1;
    if (again && step >= oldest && step <= expected + 1)
      expected = step;
    else if (step != ++expected)
      return fmt::format("step {} was reported in place of {}", step, expected);
  }
  for (size_t i = 0; i < launch.rates.size(); ++i)  // SIM-11
    if (launch.rates[i] != launch.used[i])
      return fmt::format("step {} was reported with a learning rate of {} and used {}",
                         launch.steps[i], launch.rates[i], launch.used[i]);
  if (launch.saved_step > 0 && !on_disk(launch, launch.saved_step) &&  // SIM-10
      !has_newer(launch, launch.saved_step))
    return fmt::format("step {} was said to be saved and is not", launch.saved_step);
  return judge_end(launch);
}

}  // namespace troupe::sim
