// An OTLP/HTTP trace export request as JSON.
#include <algorithm>
#include <unordered_set>

#include "io/base/splitmix.hpp"
#include "io/base/text.hpp"
#include "trace/export.hpp"

namespace troupe::trace {

namespace {

// opentelemetry.proto.trace.v1.Span.SpanKind and Status.StatusCode
constexpr int kind_internal = 1, kind_server = 2, kind_client = 3, kind_producer = 4,
              kind_consumer = 5;
constexpr int status_error = 2;

std::string text_attribute(std::string_view key, std::string_view value) {
  return fmt::format(R"({{"key":"{}","value":{{"stringValue":{}}}}})", key, json_string(value));
}

/// 64-bit integers are strings in protobuf's JSON.
std::string number_attribute(std::string_view key, uint64_t value) {
  return fmt::format(R"({{"key":"{}","value":{{"intValue":"{}"}}}})", key, value);
}

class otlp {
 public:
  otlp(const timeline& t, const otlp_options& options, text_sink sink)
      : t_(t), options_(options), out_(std::move(sink)) {}

  result<uint64_t> write() {
    by_process_.resize(t_.processes().size());
    uint64_t left_out = 0;
    ids_.resize(t_.events().size());
    for (uint32_t i = 0; i < t_.events().size(); ++i) {
      const auto& e = t_.event(i);
      if (e.record.span == 0) {
        ++left_out;
        continue;
      }
      ids_[i] = own_id(e.record.span, i);
      by_process_[e.process].push_back(i);
    }
    out_.write("{\"resourceSpans\":[");
    bool first = true;
    for (uint32_t p = 0; p < by_process_.size() && !out_.broken(); ++p) {
      if (by_process_[p].empty()) continue;
      out_.write(std::exchange(first, false) ? "\n" : ",\n");
      resource(p);
    }
    out_.write("\n]}\n");
    TROUPE_CHECK(out_.finish());
    return left_out;
  }

 private:
  /// A message that was passed on has one span and several records: all but the first get an id of
  /// their own (EXP-3).
  uint64_t own_id(uint64_t span, uint32_t index) {
    auto id = span;
    for (uint64_t n = 0; id == 0 || !used_.insert(id).second; ++n)
      id = splitmix(span ^ splitmix(index + n));
    return id;
  }

  void resource(uint32_t p) {
    const auto& process = t_.processes()[p];
    out_.print(
        "{{\"resource\":{{\"attributes\":[{},{},{},{}]}},\"scopeSpans\":[{{\"scope\":"
        "{{\"name\":\"troupe\"}},\"spans\":[",
        text_attribute("service.name", options_.service),
        text_attribute("service.instance.id", process.node),
        text_attribute("host.name", process.host), number_attribute("process.pid", process.pid));
    bool first = true;
    for (const auto i : by_process_[p]) {
      if (out_.broken()) return;
      out_.write(std::exchange(first, false) ? "\n" : ",\n");
      span(i);
    }
    out_.write("\n]}]}");
  }

  /// Requests are of the kinds of a remote call; messages that want no answer are a queue's.
  static int kind_of(const timeline_event& e) {
    if (e.is_work()) return kind_internal;
    if (e.has(record_flag::request)) return kind_server;
    return e.has(record_flag::response) ? kind_client : kind_consumer;
  }

  uint64_t unix_ns(int64_t at) const {
    const auto ns = at + t_.unix_offset_ns().value_or(0);
    return ns > 0 ? static_cast<uint64_t>(ns) : 0;
  }

  void span(uint32_t i) {
    const auto& e = t_.event(i);
    const auto& r = e.record;
    const auto trace =
        r.trace != 0 ? r.trace : r.span;  // a message outside of any trace is its own
    out_.print(R"({{"traceId":"{:032x}","spanId":"{:016x}",)", trace, ids_[i]);
    const auto parent = ids_[i] != r.span ? r.span : r.parent;  // the first of those passed on
    if (parent != 0 && parent != ids_[i]) out_.print(R"("parentSpanId":"{:016x}",)", parent);
    out_.print(R"("name":{},"kind":{},"startTimeUnixNano":"{}","endTimeUnixNano":"{}",)",
               json_string(t_.name(e)), kind_of(e), unix_ns(e.begin_ns), unix_ns(e.end_ns));
    auto attributes = text_attribute("troupe.actor", t_.path(e.actor));
    const auto add = [&](std::string attribute) { attributes += "," + std::move(attribute); };
    if (e.is_work()) {
      add(number_attribute("troupe.number", r.sender & INT64_MAX));
      add(number_attribute("troupe.bytes", r.bytes));
    } else {
      add(text_attribute("messaging.system", "troupe"));
      add(text_attribute("troupe.sender", t_.path(e.sender)));
      add(number_attribute("messaging.message.body.size", r.bytes));
      add(number_attribute("troupe.waited_ns", static_cast<uint64_t>(e.waited_ns())));
      add(number_attribute("troupe.on_the_way_ns", static_cast<uint64_t>(e.on_the_way_ns())));
      add(number_attribute("troupe.in_mailbox_ns", static_cast<uint64_t>(e.in_mailbox_ns())));
      add(number_attribute("troupe.mailbox", r.depth));
    }
    out_.print(R"("attributes":[{}])", attributes);
    link(e, trace, parent);
    if (e.has(record_flag::failed)) out_.print(R"(,"status":{{"code":{}}})", status_error);
    out_.write("}");
  }

  /// To the handling in which it was sent, where that is not its parent: a later event released it.
  void link(const timeline_event& e, uint64_t trace, uint64_t parent) {
    const auto from = t_.sent_in(e);
    if (from == nothing || ids_[from] == 0 || ids_[from] == parent) return;
    const auto other = t_.event(from).record.trace;
    out_.print(R"(,"links":[{{"traceId":"{:032x}","spanId":"{:016x}"}}])",
               other != 0 ? other : trace, ids_[from]);
  }

  const timeline& t_;
  const otlp_options& options_;
  text_out out_;
  std::vector<std::vector<uint32_t>> by_process_;
  std::vector<uint64_t> ids_;  // by event; 0: left out
  std::unordered_set<uint64_t> used_;
};

}  // namespace

result<uint64_t> export_otlp(const timeline& t, const otlp_options& options, text_sink sink) {
  return otlp(t, options, std::move(sink)).write();
}

}  // namespace troupe::trace
