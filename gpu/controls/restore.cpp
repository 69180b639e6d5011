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

status undo_any(const control_place& at, const control_record& r) {
  return r.settings.empty() ? undo_quota(at, r) : undo_settings(at, r);
}

}  // namespace

result<std::vector<restored>> restore(const control_place& at, bool trial) {
  std::vector<restored> out;
  std::error_code code;
  if (!fs::exists(at.records, code)) return out;
  for (const auto& entry : fs::directory_iterator(at.records, code))
    if (entry.path().extension() == record_suffix) out.push_back({entry.path(), {}, {}, {}});
  if (code) return error::system("read " + at.records.string(), code.value());
  std::ranges::sort(out, {}, &restored::file);
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
