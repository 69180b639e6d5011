// Ways, each against the best uniform clock.
#include "apps/bench/power_devices_report.hpp"

#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "apps/bench/power_figures.hpp"

namespace troupe::apps::power_bench {

namespace {

std::string way_line(std::string_view name, double speed, double of_best, const devices_run* run) {
  auto out = fmt::format("{:<10} {:>8.3f} {:>10.3f}", name, speed, of_best);
  if (run != nullptr)
    out += fmt::format(" {:>8.3f} {:>9} {:>12}", run->used, run->over_s, run->longest_over_s);
  return out + "\n";
}

nlohmann::ordered_json way_json(const devices_run& run) {
  return {{"speed", run.speed},
          {"of_best", run.of_best},
          {"used", run.used},
          {"over_s", run.over_s},
          {"longest_over_s", run.longest_over_s}};
}

}  // namespace

std::string text_of(const devices_measurement& m) {
  auto out =
      fmt::format("{} simulated devices, {} s of a budget that falls\n", m.devices, m.seconds);
  out += fmt::format("{:<10} {:>8} {:>10} {:>8} {:>9} {:>12}\n", "way", "speed", "of best", "used",
                     "over, s", "longest, s");
  out += way_line("best", m.best_speed, 1, nullptr);
  out += way_line("together", m.together.speed, m.together.of_best, &m.together);
  out += way_line("alone", m.alone.speed, m.alone.of_best, &m.alone);
  out += way_line("few", m.few_of_best * m.best_speed, m.few_of_best, nullptr);
  return out +
         fmt::format(
             "best: the best uniform clock in hindsight; together: all ranks have the clock of the "
             "tightest cap;\nalone: each that of its own cap; few: as few ranks as will do ({:.0f} "
             "on average) at the least clock.\nSpeeds are those of the slowest rank; what is drawn "
             "above the budget, until leases and steps have\nfollowed, counts as the best clock's. "
             "Decisions of all nodes: {:.1f} ms a second. {:.2f} of the best\nis wanted of "
             "together: {}\n",
             m.few_ranks, m.decide_ms, least_of_best, met(m.together.of_best >= least_of_best));
}

nlohmann::ordered_json json_of(const devices_measurement& m) {
  return {
      {"devices", m.devices},       {"seconds", m.seconds},
      {"best_speed", m.best_speed}, {"together", way_json(m.together)},
      {"alone", way_json(m.alone)}, {"few", {{"of_best", m.few_of_best}, {"ranks", m.few_ranks}}},
      {"decide_ms", m.decide_ms},   {"least_of_best", least_of_best}};
}

}  // namespace troupe::apps::power_bench
