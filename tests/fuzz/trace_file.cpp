// Fuzzes trace files: any bytes as a file, and any payload in an entry with honest checksums. What
// is accepted must make a timeline, statistics, a critical path that covers its step, and exports.
//
// The first byte chooses the entry point.
#include <cstring>
#include <vector>

#include <spdlog/spdlog.h>

#include "tests/fuzz/must.hpp"
#include "tests/fuzz/trace_bytes.hpp"
#include "trace/critical_path.hpp"
#include "trace/export.hpp"
#include "trace/stats.hpp"

using namespace troupe;
using namespace troupe::trace;

namespace {

void use(trace_contents contents) {
  const auto t = timeline::build(std::move(contents));
  for (size_t i = 1; i < t.events().size(); ++i)
    must(t.events()[i - 1].begin_ns <= t.events()[i].begin_ns, "a timeline is in order");
  must(!stats_json(stats_of(t)).empty(), "statistics");
  for (const auto& s : t.steps()) {
    const auto path = critical_path_of(t, s.number);
    must(bool(path), "a step has a path");
    auto at = path->begin_ns;
    for (const auto& segment : path->segments) {
      must(segment.begin_ns == at && segment.end_ns > at, "CP-1");
      at = segment.end_ns;
    }
    must(at == path->end_ns, "CP-1");
    must(!path_text(t, *path, 80, 3).empty(), "words");
  }
  const text_sink nowhere = [](std::string_view) -> status { return {}; };
  must(bool(export_perfetto(t, nowhere)), "perfetto");
  must(bool(export_otlp(t, {}, nowhere)), "otlp");
  must(bool(export_csv(t, nowhere)), "csv");
  for (const auto& s : t.steps())
    if (const auto drawn = export_mermaid(t, {s.span, 20}, nowhere); !drawn)
      must(drawn.error().code == errc::not_found, "a diagram of what is there");
}

void read(std::span<const uint8_t> file) {
  const file_of_bytes there(file);
  auto reader = trace_reader::open(there.path());
  if (!reader) return;
  batch_checker checker;
  trace_contents contents;
  while (true) {
    auto batch = reader->next();
    must(reader->good_bytes() <= file.size(), "no more is good than there is");
    if (!batch || !*batch) break;
    auto checked = checker.check(***batch);
    if (!checked) continue;
    contents.records += checked->records.size();
    contents.batches.push_back(std::move(*checked));
  }
  contents.works = checker.works();
  use(std::move(contents));
}

/// A file of records that are sound in form, so that what is behind the checks is reached.
std::vector<uint8_t> records(std::span<const uint8_t> bytes) {
  fbs::TraceBatchT b;
  b.process = 7;
  b.works = {"step", "forward", "backward", "send_activation", "receive_activation", "all_reduce"};
  const auto torn = bytes.size() % sizeof(trace_record);
  b.records.assign(bytes.begin(), bytes.end() - static_cast<ptrdiff_t>(torn));
  for (size_t at = 0; at < b.records.size(); at += sizeof(trace_record)) {
    trace_record r;
    std::memcpy(&r, &b.records[at], sizeof(r));
    r.begin_ns %= 1'000'000;
    r.span %= 16;
    r.parent %= 16;
    r.trace %= 4;
    r.actor %= 4;
    r.sender = r.sender % 3 == 0 ? r.sender % 8 : uint64_t{7} << 32 | r.sender % 4;
    r.handling_s = static_cast<float>(r.bytes % 1000) * 1e-6F;
    r.sent_ns = r.begin_ns - (static_cast<int>(r.depth % 2000) - 1000) * int64_t{1000};
    r.mailbox_s = static_cast<float>(r.sent % 2000) * 1e-6F;
    r.kind = r.flags % 2 == 0 ? record_kind::handled : record_kind::work;
    if (r.kind == record_kind::work) r.type %= 7;
    std::memcpy(&b.records[at], &r, sizeof(r));
  }
  const auto m = make_msg<fbs::TraceBatch>(message_context{}, b);
  return honest(m.payload());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = [] {
    spdlog::set_level(spdlog::level::off);
    return true;
  }();
  if (!quiet || size < 1 || size > max_message_bytes / 2) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  if (data[0] % 3 == 0)
    read(rest);
  else
    read(data[0] % 3 == 1 ? honest(rest) : records(rest));
  return 0;
}
