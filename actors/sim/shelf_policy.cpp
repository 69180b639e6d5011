// Names and manifests, through the rules of io/checkpoint.
#include "actors/sim/shelf_policy.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace troupe::sim {

namespace cp = io::checkpoint;

std::vector<cp::entry> catalog_of(const disk_policy& disk, const std::filesystem::path& dir) {
  std::vector<cp::entry> out;
  for (const auto& name : disk.folders("step-")) {
    const auto parsed = cp::parse_folder_name(name);
    if (!parsed ||
        (parsed->state != cp::folder_state::complete && parsed->state != cp::folder_state::aside))
      continue;
    cp::entry e;
    e.path = dir / name;
    e.name = *parsed;
    if (disk.torn(name).empty()) e.head = disk.head_of(name);
    out.push_back(std::move(e));
  }
  return out;
}

namespace {

std::string free_name(const disk_policy& disk, uint64_t step) {
  uint32_t number = 1;
  while (disk.has(cp::aside_name(step, number), std::string(cp::manifest_file))) ++number;
  return cp::aside_name(step, number);
}

bool is_same(const cp::manifest_head& head, const cp::lineage& line) {
  return cp::line_of(head).back() == line.back();
}

}  // namespace

void set_aside(disk_policy& disk, const cp::origin& launch, int writer) {
  for (const auto& e : cp::left_behind(catalog_of(disk), launch.from))
    disk.rename(e.path.string(), free_name(disk, e.name.step), writer);
  disk.settle();
}

void publish_folder(disk_policy& disk, const std::string& partial, uint64_t step, int writer) {
  const auto name = cp::complete_name(step);
  const auto head = disk.head_of(partial), there = disk.head_of(name);
  if (head && there && cp::line_of(*there).back().launch != cp::line_of(*head).back().launch) {
    disk.rename(name, free_name(disk, step), writer);
    disk.settle();
  }
  disk.rename(partial, name, writer);
}

void retain(shelf& tier, const cp::origin& launch, const std::vector<std::string>& in_use) {
  if (tier.rules.empty()) return;
  const auto all = catalog_of(tier.disk);
  // A name that is not durable yet stands for nothing: the real archive does one thing at a time.
  const auto sound = [&](const cp::entry& e) {
    const auto mark = cp::line_of(*e.head).back();
    return tier.disk.settled(e.path.string()) &&
           (mark.launch == launch.launch || e.path == launch.checkpoint);
  };
  const cp::standing now{launch.at(std::numeric_limits<uint64_t>::max()), sound};
  for (const auto& old : cp::plan_removal(all, tier.rules, now, 0, in_use))
    tier.disk.remove(old.path.string());
}

void shelf_policy::told(const cp::origin& launch, uint64_t step) {
  told_.try_emplace({launch.launch, step}, fact{launch.at(step)});
}

void shelf_policy::taken_away(size_t tier) {
  for (auto& [mark, f] : told_)
    if ((f.in & 1u << tier) != 0) {
      f.in &= ~(1u << tier);
      f.given_up = true;
    }
}

std::optional<std::string> shelf_policy::missing(std::span<const shelf* const> tiers) {
  for (size_t t = 0; t < tiers.size(); ++t) {
    const auto all = catalog_of(tiers[t]->disk);
    const auto& rules = tiers[t]->rules;
    const unsigned here = 1u << t;
    for (auto& [mark, f] : told_) {
      bool there = false;
      uint64_t newer = 0;
      for (const auto& e : all) {
        if (!e.head || !tiers[t]->disk.settled(e.path.string())) continue;
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
bool is_taken_for(const cp::lineage& line, const cp::entry& e, std::span<const cp::entry> all) {
  if (!e.head || e.name.state != cp::folder_state::complete || !is_same(*e.head, line))
    return false;
  return std::none_of(all.begin(), all.end(), [&](const cp::entry& other) {
    return other.head && other.name.state == cp::folder_state::aside &&
           other.path.parent_path() != e.path.parent_path() && is_same(*other.head, line);
  });
}

}  // namespace

std::optional<cp::lineage> shelf_policy::startable(const cp::lineage& head,
                                                   std::span<const cp::entry> all) const {
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
