// Names and manifests, through the rules of io/checkpoint.
#include "actors/sim/shelf_policy.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace troupe::sim {

namespace cp = io::checkpoint;

std::vector<cp::entry> catalog_of(const disk_policy& disk) {
  std::vector<cp::entry> out;
  for (const auto& name : disk.folders("step-")) {
    const auto parsed = cp::parse_folder_name(name);
    if (!parsed ||
        (parsed->state != cp::folder_state::complete && parsed->state != cp::folder_state::aside))
      continue;
    cp::entry e;
    e.path = name;
    e.name = *parsed;
    if (disk.torn(name).empty()) e.head = disk.head_of(name);
    out.push_back(std::move(e));
  }
  return out;
}

void set_aside(disk_policy& disk, const cp::origin& launch, int writer) {
  for (const auto& e : cp::left_behind(catalog_of(disk), launch.from)) {
    uint32_t number = 1;
    while (disk.has(cp::aside_name(e.name.step, number), std::string(cp::manifest_file))) ++number;
    disk.rename(e.path.string(), cp::aside_name(e.name.step, number), writer);
  }
  disk.settle();
}

void retain(disk_policy& disk, const cp::origin& launch, const cp::retention& rules) {
  if (rules.empty()) return;
  const auto all = catalog_of(disk);
  const cp::standing now{launch.at(std::numeric_limits<uint64_t>::max()), [&](const cp::entry& e) {
                           const auto mark = cp::line_of(*e.head).back();
                           return mark.launch == launch.launch || e.path == launch.checkpoint;
                         }};
  for (const auto& old : cp::plan_removal(all, rules, now, 0)) disk.remove(old.path.string());
}

void shelf_policy::told(const cp::origin& launch, uint64_t step) {
  told_[{launch.launch, step}] = launch.at(step);
}

std::optional<std::string> shelf_policy::missing(const disk_policy& disk,
                                                 const cp::retention& rules) const {
  const auto all = catalog_of(disk);
  for (const auto& [mark, line] : told_) {
    bool there = false;
    uint64_t newer = 0;
    for (const auto& e : all) {
      if (!e.head) continue;
      if (cp::line_of(*e.head).back() == line.back())
        there = true;
      else if (cp::leads_to(line, cp::line_of(*e.head)))
        ++newer;
    }
    const bool superseded = !rules.empty() && newer >= std::max<uint64_t>(1, rules.keep_last);
    if (!there && !superseded)
      return fmt::format(
          "step {} of launch {} was said to be saved; it is gone, and {} newer ones "
          "of its line are there",
          mark.second, mark.first, newer);
  }
  return std::nullopt;
}

}  // namespace troupe::sim
