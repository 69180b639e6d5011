// Soundness before a start.
#include "actors/checkpoint/catalog.hpp"

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

bool is_checkpoint(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (folder.empty()) return false;
  return std::filesystem::exists(folder / state_file, ignored) ||
         std::filesystem::exists(folder / cp::manifest_file, ignored);
}

status verify(const std::filesystem::path& checkpoint, const cp::work_options& options) {
  auto sound = [&]() -> status {
    TROUPE_TRY(r, cp::reader::open(checkpoint));
    TROUPE_TRY(report, r.verify(options));
    if (report.damages.empty()) return {};
    return error{errc::bad_data,
                 fmt::format("{}: {}", checkpoint.string(), cp::render(report.damages.front()))};
  }();
  if (sound) return {};
  auto e = sound.error();
  if (e.code == errc::not_found)
    e = {errc::bad_data, fmt::format("{} has no {}", checkpoint.string(), cp::manifest_file)};
  if (e.hint.empty()) e.hint = what_to_do;
  return e;
}

namespace {

entry entry_of(const std::filesystem::path& path, const cp::reader& r) {
  const auto& head = r.content().head;
  return {path, head.step, cp::line_of(head)};
}

/// The newest sound one; an error where there are some and none is (CAT-2).
result<start> newest(const std::filesystem::path& dir, const std::filesystem::path& second) {
  start out;
  std::vector<std::filesystem::path> dirs{dir};
  if (!second.empty()) dirs.push_back(second);
  TROUPE_TRY(choice, cp::newest_that_verifies(dirs));
  for (const auto& r : choice.rejected)
    out.passed_over.push_back(
        fmt::format("{} is damaged and passed over: {}", r.path.string(), r.why.message));
  for (const auto& path : choice.left)
    out.passed_over.push_back(
        fmt::format("{} is passed over: it was set aside in the other tier", path.string()));
  if (choice.path) {
    TROUPE_TRY(r, cp::reader::open(*choice.path));
    out.from = entry_of(*choice.path, r);
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
std::filesystem::path settled_path(const std::filesystem::path& named,
                                   const std::filesystem::path& dir,
                                   const std::filesystem::path& second) {
  std::error_code code;
  const auto real = std::filesystem::canonical(named, code);
  if (code) return named;
  for (const auto& tier : {dir, second})
    if (!tier.empty() && std::filesystem::equivalent(real.parent_path(), tier, code))
      return tier / real.filename();
  return named;
}

}  // namespace

result<start> resume_from(const std::string& resume, const std::filesystem::path& dir,
                          const std::filesystem::path& second) {
  if (resume == "never") return start{};
  if (resume == "auto") return newest(dir, second);
  if (!is_checkpoint(resume))
    return error{errc::not_found, fmt::format("checkpoint.resume: {} is no checkpoint", resume),
                 "name a step-NNNNNNNN folder, or use \"auto\" or \"never\""};
  TROUPE_CHECK(verify(resume));
  TROUPE_TRY(r, cp::reader::open(resume));
  return start{entry_of(settled_path(resume, dir, second), r), {}};
}

cp::origin origin_of(const std::optional<entry>& from) {
  cp::origin out{cp::draw_launch(), {}, {}};
  if (!from) return out;
  out.from = from->line;
  out.checkpoint = std::filesystem::absolute(from->path).lexically_normal();
  return out;
}

result<std::vector<std::string>> set_aside(const std::filesystem::path& dir,
                                           const cp::origin& launch) {
  TROUPE_TRY(all, cp::list(dir));
  auto left = cp::left_behind(all, launch.from);
  // What cannot be read and was not marked by us is somebody else's; nodes may be training already.
  std::erase_if(left, [&](const cp::entry& e) {
    if (!e.head) return cp::claim_of(e.path).files.empty();
    return launch.launch != 0 && cp::line_of(*e.head).back().launch == launch.launch;
  });
  TROUPE_TRY(renamed, cp::set_aside(io::local_files(), left));
  std::vector<std::string> out;
  for (size_t i = 0; i < left.size(); ++i)
    out.push_back(fmt::format("{} is not of the line that goes on: it is {} from now on",
                              left[i].path.string(), renamed[i].filename().string()));
  return out;
}

result<leftovers> remove_leftovers(const std::filesystem::path& dir) {
  leftovers out;
  TROUPE_TRY(all, cp::list(dir));
  for (const auto& e : all) {
    const bool partial = e.name.state == cp::folder_state::partial;
    if ((!partial && e.name.state != cp::folder_state::deleting) ||
        !e.holds.empty())
      continue;
    const auto gone =
        cp::remove(io::local_files(), {e.path, e.name, e.bytes, "left by an interrupted save"});
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
