// Exports that are plain text: sequence diagrams and tables.
#include "trace/export_text.hpp"

#include <algorithm>
#include <map>

#include "trace/export.hpp"
#include "trace/text.hpp"

namespace troupe::trace {

namespace {

/// Mermaid has entities of its own for what it would read as syntax.
std::string mermaid_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '#' || c == ';' || c == ':' || c == '<' || c == '>' || c == '"' || c == '%')
      out += fmt::format("#{};", static_cast<int>(c));
    else
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

/// The messages of a trace in the order of their sending, and where its work is noted.
struct diagram_line {
  int64_t at_ns;
  uint32_t event;
};

std::vector<diagram_line> lines_of(const timeline& t, uint64_t trace) {
  std::vector<diagram_line> out;
  for (const auto i : t.of_trace(trace)) {
    const auto& e = t.event(i);
    if (e.is_work() && e.record.span == trace) continue;  // the step itself is the whole diagram
    out.push_back({e.is_work() ? e.begin_ns : std::min(e.sent_ns, e.begin_ns), i});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
  return out;
}

}  // namespace

status export_mermaid(const timeline& t, const mermaid_options& options, text_sink sink) {
  auto lines = lines_of(t, options.trace);
  if (lines.empty())
    return error{errc::not_found, fmt::format("no message has the trace id {:x}", options.trace)};
  const auto all = lines.size();
  if (lines.size() > options.most) lines.resize(options.most);
  std::map<uint32_t, std::string> names;  // in the order in which actors were spawned
  const auto begin = lines.front().at_ns;
  for (const auto& l : lines) {
    const auto& e = t.event(l.event);
    names[e.actor];
    if (!e.is_work()) names[e.sender];
  }
  text_out out(std::move(sink));
  out.write("sequenceDiagram\n  autonumber\n");
  for (auto& [actor, name] : names) {
    name = actor == nothing ? "outside" : fmt::format("a{}", actor);
    out.print("  participant {} as {}\n", name, mermaid_text(t.path(actor)));
  }
  for (const auto& l : lines) {
    const auto& e = t.event(l.event);
    const auto at = duration_text(l.at_ns - begin);
    if (e.is_work())
      out.print("  Note over {}: {} {}, {} after {}\n", names[e.actor], mermaid_text(t.name(e)),
                e.record.sender, duration_text(e.took_ns()), at);
    else
      out.print("  {}{}{}: {} after {}, way {}, mailbox {}, took {}{}\n", names[e.sender],
                e.has(record_flag::response)  ? "-->>"
                : e.has(record_flag::request) ? "->>"
                                              : "-)",
                names[e.actor], mermaid_text(t.name(e)), at, duration_text(e.on_the_way_ns()),
                duration_text(e.in_mailbox_ns()), duration_text(e.took_ns()),
                e.has(record_flag::failed) ? ", failed" : "");
  }
  if (all > lines.size())
    out.print("  Note over {}: ... and {} more\n", names.begin()->second, all - lines.size());
  return out.finish();
}

status export_csv(const timeline& t, text_sink sink) {
  text_out out(std::move(sink));
  out.write(
      "begin_ns,handling_ns,waiting_ns,kind,name,actor,sender,node,bytes,mailbox,sent,request,"
      "response,failed,system,number,span,parent,trace,on_the_way_ns,in_mailbox_ns\n");
  for (const auto& e : t.events()) {
    const auto& r = e.record;
    if (out.broken()) break;
    out.print(
        "{},{},{},{},{},{},{},{},{},{},{},{:d},{:d},{:d},{:d},{},{:016x},{:016x},{:016x},{},{}\n",
        e.begin_ns, e.took_ns(), e.is_work() ? 0 : e.waited_ns(), e.is_work() ? "work" : "handled",
        csv_text(t.name(e)), csv_text(t.path(e.actor)),
        e.is_work() ? "" : csv_text(t.path(e.sender)), csv_text(t.processes()[e.process].node),
        r.bytes, r.depth, r.sent, e.has(record_flag::request), e.has(record_flag::response),
        e.has(record_flag::failed), e.has(record_flag::system),
        e.is_work() ? fmt::format("{}", r.sender) : "", r.span, r.parent, r.trace,
        e.is_work() ? 0 : e.on_the_way_ns(), e.is_work() ? 0 : e.in_mailbox_ns());
  }
  return out.finish();
}

}  // namespace troupe::trace
