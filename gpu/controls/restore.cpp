// One record after the other; see restore.hpp.
#include "gpu/controls/restore.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "gpu/controls/control_journal.hpp"
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

status undo_any(const control_place& at, const control_record& r) {
  return r.settings.empty() ? undo_quota(at, r) : undo_settings(at, r);
}

}  // namespace

result<std::vector<restored>> restore(const control_place& at, bool trial) {
  std::vector<restored> out;
  TROUPE_CHECK(find_records(at.records, out));
  const auto settings = find_records(at.settings, out);
  const bool is_roots = !settings && settings.error().code == errc::permission;
  if (!settings && !is_roots) return settings.error();  // else nothing in it is this user's
  const auto boot = boot_id(at);
  for (auto& r : out) {
    const auto text = io::read_file(r.file, record_bytes);
    auto record = text ? parse_record(*text) : result<control_record>(text.error());
    if (!record) {
      r.outcome = record.error();
      continue;
    }
    r.verdict = judge(*record, boot, started_ticks(at, record->pid));
    if (!trial && r.verdict == record_verdict::undo)
      r.outcome = undo_any(at, *record);
    else if (!trial && r.verdict == record_verdict::forget)
      r.outcome = forget_record(r.file);
    r.record = *std::move(record);
  }
  return out;
}

}  // namespace troupe::gpu::controls
