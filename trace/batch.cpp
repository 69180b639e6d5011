// Cutting records into messages, and checking those of others.
#include "trace/batch.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

namespace troupe::trace {

namespace {

constexpr size_t records_each = 8192;                         // 576 KiB
constexpr size_t message_bytes_each = max_message_bytes / 4;  // beside that, with room to spare
constexpr size_t actors_each = 2048;

fbs::TraceBatchT begin(const batch_head& head) {
  fbs::TraceBatchT b;
  b.process = head.process;
  b.node = head.node;
  b.host = head.host;
  b.pid = head.pid;
  b.offset_ns = head.offset_ns;
  b.bound_ns = head.bound_ns;
  b.subscription = head.subscription;
  b.lost = head.lost;
  b.dropped = head.dropped;
  b.unix_ns = head.unix_ns;
  return b;
}

}  // namespace

int64_t unix_minus_steady_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch() -
                                    steady_clock::now().time_since_epoch())
      .count();
}

std::vector<fbs::TraceBatchT> make_batches(const batch_head& head, batch_content content) {
  std::vector<fbs::TraceBatchT> out;
  size_t record = 0, actor = 0, message = 0;
  uint64_t too_large = 0;
  do {
    auto& b = out.emplace_back(begin(head));
    if (out.size() == 1) b.works = content.works;
    for (; actor < content.actors.size() && b.actors.size() < actors_each; ++actor)
      b.actors.push_back(std::move(content.actors[actor]));
    const auto records = std::min(records_each, content.records.size() - record);
    b.records.resize(records * sizeof(trace_record));
    if (records > 0) std::memcpy(b.records.data(), &content.records[record], b.records.size());
    record += records;
    for (size_t bytes = 0; message < content.messages.size(); ++message) {
      const auto size = content.messages[message]->message.size();
      if (size > message_bytes_each) {  // BAT-1
        ++too_large;
        continue;
      }
      if (bytes + size > message_bytes_each) break;
      bytes += size;
      b.messages.push_back(std::move(content.messages[message]));
    }
  } while (record < content.records.size() || actor < content.actors.size() ||
           message < content.messages.size());
  for (auto& b : out) b.dropped += too_large;
  return out;
}

bool is_sound(const trace_record& r) {
  constexpr float longest_s = 1e9F;  // 30 years
  auto possible = [](float s) { return std::isfinite(s) && std::abs(s) < longest_s; };
  const bool known =
      r.kind == record_kind::handled || r.kind == record_kind::work ||
      (r.kind == record_kind::counter && std::isfinite(std::bit_cast<double>(r.sender)));
  return known && possible(r.handling_s) && possible(r.mailbox_s);
}

result<std::vector<trace_record>> records_of(const fbs::TraceBatch& batch) {
  std::vector<trace_record> out;
  const auto* bytes = batch.records();
  if (bytes == nullptr) return out;
  if (bytes->size() % sizeof(trace_record) != 0)
    return error{errc::bad_data, "the records of a batch end within a record"};
  out.resize(bytes->size() / sizeof(trace_record));
  if (!out.empty()) std::memcpy(out.data(), bytes->data(), bytes->size());
  for (size_t i = 0; i < out.size(); ++i)
    if (!is_sound(out[i]))
      return error{errc::bad_data, fmt::format("invalid record {} of a batch", i)};
  return out;
}

}  // namespace troupe::trace
