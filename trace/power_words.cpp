// Counters to the name of a budget.
#include "trace/power_words.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "messages/power_holds.hpp"

namespace troupe::trace {

namespace {

constexpr double same_w = 0.001;  // caps are whole milliwatts

}  // namespace

power_words::power_words(const timeline& t) {
  for (const auto& c : t.counters()) {
    const auto& name = t.name(c);
    if (name == power::budget_counter) kept_.push_back({c.at_ns, c.value});
    if (name.starts_with(power::cap_counter_of))
      granted_.push_back({c.at_ns, c.value, name.substr(power::cap_counter_of.size())});
  }
}

const power_words::value* power_words::at(const std::vector<value>& all, int64_t at_ns) {
  const auto after = std::upper_bound(all.begin(), all.end(), at_ns,
                                      [](int64_t x, const value& v) { return x < v.at_ns; });
  return after == all.begin() ? nullptr : &*std::prev(after);
}

std::string power_words::of(const timeline& t, const timeline_event& hold) const {
  const auto* kept = at(kept_, hold.begin_ns);
  const auto* granted = at(granted_, hold.begin_ns);
  if (t.name(hold) == power::held_by_brake)
    return granted == nullptr ? "the brake of its power budget" : "the brake of " + granted->budget;
  if (t.name(hold) == power::held_by_offset)
    return "a start between the steps of other jobs under " +
           (granted == nullptr ? "its power budget" : granted->budget);
  const auto pace = fmt::format("the pace of {} % for ", hold.record.sender);
  if (kept == nullptr) return pace + "its power budget";
  const bool is_granted = granted != nullptr && std::abs(granted->w - kept->w) <= same_w;
  return pace + (is_granted ? fmt::format("the {:.4g} W of {}", kept->w, granted->budget)
                            : fmt::format("its own budget of {:.4g} W", kept->w));
}

}  // namespace troupe::trace
