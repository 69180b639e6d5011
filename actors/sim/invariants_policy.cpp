// Judging a life.
#include "actors/sim/invariants_policy.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "io/base/error.hpp"

namespace troupe::sim {

namespace {

bool on_disk(const life_report& life, uint64_t step) {
  return std::find(life.checkpoints.begin(), life.checkpoints.end(), step) !=
         life.checkpoints.end();
}

std::optional<std::string> judge_end(const life_report& life) {  // SIM-2, SIM-4
  if (life.ends.empty())
    return life.head_lost ? std::nullopt : std::optional<std::string>("no RunEnded came");
  if (life.ends.size() > 1) return fmt::format("RunEnded came {} times", life.ends.size());
  if (life.spoke_after_end) return "a step was reported after RunEnded";
  const auto& end = life.ends.front();
  const auto code = static_cast<errc>(end.code);
  if (life.worst == harm::none && code != errc::none)
    return fmt::format("nothing harmful befell it, and yet: {}", end.message);
  if (life.worst == harm::stops && code != errc::none && code != errc::cancelled)
    return fmt::format("it was told to stop, and yet: {}", end.message);
  if (!end.checkpoint.empty()) {
    const auto step =
        std::strtoull(end.checkpoint.c_str() + end.checkpoint.find("step-") + 5, nullptr, 10);
    if (!on_disk(life, step)) return fmt::format("{} is not on the disk", end.checkpoint);
  }
  if (code != errc::none) return std::nullopt;
  const auto last = life.steps.empty() ? life.resumed_step : life.steps.back();
  if (last < life.target_steps) return fmt::format("it succeeded after step {}", last);
  if (!on_disk(life, last)) return fmt::format("it succeeded without a checkpoint of {}", last);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> judge(const life_report& life) {
  auto expected = life.resumed_step;
  for (const auto step : life.steps)  // SIM-3
    if (step != ++expected)
      return fmt::format("step {} was reported in place of {}", step, expected);
  for (size_t i = 0; i < life.rates.size(); ++i)  // SIM-11
    if (life.rates[i] != life.used[i])
      return fmt::format("step {} was reported with a learning rate of {} and used {}",
                         life.steps[i], life.rates[i], life.used[i]);
  // SIM-10. With retention a newer one will do, of which no report may have told.
  const bool newer =
      life.keeps_some && std::any_of(life.checkpoints.begin(), life.checkpoints.end(),
                                     [&](auto s) { return s > life.saved_step; });
  if (life.saved_step > 0 && !newer && !on_disk(life, life.saved_step))
    return fmt::format("step {} was said to be saved and is not", life.saved_step);
  return judge_end(life);
}

}  // namespace troupe::sim
