// The crash dumper's process, and remains as a trace file.
#include "actors/capture/crash_dumper.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/capture/fast_clock.hpp"
#include "trace/batch.hpp"
#include "trace/trace_file.hpp"

namespace troupe::trace {

namespace {

/// What was under somebody's hands, as a record that ended badly now.
trace_record ended_badly(trace_record r, int64_t now_ns) {
  r.flags |= record_flag::failed;
  r.handling_s =
      static_cast<float>(static_cast<double>(std::max<int64_t>(0, now_ns - r.begin_ns)) * 1e-9);
  return r;
}

batch_content content_of(const flight_remains& remains, int64_t now_ns) {
  batch_content out;
  out.records = remains.records;
  for (const auto& r : remains.unfinished) out.records.push_back(ended_badly(r, now_ns));
  // A writer that died within a record has left half of one.
  std::erase_if(out.records, [](const trace_record& r) { return !is_sound(r); });
  out.works = remains.works;
  for (const auto& known : remains.actors) {
    out.actors.push_back(std::make_unique<fbs::TracedActorT>());
    auto& a = *out.actors.back();
    a.number = known.number;
    a.path = known.path;
    a.kind = known.kind;
    a.parent = known.parent;
  }
  return out;
}

/// In the child.
void dump(pid_t parent) {
  const auto remains = read_flight_memory();
  if (!remains.folder.empty()) static_cast<void>(write_last_box(remains, parent, fast_now_ns()));
}

}  // namespace

std::filesystem::path last_box_path(const std::filesystem::path& folder, const std::string& node,
                                    pid_t pid) {
  return folder / fmt::format("blackbox-{}-{}-end.trace", node, pid);
}

result<std::filesystem::path> write_last_box(const flight_remains& remains, pid_t pid,
                                             int64_t now_ns) {
  batch_head head;
  head.process = remains.process;
  head.node = remains.node;
  head.host = remains.host;
  head.pid = static_cast<uint32_t>(pid);
  head.offset_ns = remains.clock.offset_ns;
  head.bound_ns = remains.node == "head" ? 0 : remains.clock.bound_ns;
  head.unix_ns = unix_minus_steady_ns();
  head.lost = remains.lost;
  const auto path = last_box_path(remains.folder, remains.node, pid);
  auto partial = path;
  partial += ".partial";
  TROUPE_TRY(file, trace_writer::create(partial));
  const auto written = [&]() -> status {
    for (const auto& b : make_batches(head, content_of(remains, now_ns)))
      TROUPE_CHECK(file.append(make_msg<fbs::TraceBatch>({}, b)));
    return file.finish();
  }();
  if (!written) {  // a full disk: half a box is none
    file.discard();
    return written.error();
  }
  std::error_code failed;
  std::filesystem::rename(partial, path, failed);  // KEP-2
  if (failed) return error::system(fmt::format("name {}", path.string()), failed.value());
  return path;
}

result<crash_dumper> crash_dumper::start() {
  TROUPE_CHECK(reserve_flight_memory());
  TROUPE_TRY(child, io::survivor::start("crash-dumper", dump));
  return crash_dumper(std::move(child));
}

}  // namespace troupe::trace
