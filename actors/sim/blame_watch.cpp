// What incidents say against what befell.
#include "actors/sim/blame_watch.hpp"

#include <string_view>

#include <fmt/format.h>

namespace troupe::sim {

namespace {

/// "node NAME was lost twice within an hour: it is evicted until ...", the coordinator's words.
std::optional<std::string> evicted_in(std::string_view notice) {
  constexpr std::string_view before = "node ";
  constexpr std::string_view after = " was lost twice within an hour: it is evicted";
  const auto end = notice.find(after);
  if (end == std::string_view::npos) return std::nullopt;
  const auto begin = notice.rfind(before, end);
  if (begin == std::string_view::npos) return std::nullopt;
  return std::string(notice.substr(begin + before.size(), end - begin - before.size()));
}

}  // namespace

std::optional<std::string> blame_watch::judge(std::span<const fbs::IncidentT> incidents,
                                              std::span<const std::string> notices) const {
  uint32_t led_to = 0;
  uint64_t number = 0;
  for (const auto& i : incidents) {
    if (!i.node.empty() && i.node != "head" && !is_touched(i.node))
      return fmt::format("{} is named for {}, and no fault touched it", i.node, i.finding);
    if (number > 0 && i.number != number + 1)
      return fmt::format("incident {} was told after incident {}", i.number, number);
    if (i.epoch_from < led_to)
      return fmt::format("incident {} begins in epoch {}, and the one before it led to epoch {}",
                         i.number, i.epoch_from, led_to);
    number = i.number;
    led_to = i.epoch_to;
  }
  for (const auto& n : notices)
    if (const auto node = evicted_in(n); node && !is_touched(*node))
      return fmt::format("{} is evicted, and no fault touched it", *node);
  return std::nullopt;
}

}  // namespace troupe::sim
