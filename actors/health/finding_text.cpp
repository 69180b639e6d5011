// Field by field, word by word.
#include "actors/health/finding_text.hpp"

#include <fmt/format.h>

namespace troupe::health {

fbs::FindingT to_message(const finding& f) {
  fbs::FindingT out;
  out.name = facts_of(f.who.name).name;
  out.severity = static_cast<fbs::FindingSeverity>(f.matters());
  out.node = f.who.node;
  out.rank = f.who.rank;
  out.peer = f.who.peer;
  out.seen = f.shown.seen;
  out.wanted = f.shown.wanted;
  out.unit = f.shown.unit;
  out.text = f.shown.text;
  out.since_ns = f.since_ns;
  out.rule = f.who.rule;
  return out;
}

std::optional<std::pair<subject, evidence>> finding_in(const fbs::FindingT& f) {
  const auto name = find_finding(f.name);
  if (!name) return {};
  return std::pair{subject{*name, f.node, f.rank, f.peer, f.rule},
                   evidence{f.seen, f.wanted, f.unit, f.text}};
}

std::string line_of(const fbs::FindingT& f) {
  auto out = f.name;
  if (f.rank >= 0) out += fmt::format(" rank {}", f.rank);
  if (f.peer >= 0) out += fmt::format(" and rank {}", f.peer);
  if (!f.node.empty()) out += f.rank >= 0 ? fmt::format(" ({})", f.node) : " " + f.node;
  out += ": " + f.text;
  const auto limit = f.seen < f.wanted ? "at least" : "at most";
  if (!f.unit.empty())
    out += fmt::format(" ({:.4g} {}, {} {:.4g})", f.seen, f.unit, limit, f.wanted);
  if (!f.doctor.empty()) out += fmt::format("; its machine: {}", f.doctor);
  return out;
}

}  // namespace troupe::health
