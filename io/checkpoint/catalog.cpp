// Names of checkpoint folders, and looking through them.
#include "io/checkpoint/catalog.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "io/checkpoint/reader.hpp"

namespace troupe::io::checkpoint {

namespace fs = std::filesystem;

namespace {

/// Takes digits off the front: at least `least`, at most 18.
std::optional<uint64_t> take_number(std::string_view& text, size_t least) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits < least || digits > 18) return std::nullopt;
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + digits, value);
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

/// Size and age of what lies in a folder that was changed itself at `changed_s`.
status look_into(file_system& files, catalog_entry& e, int64_t changed_s) {
  e.changed_s = changed_s;
  const auto all = files.list(e.path);
  if (!all) return all.error().code == errc::not_found ? status{} : status(all.error());
  for (const auto& in : *all) {
    e.changed_s = std::max(e.changed_s, in.changed_s);
    e.bytes += in.bytes;
  }
  return {};
}

result<manifest_head> head_in(file_system& files, const fs::path& folder) {
  TROUPE_TRY(text, files.read_small(folder / manifest_file, max_manifest_bytes + alignment));
  return parse_manifest_head(as_bytes(text));
}

/// What the manifest says, or why it says nothing.
void read_head(file_system& files, catalog_entry& e) {
  auto head = head_in(files, e.path);
  if (head && head->step == e.name.step) {
    e.head = std::move(*head);
    return;
  }
  e.problem = head ? of_another_step(manifest_file, head->step) : head.error();
  if (e.problem->code == errc::not_found) e.problem = no_manifest(manifest_file);
}

}  // namespace

std::string complete_name(uint64_t step) {
  return fmt::format("step-{:08}", step);
}

std::string partial_name(uint64_t step, uint64_t epoch) {
  return fmt::format("step-{:08}.e{}.partial", step, epoch);
}

std::string deleting_name(uint64_t step) {
  return fmt::format("step-{:08}.deleting", step);
}

std::string aside_name(uint64_t step, uint32_t number) {
  return fmt::format("step-{:08}.aside-{}", step, number);
}

std::optional<folder_name> parse_folder_name(std::string_view name) {
  const auto whole = name;
  if (!take(name, "step-")) return std::nullopt;
  const auto step = take_number(name, 8);
  if (!step) return std::nullopt;
  folder_name out{*step, std::nullopt, folder_state::complete};
  if (name == ".deleting") out.state = folder_state::deleting;
  if (take(name, ".aside-")) {
    const auto number = take_number(name, 1);
    if (!number || *number > std::numeric_limits<uint32_t>::max()) return std::nullopt;
    out.state = folder_state::aside;
    out.number = static_cast<uint32_t>(*number);
    if (aside_name(*step, out.number) != whole) return std::nullopt;
    return out;
  }
  if (name.ends_with(".partial")) {
    out.state = folder_state::partial;
    if (take(name, ".e")) {
      out.epoch = take_number(name, 1);
      if (!out.epoch || partial_name(*step, *out.epoch) != whole) return std::nullopt;
      return out;
    }
    return name == ".partial" ? std::optional(out) : std::nullopt;
  }
  if (out.state == folder_state::complete && complete_name(*step) != whole) return std::nullopt;
  return out;
}

result<std::vector<catalog_entry>> list(file_system& files, const fs::path& dir) {
  std::vector<catalog_entry> all;
  const auto names = files.list(dir);
  if (!names && names.error().code == errc::not_found) return all;
  if (!names) return names.error();
  for (const auto& at : *names) {
    const auto name = parse_folder_name(at.name);
    if (!name || !at.folder) continue;
    const auto path = dir / at.name;
    catalog_entry e{path, *name, {}, {}, 0, 0, holds_of(files, path)};
    TROUPE_CHECK(look_into(files, e, at.changed_s));
    if (name->state == folder_state::complete || name->state == folder_state::aside)
      read_head(files, e);
    all.push_back(std::move(e));
  }
  std::sort(all.begin(), all.end(), [](const catalog_entry& a, const catalog_entry& b) {
    return std::tuple(a.age_key(), a.name.state == folder_state::complete, a.path) >
           std::tuple(b.age_key(), b.name.state == folder_state::complete, b.path);
  });
  return all;
}

result<std::vector<catalog_entry>> list(const fs::path& dir) {
  return list(local_files(), dir);
}

uint64_t next_epoch(std::span<const catalog_entry> all) {
  uint64_t most = 0;
  for (const auto& e : all) most = std::max(most, e.age_key().second);
  return most + 1;
}

namespace {

/// CT-3: whether another folder holds this very checkpoint under a name that nothing takes. In its
/// own folder it was named anew since: saved again, or put back by a person. One that its launch
/// saved again is of a later epoch.
bool is_left(const catalog_entry& e, std::span<const catalog_entry> all) {
  const auto mark = line_of(*e.head).back();
  return std::any_of(all.begin(), all.end(), [&](const catalog_entry& other) {
    return other.name.state == folder_state::aside && other.head &&
           other.path.parent_path() != e.path.parent_path() &&
           line_of(*other.head).back() == mark && other.head->epoch == e.head->epoch;
  });
}

}  // namespace

const catalog_entry* tip_of(std::span<const catalog_entry> all) {
  const auto launch_key = [](const catalog_entry& e) {  // those from before lines are one launch
    return std::pair(e.head->line.empty() ? 0 : e.head->epoch, e.name.step);
  };
  const catalog_entry* tip = nullptr;
  for (const auto& e : all)
    if (e.name.state == folder_state::complete && e.head && !is_left(e, all) &&
        (tip == nullptr || launch_key(e) > launch_key(*tip)))
      tip = &e;
  return tip;
}

std::vector<candidate> start_order(std::vector<catalog_entry> all) {
  std::stable_sort(all.begin(), all.end(), [](const catalog_entry& a, const catalog_entry& b) {
    return a.age_key() > b.age_key();
  });
  const auto* tip = tip_of(all);
  const auto line = tip ? line_of(*tip->head) : lineage{};
  std::vector<candidate> out;
  for (const auto& e : all) {
    if (e.name.state != folder_state::complete) continue;  // CT-1
    const bool left = e.head && is_left(e, all);
    if (left || !e.head || leads_to(line_of(*e.head), line)) out.push_back({e, left});  // CT-3
  }
  return out;
}

std::vector<catalog_entry> left_behind(std::span<const catalog_entry> all, const lineage& line) {
  std::vector<catalog_entry> out;
  for (const auto& e : all) {
    if (e.name.state != folder_state::complete) continue;
    const bool stays = e.head ? leads_to(line_of(*e.head), line)
                              : !line.empty() && e.name.step <= line.back().step;
    if (!stays) out.push_back(e);
  }
  std::stable_sort(out.begin(), out.end(), [](const catalog_entry& a, const catalog_entry& b) {
    return a.name.step > b.name.step;
  });
  return out;
}

result<std::vector<fs::path>> set_aside(file_system& files, std::span<const catalog_entry> which) {
  std::vector<fs::path> out;
  for (const auto& e : which) {
    const auto dir = e.path.parent_path();
    for (uint32_t number = 1;; ++number) {
      const auto to = dir / aside_name(e.name.step, number);
      TROUPE_TRY(free, files.rename_to_free(e.path, to));
      if (!free) continue;
      out.push_back(to);
      break;
    }
  }
  if (!which.empty()) TROUPE_CHECK(files.sync_dir(which.front().path.parent_path()));
  return out;
}

status verify_all(const fs::path& folder, const work_options& options) {
  return verify_all(local_files(), folder, options);
}

status verify_all(file_system& files, const fs::path& folder, const work_options& options) {
  TROUPE_TRY(r, reader::open(files, folder));
  TROUPE_TRY(report, r.verify(options));
  if (report.damages.empty()) return {};
  auto why = as_error(report.damages.front());
  if (report.damages.size() > 1)
    why.message += fmt::format(" ({} more places are damaged)", report.damages.size() - 1);
  return why;
}

result<choice> newest_that_verifies(file_system& files, std::span<const fs::path> dirs,
                                    const work_options& options) {
  return newest_that(files, dirs,
                     [&](const fs::path& folder) { return verify_all(files, folder, options); });
}

result<choice> newest_that(file_system& files, std::span<const fs::path> dirs,
                           const std::function<status(const fs::path&)>& is_good) {
  choice out;
  std::vector<catalog_entry> all;
  for (const auto& dir : dirs) {
    auto found = list(files, dir);
    if (!found && dirs.size() == 1) return found.error();
    if (!found) out.rejected.push_back({dir, found.error()});  // CT-2
    if (found) all.insert(all.end(), found->begin(), found->end());
  }
  for (const auto& [e, left] : start_order(std::move(all))) {
    if (left) {
      out.left.push_back(e.path);
      continue;
    }
    auto sound = e.problem ? status(*e.problem) : is_good(e.path);
    if (sound) {
      out.path = e.path;
      return out;
    }
    if (sound.error().code == errc::cancelled || sound.error().code == errc::no_memory)
      return sound.error();
    out.rejected.push_back({e.path, sound.error()});
  }
  return out;
}

}  // namespace troupe::io::checkpoint
