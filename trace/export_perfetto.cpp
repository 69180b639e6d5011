// Trace events for ui.perfetto.dev.
#include <algorithm>
#include <map>

#include "io/base/text.hpp"
#include "trace/critical_path.hpp"
#include "trace/export.hpp"

namespace troupe::trace {

namespace {

/// Where an event is drawn.
struct track {
  uint32_t process = 0;  ///< number in the file, from 1
  uint32_t thread = 0;   ///< likewise, unique in the process
};

struct lane {
  track at;
  int64_t free_ns = 0;  ///< the end of its last slice
};

/// Microseconds with three decimals, from the beginning of the trace: exact nanoseconds.
std::string stamp(int64_t ns) {
  const auto* sign = ns < 0 ? "-" : "";
  const auto x = ns < 0 ? -ns : ns;
  return fmt::format("{}{}.{:03}", sign, x / 1000, x % 1000);
}

class perfetto {
 public:
  perfetto(const timeline& t, text_sink sink)
      : t_(t), out_(std::move(sink)), at_(t.events().size()) {}

  status write() {
    out_.write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    place();
    name_tracks();
    for (uint32_t i = 0; i < t_.events().size() && !out_.broken(); ++i) {
      slice(i);
      arrow(i);
      mailbox(i);
    }
    for (const auto& c : t_.counters()) counter(process_of(c.actor), measured(c), c.at_ns, c.value);
    out_.write("\n],\"otherData\":{");
    const auto bound = t_.bound_ns();
    out_.print("\"clock_bound_ns\":{},\"lost_records\":{},\"dropped_records\":{}}}}}\n",
               bound ? fmt::format("{}", *bound) : "null", t_.counts().lost, t_.counts().dropped);
    return out_.finish();
  }

 private:
  /// Puts every event on a track; opens tracks as they are needed (EXP-1).
  void place() {
    // A viewer takes the track whose number is its process's for the main thread.
    threads_ = static_cast<uint32_t>(t_.processes().size());
    for (uint32_t i = 0; i < t_.events().size(); ++i) {
      const auto& e = t_.event(i);
      const auto begin = e.begin_ns - t_.begin_ns();
      auto& lanes = lanes_[{e.actor, group_of(e)}];
      auto fit = std::find_if(lanes.begin(), lanes.end(),
                              [&](const lane& l) { return l.free_ns <= begin; });
      if (fit == lanes.end()) {
        lanes.push_back({{process_of(e.actor), ++threads_}, 0});
        fit = std::prev(lanes.end());
      }
      fit->free_ns = begin + length(e);
      at_[i] = fit->at;
    }
  }

  /// Handlings, then work by its kind: what a device, a link or a disk does goes on side by side.
  static int group_of(const timeline_event& e, const std::string& name) {
    if (!e.is_work()) return 0;
    return name == "step" ? 1 : 2 + static_cast<int>(kind_of_work(name));
  }
  int group_of(const timeline_event& e) const { return group_of(e, t_.name(e)); }

  static std::string_view group_name(int group) {
    if (group == 0) return "";
    if (group == 1) return " steps";
    switch (static_cast<segment_kind>(group - 2)) {
      case segment_kind::transfer:
        return " link";
      case segment_kind::file:
        return " disk";
      case segment_kind::power:
        return " power";
      default:
        return " device";
    }
  }

  /// A slice of no length could hold neither text nor the end of an arrow.
  static int64_t length(const timeline_event& e) { return std::max<int64_t>(1, e.took_ns()); }

  uint32_t process_of(uint32_t actor) const { return t_.actors()[actor].process + 1; }

  void event(std::string_view text) {
    out_.write(std::exchange(first_, false) ? "" : ",\n");
    out_.write(text);
  }

  void name_tracks() {
    for (uint32_t p = 0; p < t_.processes().size(); ++p) {
      const auto& process = t_.processes()[p];
      const auto name = process.host.empty() ? fmt::format("{} (pid {})", process.node, process.pid)
                                             : fmt::format("{} ({} pid {})", process.node,
                                                           process.host, process.pid);
      event(fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})",
                        p + 1, json_string(name)));
      event(fmt::format(
          R"({{"ph":"M","pid":{},"name":"process_sort_index","args":{{"sort_index":{}}}}})", p + 1,
          process.node == "head" ? 0 : p + 1));
    }
    for (const auto& [key, lanes] : lanes_) {
      const auto& [actor, group] = key;
      for (size_t n = 0; n < lanes.size(); ++n) {
        const auto name = fmt::format("{}{}{}", t_.path(actor), group_name(group),
                                      n > 0 ? fmt::format(" ({})", n + 1) : "");
        const auto& at = lanes[n].at;
        event(fmt::format(
            R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
            at.process, at.thread, json_string(name)));
        event(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_sort_index",)"
                          R"("args":{{"sort_index":{}}}}})",
                          at.process, at.thread,
                          100 * uint64_t{actor} + 10 * static_cast<uint64_t>(group) + n));
      }
    }
  }

  void slice(uint32_t i) {
    const auto& e = t_.event(i);
    const auto& r = e.record;
    const auto& name = t_.name(e);
    auto args = fmt::format(R"("span":"{:016x}","parent":"{:016x}","trace":"{:016x}","bytes":{})",
                            r.span, r.parent, r.trace, r.bytes);
    if (e.is_work())
      args += fmt::format(R"(,"number":{})", r.sender);
    else
      args += fmt::format(
          R"(,"from":{},"waited_us":{},"way_us":{},"in_mailbox_us":{},"mailbox":{},"sent":{})",
          json_string(t_.path(e.sender)), stamp(e.waited_ns()), stamp(e.on_the_way_ns()),
          stamp(e.in_mailbox_ns()), r.depth, r.sent);
    if (e.has(record_flag::failed)) args += R"(,"failed":true)";
    const auto title = e.is_work() && name != "step" ? fmt::format("{} {}", name, r.sender)
                       : e.is_work()                 ? fmt::format("step {}", r.sender)
                                                     : name;
    const auto* kind = e.is_work()                    ? "work"
                       : e.has(record_flag::response) ? "response"
                       : e.has(record_flag::request)  ? "request"
                       : e.has(record_flag::system)   ? "system"
                                                      : "message";
    event(fmt::format(
        R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":"{}","args":{{{}}}}})",
        at_[i].process, at_[i].thread, stamp(e.begin_ns - t_.begin_ns()), stamp(length(e)),
        json_string(title), kind, args));
  }

  /// From where it was sent or asked for to where it was handled or done (EXP-2).
  void arrow(uint32_t i) {
    const auto& e = t_.event(i);
    auto from = t_.sent_in(e);
    auto at = std::min(e.sent_ns, e.begin_ns);
    if (e.is_work()) {
      for (const auto p : t_.with_span(e.record.parent))
        if (!t_.event(p).is_work() && t_.event(p).actor == e.actor) from = p;
      if (from != nothing) at = std::min(t_.event(from).end_ns, e.begin_ns);
    }
    if (from == nothing || from == i) return;
    const auto& f = t_.event(from);
    at = std::clamp(at, f.begin_ns, f.begin_ns + length(f) - 1);
    if (at > e.begin_ns) return;  // clocks that differ: no arrow back in time
    const auto* kind = e.is_work() ? "work" : "message";
    event(fmt::format(R"({{"ph":"s","pid":{},"tid":{},"ts":{},"id":{},"name":"{}","cat":"{}"}})",
                      at_[from].process, at_[from].thread, stamp(at - t_.begin_ns()), i + 1, kind,
                      kind));
    event(fmt::format(
        R"({{"ph":"f","bp":"e","pid":{},"tid":{},"ts":{},"id":{},"name":"{}","cat":"{}"}})",
        at_[i].process, at_[i].thread, stamp(e.begin_ns - t_.begin_ns()), i + 1, kind, kind));
  }

  void mailbox(uint32_t i) {
    const auto& e = t_.event(i);
    if (e.is_work()) return;
    auto& last = depth_[e.actor];
    if (last == e.record.depth) return;
    last = e.record.depth;
    counter(process_of(e.actor), fmt::format("mailbox {}", t_.path(e.actor)), e.end_ns, last);
  }

  void counter(uint32_t process, std::string_view name, int64_t at, double value) {
    event(fmt::format(R"({{"ph":"C","pid":{},"ts":{},"name":{},"args":{{"value":{}}}}})", process,
                      stamp(at - t_.begin_ns()), json_string(name), value));
  }

  /// "node0 gpu0 W", "loss": an actor that measures several things of a kind is called after each.
  std::string measured(const timeline_counter& c) const {
    const std::string_view path = t_.path(c.actor);
    const auto slash = path.find('/');
    return slash == path.npos ? std::string(t_.name(c))
                              : fmt::format("{} {}", path.substr(slash + 1), t_.name(c));
  }

  const timeline& t_;
  text_out out_;
  std::vector<track> at_;
  std::map<std::pair<uint32_t, int>, std::vector<lane>> lanes_;  // by actor and group
  std::map<uint32_t, uint16_t> depth_;
  uint32_t threads_ = 0;
  bool first_ = true;
};

}  // namespace

status export_perfetto(const timeline& t, text_sink sink) {
  return perfetto(t, std::move(sink)).write();
}

}  // namespace troupe::trace
