// Starts, and looks at what is there.
#include "actors/sim/folder_watch.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "actors/sim/simulation.hpp"
#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/export.hpp"

namespace troupe::sim {

namespace cp = io::checkpoint;
namespace fs = std::filesystem;
using io::outage;

namespace {

uint64_t step_of(const fs::path& checkpoint) {
  const auto name = cp::parse_folder_name(checkpoint.filename().string());
  return name ? name->step : 0;
}

/// Whoever watches sees what is there, whether a job can or not.
class seen_anyway {
 public:
  seen_anyway(io::crash_store& store, const tier& t) : store_(store), tier_(t) {
    if (tier_.out != outage::none) store_.set_outage(tier_.dir, outage::none);
  }
  ~seen_anyway() {
    if (tier_.out != outage::none) store_.set_outage(tier_.dir, tier_.out);
  }
  seen_anyway(const seen_anyway&) = delete;
  seen_anyway& operator=(const seen_anyway&) = delete;

 private:
  io::crash_store& store_;
  const tier& tier_;
};

}  // namespace

folder_watch::folder_watch(world& where, environment& room, const simulation_options& options)
    : where_(where),
      room_(room),
      options_(options),
      returns_(mix(options.seed ^ 0x11)),
      wipes_(mix(options.seed ^ 0x33)) {
  first().rules.keep_last = static_cast<uint64_t>(options.keep);
  second().rules.keep_last = static_cast<uint64_t>(options.second_keep);
  if (options.of) {
    const auto rules_of = [](const auto& c) {
      return cp::retention{static_cast<uint64_t>(c.keep), static_cast<uint64_t>(c.keep_every),
                           static_cast<uint64_t>(c.keep_best)};
    };
    first().rules = rules_of(options.of->checkpoint);
    if (options.second) second().rules = rules_of(options.of->checkpoint.second);
  }
  for (const auto& t : room_.tiers)
    if (auto made = io::make_folders(files(), t.dir); !made)
      where_.violation(render(made.error()));
}

// -- starts ---------------------------------------------------------------------------------------

std::optional<size_t> folder_watch::between_launches() {
  if (!wipes_.chance(options_.wipes)) return std::nullopt;
  const auto which = wipes_.below(2);
  const auto& t = room_.tiers[which];
  auto& store = room_.files.store();
  const seen_anyway lifted(store, t);
  const auto folders = files().list(t.dir);
  for (const auto& folder : folders ? *folders : std::vector<io::dir_entry>{}) {
    const auto path = t.dir / folder.name;
    const auto inside = files().list(path);
    for (const auto& file : *inside) store.remove(path / file.name, false);
    store.remove(path, true);
  }
  store.sync_dir(t.dir);
  kept_.taken_away(which);
  return which + 1;
}

std::optional<cp::manifest_head> folder_watch::head_of(const fs::path& checkpoint) {
  const auto file = checkpoint / cp::manifest_file;
  const auto version = room_.files.store().version_of(file);
  if (!version) return std::nullopt;
  auto& [of, head] = heads_[version->first];
  if (of == version->second) return head;
  of = version->second;
  head.reset();
  const auto text = files().read_small(file, cp::max_manifest_bytes);
  if (!text) return head;
  if (auto parsed = cp::parse_manifest_head(io::as_bytes(*text))) head = std::move(*parsed);
  return head;
}

folder_watch::entries folder_watch::in_tier(const tier& t) {
  const seen_anyway lifted(room_.files.store(), t);
  entries out;
  const auto names = files().list(t.dir);
  for (const auto& at : names ? *names : std::vector<io::dir_entry>{}) {
    const auto name = cp::parse_folder_name(at.name);
    if (!name ||
        (name->state != cp::folder_state::complete && name->state != cp::folder_state::aside))
      continue;
    cp::catalog_entry e;
    e.path = t.dir / at.name;
    e.name = *name;
    e.head = head_of(e.path);
    out.push_back(std::move(e));
  }
  return out;
}

folder_watch::entries folder_watch::catalog() {
  auto all = in_tier(first());
  if (second().gone()) return all;
  const auto more = in_tier(second());
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// SIM-13
void folder_watch::check_way(const std::optional<checkpoint::resume_point>& chosen) {
  const auto left = settled_ ? kept_.startable(head_, catalog()) : std::nullopt;
  if (left && (!chosen || !cp::leads_to(*left, chosen->line)))
    where_.violation(fmt::format("step {} was left there, and the start takes {}",
                                 left->back().step, chosen ? chosen->path.string() : "nothing"));
}

checkpoint::start folder_watch::start_by_itself() {
  auto found = checkpoint::resume_from(files(), "auto", first_dir, second_dir);
  if (!found) {
    where_.violation(render(found.error()));
    return {};
  }
  check_way(found->from);
  return std::move(*found);
}

/// What a person starts from: as `auto` chooses, or an older one, or one set aside, or nothing.
checkpoint::start folder_watch::choose_start() {
  if (room_.launch.launch <= 1 || !returns_.chance(options_.returns)) return start_by_itself();
  auto all = catalog();
  std::erase_if(all, [](const auto& e) { return !e.head; });
  if (all.empty() || returns_.chance(0.3)) return {};
  const auto named = all[returns_.below(all.size())].path.string();
  auto found = checkpoint::resume_from(files(), named, first_dir, second_dir);
  if (found) return std::move(*found);
  where_.violation(render(found.error()));
  return {};
}

/// As a launcher does, before it has written anything.
void folder_watch::tidy(const tier& t) {
  const auto removed = checkpoint::remove_leftovers(files(), t.dir);
  const auto aside = checkpoint::set_aside(files(), t.dir, room_.launch);
  if (!removed) where_.violation(render(removed.error()));
  if (!aside) where_.violation(render(aside.error()));
}

std::optional<checkpoint::resume_point> folder_watch::begin(uint64_t launch) {
  changes_ = events_ = 0;
  room_.launch = {launch, {}, {}};
  auto from = choose_start().from;
  if (from) {
    room_.launch.from = from->line;
    room_.launch.checkpoint = from->path;
    room_.counted.second_starts += environment::tier_of(from->path);
  }
  head_ = room_.launch.from;
  settled_ = !second().gone();
  trouble_ = first().out != outage::none || second().out != outage::none;
  tidy(first());
  if (second().gone())
    ++room_.counted.blind_starts;
  else
    tidy(second());
  return from;
}

bool folder_watch::close(size_t which, outage how) {
  auto& t = room_.tiers[which];
  if (t.out != outage::none) return false;
  t.out = how;
  room_.files.store().set_outage(t.dir, how);
  trouble_ = true;
  return true;
}

void folder_watch::open(size_t which) {
  auto& t = room_.tiers[which];
  t.out = outage::none;
  room_.files.store().set_outage(t.dir, t.out);
}

// -- looks ----------------------------------------------------------------------------------------

/// But for the mark, which no manifest names (FC-2). What was durable under a name stays so: a
/// manifest that takes the place of another is there, or that one is (SV-10).
bool folder_watch::is_durable(const fs::path& checkpoint) {
  const auto which = environment::tier_of(checkpoint);
  const auto& store = room_.files.store();
  const seen_anyway lifted(room_.files.store(), room_.tiers[which]);
  const auto folder = store.version_of(checkpoint);
  const auto all = files().list(checkpoint);
  if (!folder || !all || !store.version_of(checkpoint / cp::manifest_file)) return false;
  auto& known = durable_[checkpoint];
  if (known == folder->first) return true;
  const auto next_manifest = fmt::format("{}.tmp-", cp::manifest_file);
  for (const auto& file : *all)
    if (file.name != io::mark_file && !file.name.starts_with(next_manifest) &&
        !store.durable(checkpoint / file.name, where_.now_ns()))
      return false;
  known = folder->first;
  if (which == 1 && store.version_of(first_dir / checkpoint.filename() / cp::manifest_file))
    ++room_.counted.copies;
  return true;
}

uint64_t folder_watch::changes(const told& heard) const {
  const auto& store = room_.files.store();
  uint64_t out = heard.saved.size() + heard.ends.size() + 1;
  if (pending_) out += store.syncs();
  for (const auto& t : room_.tiers)
    if (const auto names = store.version_of(t.dir)) out += names->second;
  return out;
}

/// What is under way would be seen before its time: it is looked at once that is over.
void folder_watch::look(const told& heard) {
  const auto events = room_.files.store().changes() + heard.saved.size() + heard.ends.size();
  if (events_ == events || !room_.files.quiet()) return;
  events_ = events;
  room_.files.write_back();
  if (changes_ == changes(heard)) return;
  const auto resumed = room_.launch.from.empty() ? 0 : room_.launch.from.back().step;
  auto saved = heard.saved;
  std::erase_if(saved, [&](auto step) { return step <= resumed; });
  for (const auto& e : heard.ends)  // with no step made, too, where it began with one set aside
    if (!e.checkpoint.empty() && e.checkpoint != room_.launch.checkpoint)
      saved.insert(step_of(e.checkpoint));
  for (const auto step : saved) {
    kept_.told(room_.launch, step);
    head_ = room_.launch.at(step);
    settled_ = true;
  }
  std::array<tier_listing, 2> tiers;
  pending_ = false;
  for (size_t i = 0; i < tiers.size(); ++i) {
    tiers[i] = {in_tier(room_.tiers[i]), room_.tiers[i].rules};
    pending_ |= std::erase_if(tiers[i].all, [&](const auto& e) { return !is_durable(e.path); }) > 0;
  }
  changes_ = changes(heard);
  if (auto gone = kept_.missing(tiers)) where_.violation(*gone);
}

void folder_watch::judge_export(const fbs::RunEndedT& e) {
  if (!room_.folders || e.model.empty()) return;
  ++room_.counted.exports;
  if (fs::path(e.model).filename() != "model") ++room_.counted.beside;
  const auto head = head_of(e.checkpoint);
  if (!head) return where_.violation(fmt::format("{} was exported and is gone", e.checkpoint));
  const auto source = cp::export_source(*head, io::tensor_dtype::f32);
  if (auto wrong = room_.folders->judge_export(e.model, source)) where_.violation(*wrong);
}

void folder_watch::judge_end(const fbs::RunEndedT& e, bool excused) {
  const auto name = fs::path(e.checkpoint).filename().string();
  const auto in_second = environment::tier_of(e.checkpoint) == 1;
  const auto resumed = room_.launch.from.empty() ? 0 : room_.launch.from.back().step;
  if (in_second && step_of(e.checkpoint) > resumed) ++room_.counted.second_falls;
  if (e.code != 0 || e.checkpoint.empty() || trouble_ || excused) return;
  if (name != cp::complete_name(step_of(name)))  // JOB-9
    where_.violation(fmt::format("it succeeded with {}, which no start takes by itself", name));
  const auto head = head_of(e.checkpoint);
  const auto copy = head_of(fs::path(second_dir) / cp::complete_name(step_of(name)));
  // What was set aside in the second tier and named as a start is there, if under that name.
  if (options_.second && !in_second && (!copy || !head || !(*copy == *head)))
    where_.violation(fmt::format("it succeeded without {} in the second tier", name));
  judge_export(e);
}

std::vector<uint64_t> folder_watch::checkpoints() {
  std::vector<uint64_t> out;
  for (const auto& t : room_.tiers) {
    const auto all = in_tier(t);
    const seen_anyway lifted(room_.files.store(), t);
    for (const auto& e : all) {
      if (e.name.state != cp::folder_state::complete) continue;
      out.push_back(e.name.step);
      const auto version = room_.files.store().version_of(e.path / cp::manifest_file);
      const auto node = version ? version->first : 0;
      const auto folder = room_.files.store().version_of(e.path);
      const bool known = folder && durable_[e.path] == folder->first;
      if (known && std::exchange(whole_[e.path], node) == node) continue;
      if (auto whole = cp::verify_all(files(), e.path); !whole)
        where_.violation(fmt::format("{}: {}", e.path.string(), render(whole.error())));
    }
  }
  if (const auto& start = room_.launch; !start.from.empty()) {
    const auto& tier = room_.tiers[environment::tier_of(start.checkpoint)];
    const seen_anyway lifted(room_.files.store(), tier);
    if (head_of(start.checkpoint)) out.push_back(start.from.back().step);  // set aside, perhaps
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace troupe::sim
