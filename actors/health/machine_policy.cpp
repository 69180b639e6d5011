// One condition after the other.
#include "actors/health/machine_policy.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "messages/text.hpp"

namespace troupe::health {

namespace {

double percent(int64_t part, int64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

struct judge {
  const std::string& node;
  int64_t now_ns;
  findings_policy& findings;

  void say(finding_name name, bool holds, evidence shown) const {
    const subject who{name, node};
    if (holds)
      findings.holds(who, std::move(shown), now_ns);
    else
      findings.gone(who, now_ns);
  }

  void memory(const fbs::MachineVitals& m) const {
    if (m.memory_full_percent() >= limits.memory_full_percent)
      return say(finding_name::memory_pressure, true,
                 {m.memory_full_percent(), limits.memory_full_percent, "%",
                  "all of its processes waited for memory"});
    const bool known = m.memory_bytes() > 0 && m.available_bytes() >= 0;
    const auto left = known ? percent(m.available_bytes(), m.memory_bytes()) : 100;
    say(finding_name::memory_pressure, left < limits.memory_available_percent,
        {left, limits.memory_available_percent, "%", "little of its memory is left"});
  }

  /// That processes wait for a processor is none: a training uses all of them.
  void processors(const fbs::MachineVitals& m) const {
    struct reason {
      double seen, wanted;
      const char* text;
    };
    const auto known = [](double percent) { return std::isnan(percent) ? -1 : percent; };
    const reason all[] = {{known(m.steal_percent()), limits.steal_percent,
                           "its host gives its processor time to others"},
                          {known(m.throttled_percent()), limits.throttled_percent,
                           "its control group had used up its processor time"}};
    const auto worst = std::max_element(std::begin(all), std::end(all), [](auto& a, auto& b) {
      return a.seen / a.wanted < b.seen / b.wanted;
    });
    say(finding_name::cpu_starved, worst->seen >= worst->wanted,
        {worst->seen, worst->wanted, "%", worst->text});
  }

  void disk(const fbs::MachineVitals& m) const {
    say(finding_name::disk_slow, m.disk_sync_ms() >= limits.disk_sync_ms,
        {m.disk_sync_ms(), limits.disk_sync_ms, "ms",
         "4 KiB took long to be durable in the job's folder"});
    const bool known = m.disk_bytes() > 0 && m.disk_free_bytes() >= 0;
    const auto left = known ? percent(m.disk_free_bytes(), m.disk_bytes()) : 100;
    say(finding_name::disk_full, left < limits.disk_free_percent,
        {left, limits.disk_free_percent, "%", "little room is left where the job's folder is"});
  }

  void devices(const fbs::MachineVitals& m) const {
    constexpr uint64_t off_the_bus = 79;  // docs.nvidia.com/deploy/xid-errors
    std::string lost, hot;
    for (flatbuffers::uoffset_t i = 0; m.gpus() != nullptr && i < m.gpus()->size(); ++i) {
      const auto* g = m.gpus()->Get(i);
      if (g->xid_number() == off_the_bus) lost = text_of(g->device());
      for (flatbuffers::uoffset_t w = 0; g->slowed_by() != nullptr && w < g->slowed_by()->size();
           ++w)
        if (g->slowed_by()->Get(w)->string_view().find("heat") != std::string_view::npos)
          hot = text_of(g->device());
    }
    say(finding_name::lost_device, !lost.empty(),
        {0, 0, "", fmt::format("{} fell off the bus (Xid {})", lost, off_the_bus)});
    say(finding_name::device_hot, !hot.empty(),
        {0, 0, "", fmt::format("{} is slowed by heat", hot)});
  }
};

}  // namespace

void judge_machine(const std::string& node, const fbs::MachineVitals& said, int64_t now_ns,
                   findings_policy& findings) {
  const judge of{node, now_ns, findings};
  of.memory(said);
  of.processors(said);
  of.disk(said);
  of.devices(said);
  of.say(finding_name::clock_jump, std::abs(said.clock_set_ms()) >= limits.clock_set_ms,
         {said.clock_set_ms(), limits.clock_set_ms, "ms", "its wall clock was set"});
}

}  // namespace troupe::health
