// Starts, and looks at what is there.
#include "actors/sim/folder_watch.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/sim/simulation.hpp"
#include "io/checkpoint/catalog.hpp"

namespace troupe::sim {

namespace cp = io::checkpoint;

namespace {

uint64_t step_of(const std::filesystem::path& checkpoint) {
  const auto name = cp::parse_folder_name(checkpoint.filename().string());
  return name ? name->step : 0;
}

}  // namespace

folder_watch::folder_watch(world& where, machine_room& room, const simulation_options& options)
    : where_(where),
      room_(room),
      options_(options),
      returns_(mix(options.seed ^ 0x11)),
      wipes_(mix(options.seed ^ 0x33)) {
  first().rules.keep_last = static_cast<uint64_t>(options.keep);
  second().rules.keep_last = static_cast<uint64_t>(options.second_keep);
}

// -- starts ---------------------------------------------------------------------------------------

std::optional<size_t> folder_watch::between_lives() {
  if (!wipes_.chance(options_.wipes)) return std::nullopt;
  const auto which = wipes_.below(2);
  auto& disk = room_.tiers[which].disk;
  for (const auto& name : disk.folders("step-")) disk.remove(name);
  shelf_.taken_away(which);
  return which + 1;
}

std::vector<cp::entry> folder_watch::catalog() {
  auto all = catalog_of(first().disk);
  if (second().gone()) return all;
  const auto more = catalog_of(second().disk, second_dir);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// As `auto` chooses (SIM-13).
std::optional<cp::entry> folder_watch::newest_of(const std::vector<cp::entry>& all) {
  auto order = cp::start_order(all);
  std::erase_if(order, [](const auto& c) { return c.left || !c.what.head; });
  const auto chosen = order.empty() ? std::nullopt : std::optional(order.front().what);
  const auto left = settled_ ? shelf_.startable(head_, all) : std::nullopt;
  if (left && (!chosen || !cp::leads_to(*left, cp::line_of(*chosen->head))))
    where_.violation(fmt::format("step {} was left there, and the start takes {}",
                                 left->back().step, chosen ? chosen->path.string() : "nothing"));
  return chosen;
}

/// What a person starts from: as `auto` chooses, or an older one, or one set aside, or nothing.
std::optional<cp::entry> folder_watch::choose_start() {
  auto all = catalog();
  if (room_.launch.launch <= 1 || !returns_.chance(options_.returns)) return newest_of(all);
  std::erase_if(all, [](const auto& e) { return !e.head; });
  if (all.empty() || returns_.chance(0.3)) return std::nullopt;
  return all[returns_.below(all.size())];
}

std::optional<cp::entry> folder_watch::begin(uint64_t launch) {
  seen_ = 0;
  room_.launch = {launch, {}, {}};
  const auto from = choose_start();
  if (from) {
    room_.launch.from = cp::line_of(*from->head);
    room_.launch.checkpoint = from->path;
    room_.counted.second_starts += room_.place_of(from->path).first == &second();
  }
  head_ = room_.launch.from;
  settled_ = !second().gone();
  trouble_ = first().out != tier::outage::none || second().out != tier::outage::none;
  set_aside(first().disk, room_.launch, 0);
  if (second().gone())
    ++room_.counted.blind_starts;
  else
    set_aside(second().disk, room_.launch, 0);
  return from;
}

bool folder_watch::close(size_t which, tier::outage how) {
  auto& t = room_.tiers[which];
  if (t.out != tier::outage::none) return false;
  t.out = how;
  trouble_ = true;
  return true;
}

// -- looks ----------------------------------------------------------------------------------------

void folder_watch::look(const told& heard) {
  const auto now =
      first().disk.changes() + second().disk.changes() + heard.saved.size() + heard.ends.size();
  if (std::exchange(seen_, now) == now) return;
  const auto resumed = room_.launch.from.empty() ? 0 : room_.launch.from.back().step;
  auto saved = heard.saved;
  std::erase_if(saved, [&](auto step) { return step <= resumed; });
  for (const auto& e : heard.ends)  // with no step made, too, where it began with one set aside
    if (!e.checkpoint.empty() &&
        room_.place_of(e.checkpoint) != room_.place_of(room_.launch.checkpoint))
      saved.insert(step_of(e.checkpoint));
  for (const auto step : saved) {
    shelf_.told(room_.launch, step);
    head_ = room_.launch.at(step);
    settled_ = true;
  }
  const std::array<const shelf*, 2> tiers{&first(), &second()};
  if (auto gone = shelf_.missing(tiers)) where_.violation(*gone);
}

void folder_watch::judge_end(const fbs::RunEndedT& e, bool excused) {
  const auto [where, name] = room_.place_of(e.checkpoint);
  const auto resumed = room_.launch.from.empty() ? 0 : room_.launch.from.back().step;
  if (where == &second() && step_of(e.checkpoint) > resumed) ++room_.counted.second_falls;
  if (e.code != 0 || e.checkpoint.empty() || trouble_ || excused) return;
  if (name != cp::complete_name(step_of(name)))  // JOB-9
    where_.violation(fmt::format("it succeeded with {}, which no start takes by itself", name));
  const auto head = where->disk.head_of(name);
  const auto copy = second().disk.head_of(cp::complete_name(step_of(name)));
  // What was set aside in the second tier and named as a start is there, if under that name.
  if (options_.second && where != &second() && (!copy || !head || !(*copy == *head)))
    where_.violation(fmt::format("it succeeded without {} in the second tier", name));
  if (!room_.folders) return;
  if (auto wrong = room_.folders->judge_export(e.model, room_.model_of(e.checkpoint)))
    where_.violation(*wrong);
}

std::vector<uint64_t> folder_watch::checkpoints() {
  std::vector<uint64_t> out;
  for (const auto& t : room_.tiers)
    for (const auto& name : t.disk.folders("step-")) check_folder(t.disk, name, out);
  const auto [from, name] = room_.place_of(room_.launch.checkpoint);
  if (from->disk.has(name, "MANIFEST"))
    out.push_back(room_.launch.from.back().step);  // set aside before, perhaps
  std::sort(out.begin(), out.end());
  return out;
}

void folder_watch::check_folder(const disk_policy& disk, const std::string& name,
                                std::vector<uint64_t>& out) {
  const auto parsed = cp::parse_folder_name(name);
  if (!parsed || parsed->state != cp::folder_state::complete) return;
  const auto torn = disk.torn(name);
  if (!torn.empty())
    where_.violation(fmt::format("{} has torn files: {}", name, fmt::join(torn, ", ")));
  for (size_t r = 0; r < room_.ranks->size; ++r)
    if (!disk.has(name, part_name(static_cast<uint32_t>(r))))
      where_.violation(fmt::format("{} lacks the part of rank {}", name, r));
  out.push_back(parsed->step);
}

}  // namespace troupe::sim
