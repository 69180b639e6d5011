// Words one after the other; see power_control.hpp.
#include "io/config/power_control.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/base/text.hpp"

namespace troupe::config {

namespace {

/// Of the same devices: the clock, and the limit that goes behind it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> clocks_and_limits{
    {{"cpufreq", "rapl"}, {"nvml_clocks", "nvml_limit"}}};

}  // namespace

std::optional<control_fault> fault_of_control(std::span<const std::string> words,
                                              std::span<const std::string_view> known) {
  for (auto it = words.begin(); it != words.end(); ++it) {
    if (std::ranges::find(known, *it) == known.end())
      return control_fault{fmt::format("expected words of \"{}\", got {}",
                                       fmt::join(known, "\", \""), troupe::quoted(*it)),
                           "leave it out, or name them in the order in which they are to be tried"};
    if (std::find(words.begin(), it, *it) != it)
      return control_fault{fmt::format("names \"{}\" twice", *it), "name it once"};
    if (it != words.begin() && *std::prev(it) == control_by_pauses)
      return control_fault{
          fmt::format("names \"{}\" behind \"pace\", which holds any device: it is never used",
                      *it),
          "put \"pace\" last, or leave it out"};
  }
  for (const auto& [clock, limit] : clocks_and_limits)
    if (std::ranges::find(std::ranges::find(words, limit), words.end(), clock) != words.end())
      return control_fault{
          fmt::format("names the limit \"{}\" before the clock \"{}\" of the same devices: under a "
                      "limit each finds its own clock, and the others wait for the slowest",
                      limit, clock),
          fmt::format("write [\"{}\", \"{}\"], or \"{}\" alone", clock, limit, limit)};
  return std::nullopt;
}

}  // namespace troupe::config
