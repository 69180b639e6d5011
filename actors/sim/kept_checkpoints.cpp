// Lines, and what of them is there.
#include "actors/sim/kept_checkpoints.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace troupe::sim {

namespace cp = io::checkpoint;

namespace {

bool is_same(const cp::manifest_head& head, const cp::lineage& line) {
  return cp::line_of(head).back() == line.back();
}

}  // namespace

void kept_checkpoints::told(const cp::origin& launch, uint64_t step) {
  told_.try_emplace({launch.launch, step}, fact{launch.at(step)});
}

void kept_checkpoints::taken_away(size_t tier) {
  for (auto& [mark, f] : told_)
    if ((f.in & 1u << tier) != 0) {
      f.in &= ~(1u << tier);
      f.given_up = true;
    }
}

std::optional<std::string> kept_checkpoints::missing(std::span<const tier_listing> tiers) {
  for (size_t t = 0; t < tiers.size(); ++t) {
    const auto& [all, rules] = tiers[t];
    const unsigned here = 1u << t;
    for (auto& [mark, f] : told_) {
      bool there = false;
      uint64_t newer = 0;
      for (const auto& e : all) {
        if (!e.head) continue;
        if (is_same(*e.head, f.line))
          there = true;
        else if (cp::leads_to(f.line, cp::line_of(*e.head)))
          ++newer;
      }
      if (there) {
        f.in |= here;
        continue;
      }
      if (!rules.empty() && newer >= std::max<uint64_t>(1, rules.keep_last)) {
        f.in &= ~here;
        f.given_up = true;
      }
      if ((f.in & here) != 0)
        return fmt::format(
            "step {} of launch {} was said to be saved; it is gone from tier {}, and {} newer ones "
            "of its line are there",
            mark.second, mark.first, t + 1, newer);
    }
  }
  for (const auto& [mark, f] : told_)
    if (f.in == 0 && !f.given_up)
      return fmt::format("step {} of launch {} was said to be saved; it is in no tier", mark.second,
                         mark.first);
  return std::nullopt;
}

namespace {

/// Under its name, and in no other folder set aside (CT-3).
bool is_taken_for(const cp::lineage& line, const cp::catalog_entry& e,
                  std::span<const cp::catalog_entry> all) {
  if (!e.head || e.name.state != cp::folder_state::complete || !is_same(*e.head, line))
    return false;
  return std::none_of(all.begin(), all.end(), [&](const cp::catalog_entry& other) {
    return other.head && other.name.state == cp::folder_state::aside &&
           other.path.parent_path() != e.path.parent_path() && is_same(*other.head, line);
  });
}

}  // namespace

std::optional<cp::lineage> kept_checkpoints::startable(
    const cp::lineage& head, std::span<const cp::catalog_entry> all) const {
  std::optional<cp::lineage> out;
  for (const auto& [mark, f] : told_) {
    if (head.empty() || !cp::leads_to(f.line, head)) continue;
    const bool there = std::any_of(all.begin(), all.end(), [&, &line = f.line](const auto& e) {
      return is_taken_for(line, e, all);
    });
    if (there && (!out || out->back().step < mark.second)) out = f.line;
  }
  return out;
}

}  // namespace troupe::sim
