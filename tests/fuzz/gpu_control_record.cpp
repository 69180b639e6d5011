// Any bytes as the record of a change of the machine, and as what the kernel says of processes and
// their groups: refused, or what is then undone is a group with a name of ours, or settings.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "gpu/controls/control_record.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace controls = gpu::controls;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)controls::start_ticks(text);
  if (const auto place = controls::cpu_place(text, "/m"))
    must(place->group.lexically_normal().string().starts_with("/m"), "CGP-2");
  const auto record = controls::parse_record(text);
  if (!record) {
    must(record.error().is(controls::no_control_record), "CRE-1: refused as what it is");
    return 0;
  }
  if (record->settings.empty()) {
    const std::filesystem::path group(record->group);
    must(group.is_absolute() && group.lexically_normal() == group, "CRE-1: a whole path");
    must(group.filename().string().starts_with(controls::group_prefix), "CRE-1: a name of ours");
    must(!record->stays_at, "CRE-3: no group stays");
  }
  for (const auto& s : record->settings)
    must(controls::names_setting(record->kind, s.where), "CRE-1: a setting of ours");
  if (record->stays_at)
    must(*record->stays_at >= 0 && *record->stays_at <= controls::whole_pace, "CRE-3: a pace");
  const auto again = controls::parse_record(controls::record_text(*record));
  must(again && *again == *record, "what is written is read");
  return 0;
}
