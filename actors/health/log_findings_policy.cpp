// News only.
#include "actors/health/log_findings_policy.hpp"

#include <utility>

#include <fmt/format.h>

#include "actors/health/log_rules_policy.hpp"
#include "io/base/printable.hpp"
#include "messages/text.hpp"

namespace troupe::health {

log_findings_policy::log_findings_policy(const std::vector<config::log_rule_spec>& rules) {
  for (const auto& r : rules) rules_.emplace(r.name, r.finding);
}

void log_findings_policy::hear(const std::string& node, const fbs::MachineVitals& said,
                               int64_t now_ns, findings_policy& findings) {
  static const auto stands_ns =
      findings_policy::patience_for(finding_name::log_rule).clear_after_ns;
  if (said.log_rules() == nullptr) return;
  for (const auto* told : *said.log_rules()) {
    const auto rule = rules_.find(text_of(told->rule()));
    if (rule == rules_.end() || told->count() == 0) continue;  // LGF-2
    const auto [heard, first] = heard_.try_emplace({node, rule->first}, told->last_ns());
    if (first && said.sampled_ns() - told->last_ns() >= stands_ns) continue;
    if (!first && std::exchange(heard->second, told->last_ns()) == told->last_ns()) continue;
    const auto line = printable(text_of(told->line()), log_rules_policy::most_told_bytes);
    findings.happened({rule->second, node, -1, -1, rule->first},
                      {static_cast<double>(told->count()), 0, "lines",
                       fmt::format("{}{}: {}", own_words, rule->first, line)},
                      now_ns);
  }
}

}  // namespace troupe::health
