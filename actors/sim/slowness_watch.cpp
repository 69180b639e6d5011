// What is shown, against what befell.
#include "actors/sim/slowness_watch.hpp"

#include <fmt/format.h>

namespace troupe::sim {

void slowness_watch::becomes(const told_slowness& s) {
  if (s.kind == fault_kind::spikes) return;  // nobody is slow for single steps
  if (s.node.empty())
    all_slowed_ = true;
  else
    slowed_.insert(s.node);
  const bool is_due = knows_ && !spoilt_ && !due_;
  disturbs();
  if (is_due) due_ = due{s};
}

std::optional<std::string> slowness_watch::unfounded(const fbs::ExpectedPartT& part) const {
  if (part.suspected.empty()) return std::nullopt;
  if (part.suspected == "job")
    return all_slowed_ || is_most_slowed()
               ? std::nullopt
               : std::optional(fmt::format(
                     "the job is said to have slowed in {}, and no fault did that (PRD-2)",
                     part.part));
  if (part.suspected == "link")
    return fmt::format("a link of rank {} is said to be slow, and no fault touched one (PRD-2)",
                       part.rank);
  if (part.node.empty() || is_touched(part.node)) return std::nullopt;
  if (part.suspected == "misconfigured" && slower_.contains(part.node)) return std::nullopt;
  return fmt::format("{} is named for {} ({}, {:+.0f} %), and no fault made it slow ({})",
                     part.node, part.part, part.suspected, part.off_percent,
                     all_slowed_ ? "PRD-4" : "PRD-2");
}

std::optional<std::string> slowness_watch::unfounded(const fbs::FindingT& finding) const {
  const bool is_slowness = finding.name == "slow_part" || finding.name == "straggler";
  if (!is_slowness || finding.node.empty() || is_touched(finding.node)) return std::nullopt;
  if (slower_.contains(finding.node)) return std::nullopt;
  return fmt::format("{} has the finding {} ({}), and no fault made it slow ({})", finding.node,
                     finding.name, finding.text, all_slowed_ ? "PRD-4" : "PRD-2");
}

std::optional<std::string> slowness_watch::doubted(const std::string& node) {
  ++counted_.suspects;
  if (is_blind_ || all_slowed_ || is_touched(node)) return std::nullopt;
  return fmt::format("the predictor suspects {}, and no fault made it slow (PRD-2)", node);
}

std::optional<std::string> slowness_watch::hear(const fbs::FindingsT& shown, int64_t now_ns) {
  ++counted_.looks;
  if (shown.quiet_steps < quiet_steps_) due_.reset();  // it learns anew
  quiet_steps_ = shown.quiet_steps;
  knows_ = shown.quiet_steps_needed > 0 && quiet_steps_ >= shown.quiet_steps_needed;
  if (is_blind_) return std::nullopt;
  for (const auto& part : shown.parts)
    if (auto wrong = unfounded(*part)) return wrong;
  for (const auto& finding : shown.findings)
    if (auto wrong = unfounded(*finding)) return wrong;
  return due_ ? judge_due(shown, now_ns) : std::nullopt;
}

std::optional<std::string> slowness_watch::judge_due(const fbs::FindingsT& shown, int64_t now_ns) {
  auto& d = *due_;
  const bool of_all = d.is.node.empty();
  for (const auto& part : shown.parts) {
    if (part->suspected.empty() || (of_all ? part->suspected != "job" : part->node != d.is.node))
      continue;
    if (!of_all && !d.is.section.empty() && part->part != d.is.section)
      return fmt::format("{} is named for {}, and it is its {} that is slow (PRD-3)", d.is.node,
                         part->part, d.is.section);
    if (!d.met) ++(of_all ? counted_.jobs : counted_.named);
    d.met = true;
  }
  if (now_ns >= d.is.until_ns) {
    due_.reset();
    return std::nullopt;
  }
  if (now_ns < d.is.due_ns) return std::nullopt;
  if (!d.from_steps) d.from_steps = shown.quiet_steps;
  if (d.met || shown.quiet_steps <= *d.from_steps + named_within) return std::nullopt;
  if (of_all)
    return fmt::format("all have been slower for {} steps, and nobody says so of the job (PRD-4)",
                       shown.quiet_steps - *d.from_steps);
  return fmt::format("{} has been slower ({}) for {} steps, and is not named (PRD-3)", d.is.node,
                     to_string(d.is.kind), shown.quiet_steps - *d.from_steps);
}

}  // namespace troupe::sim
