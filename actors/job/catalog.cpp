// Soundness before a start.
#include "actors/job/catalog.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "io/checkpoint/catalog.hpp"
#include "io/checkpoint/folder_claim.hpp"
#include "io/checkpoint/reader.hpp"
#include "io/checkpoint/retention.hpp"

namespace troupe::checkpoint {

namespace cp = io::checkpoint;

namespace {

constexpr std::string_view what_to_do =
    "use another checkpoint: to resume, name one in checkpoint.resume or take this folder away";

}  // namespace

namespace {

bool is_checkpoint(io::file_system& files, const std::filesystem::path& folder) {
  const auto all = folder.empty() ? result<std::vector<io::dir_entry>>{std::vector<io::dir_entry>{}}
                                  : files.list(folder);
  return all && std::any_of(all->begin(), all->end(), [](const io::dir_entry& e) {
           return e.name == state_file || e.name == cp::manifest_file;
         });
}

/// Manifest, lengths, and the files beside the shards, which nobody checks who loads.
status fits(io::file_system& files, const std::filesystem::path& checkpoint) {
  TROUPE_TRY(r, cp::reader::open(files, checkpoint));
  for (const auto& unit : r.units()) {
    if (unit.what != cp::reader::unit::kind::plain) continue;
    std::vector<std::byte> bytes(unit.bytes);
    TROUPE_CHECK(r.read_unit(unit, bytes));
  }
  return {};
}

/// `why` as what is wrong with a checkpoint that a person named.
error damaged(const std::filesystem::path& checkpoint, error why) {
  if (why.code == errc::not_found)
    why = {errc::bad_data, fmt::format("{} has no {}", checkpoint.string(), cp::manifest_file)};
  if (why.hint.empty()) why.hint = what_to_do;
  return why;
}

status verify(io::file_system& files, const std::filesystem::path& checkpoint,
              const cp::work_options& options) {
  const auto sound = [&]() -> status {
    TROUPE_TRY(r, cp::reader::open(files, checkpoint));
    TROUPE_TRY(report, r.verify(options));
    if (report.damages.empty()) return {};
    return error{errc::bad_data,
                 fmt::format("{}: {}", checkpoint.string(), cp::render(report.damages.front()))};
  }();
  return sound ? sound : damaged(checkpoint, sound.error());
}

resume_point resume_point_of(const std::filesystem::path& path, const cp::reader& r) {
  const auto& head = r.content().head;
  resume_point out{path, head.step, cp::line_of(head)};
  out.state.validation_loss = head.validation_loss;
  return out;
}

/// The newest sound one; an error where there are some and none is (CAT-2).
result<start> newest(io::file_system& files, const std::filesystem::path& dir,
                     const std::filesystem::path& second, look how) {
  start out;
  std::vector<std::filesystem::path> dirs{dir};
  if (!second.empty()) dirs.push_back(second);
  const auto is_good = [&](const std::filesystem::path& checkpoint) -> status {
    return how == look::whole ? cp::verify_all(files, checkpoint) : fits(files, checkpoint);
  };
  TROUPE_TRY(choice, cp::newest_that(files, dirs, is_good));
  for (const auto& r : choice.rejected)
    out.passed_over.push_back(
        fmt::format("{} is damaged and skipped: {}", r.path.string(), r.why.message));
  for (const auto& path : choice.left)
    out.passed_over.push_back(
        fmt::format("{} is skipped: it was set aside in the other tier", path.string()));
  if (choice.path) {
    TROUPE_TRY(r, cp::reader::open(files, *choice.path));
    out.from = resume_point_of(*choice.path, r);
  } else if (!choice.rejected.empty()) {
    return error{errc::bad_data,
                 fmt::format("no checkpoint in {}{} is sound; the newest: {}", dir.string(),
                             second.empty() ? "" : " or " + second.string(),
                             choice.rejected.front().why.message),
                 "to start anew set checkpoint.resume=never"};
  }
  return out;
}

/// The path as a start by itself would have it, where a checkpoint that a person named in another
/// way lies in one of the tiers.
std::filesystem::path settled_path(io::file_system& files, const std::filesystem::path& named,
                                   const std::filesystem::path& dir,
                                   const std::filesystem::path& second) {
  const auto real = files.canonical(named);
  if (!real) return named;
  const auto where = files.identity(real->parent_path());
  for (const auto& tier : {dir, second}) {
    if (!where || tier.empty()) continue;
    const auto there = files.identity(tier);
    if (there && *there == *where) return tier / real->filename();
  }
  return named;
}

}  // namespace

bool is_checkpoint(const std::filesystem::path& folder) {
  return is_checkpoint(io::local_files(), folder);
}

status verify(const std::filesystem::path& checkpoint, const cp::work_options& options) {
  return verify(io::local_files(), checkpoint, options);
}

result<start> resume_from(const std::string& resume, const std::filesystem::path& dir,
                          const std::filesystem::path& second, look how) {
  return resume_from(io::local_files(), resume, dir, second, how);
}

result<start> resume_from(io::file_system& files, const std::string& resume,
                          const std::filesystem::path& dir, const std::filesystem::path& second,
                          look how) {
  if (resume == "never") return start{};
  if (resume == "auto") return newest(files, dir, second, how);
  if (!is_checkpoint(files, resume))
    return error{errc::not_found, fmt::format("checkpoint.resume: invalid checkpoint: {}", resume),
                 "name a step-NNNNNNNN folder, or use \"auto\" or \"never\""};
  if (const auto good = how == look::whole ? verify(files, resume, {}) : fits(files, resume); !good)
    return damaged(resume, good.error());
  TROUPE_TRY(r, cp::reader::open(files, resume));
  return start{resume_point_of(settled_path(files, resume, dir, second), r), {}};
}

namespace {

/// Of `all`, what does not lead to `line`; a sentence for each.
result<std::vector<std::string>> set_aside_others(io::file_system& files,
                                                  std::span<const cp::catalog_entry> all,
                                                  const cp::lineage& line) {
  auto left = cp::left_behind(all, line);
  std::erase_if(left, [&](const cp::catalog_entry& e) {  // not marked by us: somebody else's
    return !e.head && cp::claim_of(files, e.path).files.empty();
  });
  TROUPE_TRY(renamed, cp::set_aside(files, left));
  std::vector<std::string> out;
  for (size_t i = 0; i < left.size(); ++i)
    out.push_back(fmt::format(
        "{} does not belong to the line of checkpoints that continues: it is set aside as {}",
        left[i].path.string(), renamed[i].filename().string()));
  return out;
}

}  // namespace

cp::origin origin_of(const std::optional<resume_point>& from, uint64_t launch) {
  cp::origin out{launch, {}, {}};
  if (!from) return out;
  out.from = from->line;
  out.checkpoint = std::filesystem::absolute(from->path).lexically_normal();
  return out;
}

result<std::vector<std::string>> set_aside(io::file_system& files,
                                           const std::filesystem::path& dir,
                                           const cp::origin& launch) {
  TROUPE_TRY(all, cp::list(files, dir));
  std::erase_if(all, [&](const cp::catalog_entry& e) {  // nodes may be training already
    return e.head && launch.launch != 0 && cp::line_of(*e.head).back().launch == launch.launch;
  });
  return set_aside_others(files, all, launch.from);
}

namespace {

/// CAT-4.
status is_unsound(io::file_system& files, const std::string& checkpoint) {
  const auto sound = cp::verify_all(files, checkpoint);
  if (sound)
    return error{errc::unavailable,
                 fmt::format("every byte of {} is as it was written", checkpoint),
                 "look at the disks and the network of the host whose rank cannot read it"};
  if (sound.error().code == errc::cancelled || sound.error().code == errc::no_memory)
    return sound.error();
  return {};
}

/// Whether a run of `launch` can have trained from it on.
bool is_of_run(const cp::catalog_entry& e, const cp::origin& launch) {
  if (e.name.state != cp::folder_state::complete || !e.head) return false;
  if (!launch.from.empty() && e.name.step < launch.from.back().step) return false;
  return cp::leads_to(cp::line_of(*e.head), launch.at(e.name.step));
}

/// Whether a path names the checkpoint of an entry.
bool is_among(const cp::catalog_entry& e, std::span<const std::string> checkpoints) {
  const auto path = std::filesystem::absolute(e.path).lexically_normal();
  return std::any_of(checkpoints.begin(), checkpoints.end(), [&](const std::string& c) {
    return std::filesystem::absolute(c).lexically_normal() == path;
  });
}

result<std::string> state_of(io::file_system& files, const std::filesystem::path& checkpoint) {
  auto text = files.read_small(checkpoint / state_file, max_state_bytes);
  if (!text && text.error().code == errc::not_found) return std::string();  // it was imported
  return text;
}

/// In each tier what does not lead to the choice; a second one that cannot be changed is told.
status leave_others(io::file_system& files, std::span<const std::filesystem::path> tiers,
                    std::span<const cp::catalog_entry> all, older_choice& choice) {
  for (const auto& tier : tiers) {
    std::vector<cp::catalog_entry> here;
    for (const auto& e : all)
      if (e.path.parent_path() == tier) here.push_back(e);
    const auto told = set_aside_others(files, here, choice.from.line);
    if (!told && tier == tiers.front()) return told.error();
    if (told)
      choice.told.insert(choice.told.end(), told->begin(), told->end());
    else
      choice.told.push_back(fmt::format("{}: {}", tier.string(), told.error().message));
  }
  return {};
}

}  // namespace

result<older_choice> choose_older(io::file_system& files,
                                  std::span<const std::filesystem::path> tiers,
                                  const cp::origin& launch, std::span<const std::string> unsound,
                                  uint64_t at_most) {
  if (!unsound.empty()) TROUPE_CHECK(is_unsound(files, unsound.back()));
  older_choice out;
  std::vector<cp::catalog_entry> all;
  for (const auto& tier : tiers) {
    auto found = cp::list(files, tier);
    if (!found && tier == tiers.front()) return found.error();
    if (!found) out.told.push_back(fmt::format("{}: {}", tier.string(), found.error().message));
    if (found) all.insert(all.end(), found->begin(), found->end());
  }
  auto candidates = all;
  std::erase_if(candidates, [&](const cp::catalog_entry& e) {
    return e.name.step > at_most || !is_of_run(e, launch) || is_among(e, unsound);
  });
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.age_key() > b.age_key(); });
  for (const auto& e : candidates) {
    if (const auto good = fits(files, e.path); !good) {
      out.told.push_back(
          fmt::format("{} is damaged and skipped: {}", e.path.string(), good.error().message));
      continue;
    }
    TROUPE_TRY(state, state_of(files, e.path));
    out.from = {e.path, e.name.step, cp::line_of(*e.head)};
    out.state = std::move(state);
    TROUPE_CHECK(leave_others(files, tiers, all, out));
    return out;
  }
  return error{errc::bad_data,
               fmt::format("no other checkpoint of this run, of step {} or before, is in {}",
                           at_most, tiers.front().string())};
}

result<leftovers> remove_leftovers(io::file_system& files, const std::filesystem::path& dir) {
  leftovers out;
  TROUPE_TRY(all, cp::list(files, dir));
  for (const auto& e : all) {
    const bool partial = e.name.state == cp::folder_state::partial;
    if ((!partial && e.name.state != cp::folder_state::deleting) ||
        !e.holds.empty())
      continue;
    const auto gone =
        cp::remove(files, {e.path, e.name, e.bytes, "left by an interrupted save"});
    if (gone)
      out.removed.push_back(e.path.filename().string());
    else if (gone.error().code == errc::permission || gone.error().code == errc::unavailable)
      out.kept.push_back(gone.error().message);
    else
      return gone.error();
  }
  std::sort(out.removed.begin(), out.removed.end());
  return out;
}

}  // namespace troupe::checkpoint
