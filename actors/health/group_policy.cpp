// Members to one view, views to verdicts.
#include "actors/health/group_policy.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "io/base/counted.hpp"

namespace troupe::health {

namespace {

/// GRP-1, GRP-2; `well`: it came about, and in time.
fbs::CheckVerdict verdict_when(const group_seen& g, bool well) {
  if (g.wrong() > 0) return fbs::CheckVerdict::bad;
  if (!g.tried) return fbs::CheckVerdict::unknown;
  if (well) return fbs::CheckVerdict::ok;
  return g.busy ? fbs::CheckVerdict::unknown : fbs::CheckVerdict::bad;
}

void add(group_seen& all, const fbs::GroupReportT& r, const fbs::GroupMemberT& member) {
  const auto& s = *member.seen;
  if (all.wrong_text.empty() && s.wrong_sums > 0)
    all.wrong_text = fmt::format("element {} of the sum is {}, not {}, at {}", s.first_place,
                                 s.first_seen, s.first_wanted, member.node);
  const auto from = static_cast<size_t>(s.gathered_from);
  if (all.wrong_text.empty() && s.wrong_gathered > 0)
    all.wrong_text =
        fmt::format("{} came to {} other than {} has them", counted(s.wrong_gathered, "element"),
                    member.node, from < r.members.size() ? r.members[from]->node : "their sender");
  all.wrong_sums += s.wrong_sums;
  all.wrong_gathered += s.wrong_gathered;
  all.start_ms = std::max(all.start_ms, s.start_ms);
  all.stop_ms = std::max(all.stop_ms, s.stop_ms);
  all.bytes_per_s =
      all.bytes_per_s > 0 ? std::min(all.bytes_per_s, s.bytes_per_s) : s.bytes_per_s;
}

}  // namespace

group_seen seen_in(const fbs::GroupReportT& r) {
  group_seen out;
  out.finished = !r.members.empty();
  for (const auto& member : r.members) {
    if (member->seen) {
      add(out, r, *member);
      continue;
    }
    out.finished = false;
    if (out.failure.empty()) out.failure = fmt::format("{}: {}", member->node, member->failure);
  }
  return out;
}

double wanted_start_ms(size_t members) {
  constexpr double floor_ms = 1000, each_ms = 20;
  return floor_ms + each_ms * static_cast<double>(members);
}

fbs::CheckVerdict verdict_of(const group_seen& g) {
  return verdict_when(g, g.finished);
}

fbs::CheckVerdict verdict_of_start(const group_seen& g, size_t members) {
  return verdict_when(g, g.finished && g.start_ms <= wanted_start_ms(members));
}

std::string names_of(const std::vector<std::string>& nodes) {
  return fmt::format("{}", fmt::join(nodes, ","));
}

}  // namespace troupe::health
