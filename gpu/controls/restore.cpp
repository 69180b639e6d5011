// One record after the other; see restore.hpp.
#include "gpu/controls/restore.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "gpu/controls/control_journal.hpp"
#include "gpu/controls/seat.hpp"
#include "gpu/controls/setting_governor.hpp"
#include "gpu/controls/thread_quota.hpp"
#include "io/file.hpp"

namespace troupe::gpu::controls {

namespace fs = std::filesystem;

namespace {

/// Appends its records, in the order of their names.
status find_records(const fs::path& folder, std::vector<restored>& out) {
  std::error_code code;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, code))
    if (entry.path().extension() == record_suffix) files.push_back(entry.path());
  const bool is_there =
      code != std::errc::no_such_file_or_directory && code != std::errc::not_a_directory;
  if (code && is_there) return error::system("read " + folder.string(), code.value());
  std::ranges::sort(files);
  for (auto& file : files) out.push_back({std::move(file), {}, {}, {}});
  return {};
}

/// Of settings the seat tells whether somebody governs: a process that has ended as a governor may
/// live on.
result<record_verdict> look_at(const control_place& at, const control_record& r,
                               const std::string& boot) {
  if (r.settings.empty() && is_seen_here(at, r)) return judge(r, boot, started_ticks(at, r.pid));
  if (r.settings.empty())
    return judge(r, boot, holds_threads(r) ? std::optional(r.started) : std::nullopt);
  TROUPE_TRY(governed, is_governed(at, target_of(r)));
  return governed ? record_verdict::in_use : judge(r, boot, std::nullopt);
}

/// Whether its name is the device's: whoever takes that looks for no other.
bool is_named_right(const restored& r, const control_record& record) {
  return record.settings.empty() || r.file.stem().string() == device_of(target_of(record));
}

status undo_any(const control_place& at, const restored& r, const control_record& record) {
  if (!record.settings.empty()) return undo_settings(at, r.file, record);
  return r.verdict == record_verdict::undo ? undo_quota(at, record) : forget_record(r.file);
}

/// CTQ-3: threads that are not seen here keep their group.
bool is_kept_elsewhere(const control_place& at, const control_record& r, const status& undone) {
  return !undone && undone.error().kind == "EBUSY" && r.settings.empty() && !is_seen_here(at, r);
}

result<control_record> record_in(const fs::path& file) {
  TROUPE_TRY(text, io::read_file(file, record_bytes));
  return parse_record(text);
}

void undo_one(const control_place& at, restored& r, control_record record, const std::string& boot,
              bool trial) {
  const auto seen = look_at(at, record, boot);
  if (!seen) {
    r.outcome = seen.error();
    return;
  }
  r.verdict = *seen;
  if (!trial && r.verdict != record_verdict::in_use) r.outcome = undo_any(at, r, record);
  if (is_kept_elsewhere(at, record, r.outcome)) {
    r.verdict = record_verdict::in_use;
    r.outcome = {};
  }
  r.record = std::move(record);
}

}  // namespace

result<std::vector<restored>> restore(const control_place& at, bool trial, left_by whose) {
  std::vector<restored> all, out;
  TROUPE_CHECK(find_records(at.records, all));
  const auto settings = find_records(at.settings, all);
  const bool is_roots = !settings && settings.error().code == errc::permission;
  if (!settings && !is_roots) return settings.error();  // else nothing in it is this user's
  const auto boot = boot_id(at);
  for (auto& r : all) {
    auto record = record_in(r.file);
    const bool stays = record && record->stays_at && record->boot == boot;
    if (stays && whose == left_by::jobs) continue;
    if (record && !is_named_right(r, *record))
      record = no_control_record("its name is not that of the device");
    if (record)
      undo_one(at, r, *std::move(record), boot, trial);
    else
      r.outcome = record.error();
    out.push_back(std::move(r));
  }
  return out;
}

}  // namespace troupe::gpu::controls
