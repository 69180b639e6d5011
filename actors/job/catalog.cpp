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
  return {path, head.step, cp::line_of(head)};
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
  auto left = cp::left_behind(all, launch.from);
  // What cannot be read and was not marked by us is somebody else's; nodes may be training already.
  std::erase_if(left, [&](const cp::catalog_entry& e) {
    if (!e.head) return cp::claim_of(files, e.path).files.empty();
    return launch.launch != 0 && cp::line_of(*e.head).back().launch == launch.launch;
  });
  TROUPE_TRY(renamed, cp::set_aside(files, left));
  std::vector<std::string> out;
  for (size_t i = 0; i < left.size(); ++i)
    out.push_back(fmt::format(
        "{} does not belong to the line of checkpoints that continues: it is set aside as {}",
        left[i].path.string(), renamed[i].filename().string()));
  return out;
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
