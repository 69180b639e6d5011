// Keys to lines.
#include "apps/report/incident_page.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/report/incident_doc.hpp"
#include "io/base/printable.hpp"

namespace troupe::report {

namespace {

using nlohmann::json;

constexpr size_t shown = 12;  ///< of each list (PAG-2)

// -- what may be anything (PAG-1) -----------------------------------------------------------------

const json& at(const json& j, const char* key) {
  static const json none;
  if (!j.is_object()) return none;
  const auto it = j.find(key);
  return it == j.end() ? none : *it;
}

std::string text(const json& j, const char* key, const char* otherwise = "") {
  const auto& v = at(j, key);
  const auto said = v.is_string() ? printable(v.get_ref<const std::string&>()) : std::string();
  return said.empty() ? otherwise : said;
}

/// A whole number that is not negative; -1: there is none.
int64_t number(const json& j, const char* key) {
  const auto& v = at(j, key);
  if (v.is_number_unsigned())
    return static_cast<int64_t>(std::min<uint64_t>(v.get<uint64_t>(), INT64_MAX));
  return v.is_number_integer() ? std::max<int64_t>(-1, v.get<int64_t>()) : -1;
}

/// NaN: there is none.
double real(const json& j, const char* key) {
  const auto& v = at(j, key);
  return v.is_number() ? v.get<double>() : std::nan("");
}

std::string number_in(const json& j, const char* key) {
  const auto n = number(j, key);
  return n < 0 ? "?" : std::to_string(n);
}

const json::array_t& list(const json& j, const char* key) {
  static const json::array_t none;
  const auto& v = at(j, key);
  return v.is_array() ? v.get_ref<const json::array_t&>() : none;
}

std::string more(size_t all) {
  return all > shown ? fmt::format("    ... and {} more\n", all - shown) : "";
}

// -- lines ----------------------------------------------------------------------------------------

/// "noticed after 0.2 s" and so on, of what has come.
std::string spans(const json& j) {
  std::string out;
  constexpr std::pair<const char*, const char*> all[] = {
      {"noticed", "noticed_s"}, {"named", "named_s"}, {"back", "back_s"}};
  for (const auto& [word, key] : all)
    if (const auto s = real(j, key); s >= 0 && std::isfinite(s))
      out += fmt::format("{}{} after {:.1f} s", out.empty() ? "" : ", ", word, s);
  return out;
}

std::string times_line(const json& j) {
  auto out = fmt::format("  fell after step {} at {}", number_in(j, "fell_after_step"),
                         text(at(j, "at"), "fault", "an unknown time"));
  if (const auto said = spans(j); !said.empty()) out += "; " + said;
  if (text(j, "state") != "over") return out + "; not over when this was written\n";
  const auto again = number(j, "steps_repeated");
  return out + fmt::format(" (after step {}{})\n", number_in(j, "resumed_after_step"),
                           again < 0 ? ""
                                     : fmt::format(", {} {} made again", again,
                                                   again == 1 ? "step" : "steps"));
}

std::string rule_text(const json& j) {
  const auto rule = number(j, "rule");
  if (rule < 1) return "none by a rule";
  const auto left = number(j, "times_left");
  return fmt::format(
      "rule {}, {} ({})", rule, text(j, "action", "?"),
      left < 0 ? "it may be applied again any number of times"
               : fmt::format("it may be applied again {} {}", left, left == 1 ? "time" : "times"));
}

std::string finding_text(const json& f) {
  auto out = text(f, "name", "?");
  if (const auto rank = number(f, "rank"); rank >= 0) out += fmt::format(" rank {}", rank);
  if (const auto peer = number(f, "peer"); peer >= 0) out += fmt::format(" and rank {}", peer);
  if (const auto node = text(f, "node"); !node.empty()) out += " " + node;
  out += ": " + text(f, "text", "?");
  const auto unit = text(f, "unit");
  const auto seen = real(f, "seen"), wanted = real(f, "wanted");
  if (!unit.empty() && std::isfinite(seen) && std::isfinite(wanted))
    out += fmt::format(" ({:.4g} {}, {} {:.4g})", seen, unit,
                       seen < wanted ? "at least" : "at most", wanted);
  if (const auto machine = text(f, "doctor"); !machine.empty()) out += "; its machine: " + machine;
  if (const auto s = real(f, "for_s"); std::isfinite(s)) out += fmt::format(", for {:.1f} s", s);
  if (const auto s = real(f, "gone_s"); std::isfinite(s))
    out += fmt::format(", gone {:.1f} s before", s);
  return out;
}

std::string findings_lines(const json& decision) {
  const auto& all = list(decision, "findings");
  if (all.empty()) return "  findings then: none\n";
  std::string out = "  findings then:\n";
  for (size_t i = 0; i < all.size() && i < shown; ++i)
    out += fmt::format("    {}\n", finding_text(all[i]));
  return out + more(all.size());
}

std::string wait_text(const json& w) {
  const auto ns = real(w, "for_ns");
  return fmt::format("{} waits{} for {}: {}", text(w, "from", "?"),
                     std::isfinite(ns) ? fmt::format(" {:.1f} s", ns / 1e9) : "",
                     text(w, "to", "?"), text(w, "what", "?"));
}

/// The end of the graph that names somebody, and how the others come there.
std::string waits_lines(const json& decision) {
  const auto& graph = at(decision, "waits");
  if (!graph.is_object()) return "  waits: no wait graph named anybody\n";
  const auto before = real(graph, "before_s");
  auto out = fmt::format("  waits{}:\n",
                         std::isfinite(before) ? fmt::format(", {:.1f} s before", before) : "");
  for (const auto& cycle : list(graph, "deadlocks")) {
    if (!cycle.is_array()) continue;
    out += "    deadlock:\n";
    for (size_t i = 0; i < cycle.size() && i < shown; ++i)
      out += fmt::format("      {}\n", wait_text(cycle[i]));
  }
  const auto& culprits = list(graph, "culprits");
  for (size_t i = 0; i < culprits.size() && i < shown; ++i)
    out += fmt::format("    culprit: {}\n", text(culprits[i], "text", "?"));
  out += more(culprits.size());
  const auto& waits = list(graph, "waits");
  for (size_t i = 0; i < waits.size() && i < shown; ++i)
    out += fmt::format("    {}\n", wait_text(waits[i]));
  return out + more(waits.size());
}

std::string rank_text(const json& r) {
  auto out = fmt::format("rank {} {}", std::max<int64_t>(0, number(r, "rank")),
                         text(r, "state", "starting"));
  if (const auto whom = number(r, "waits_for"); whom >= 0) out += fmt::format(" for rank {}", whom);
  if (const auto ms = number(r, "for_ms"); ms > 0) out += fmt::format(" since {} ms", ms);
  return out + fmt::format(" (step {})", std::max<int64_t>(0, number(r, "step")));
}

std::string vitals_lines(const json& decision) {
  const auto& all = list(decision, "vitals");
  if (all.empty()) return "";
  std::string out = "  what nodes said last:\n";
  for (size_t i = 0; i < all.size() && i < shown; ++i) {
    const auto& ranks = list(at(all[i], "vitals"), "ranks");
    out += fmt::format("    {}", text(all[i], "node", "?"));
    if (const auto s = real(all[i], "before_s"); std::isfinite(s))
      out += fmt::format(", {:.1f} s before", s);
    for (size_t r = 0; r < ranks.size() && r < shown; ++r)
      out += (r == 0 ? ": " : ", ") + rank_text(ranks[r]);
    if (ranks.size() > shown) out += fmt::format(" and {} more", ranks.size() - shown);
    out += "\n";
  }
  const auto left_out =
      static_cast<size_t>(std::max<int64_t>(0, number(decision, "vitals_left_out")));
  const auto others = left_out + (all.size() > shown ? all.size() - shown : 0);
  return others == 0 ? out : out + fmt::format("    ... and {} more\n", others);
}

std::string decision_lines(const json& j) {
  const auto& all = list(j, "decisions");
  std::string out;
  for (size_t i = 0; i < all.size() && i < shown; ++i) {
    out += fmt::format("  decision at {}: {}: {}\n", text(all[i], "at", "an unknown time"),
                       text(all[i], "finding", "?"), rule_text(all[i]));
    out += findings_lines(all[i]) + waits_lines(all[i]) + vitals_lines(all[i]);
  }
  if (all.empty()) out = fmt::format("  decision: {}\n", rule_text(j));
  return out;
}

std::string black_box_lines(const json& j, const std::string& output) {
  const auto& all = list(j, "black_boxes");
  if (all.empty()) return "  black boxes: none\n";
  std::string out = "  black boxes (troupe trace stats FILE):\n";
  for (size_t i = 0; i < all.size() && i < shown; ++i) {
    const auto name = all[i].is_string() ? printable(all[i].get_ref<const std::string&>()) : "?";
    out += fmt::format("    {}{}{}\n", output, output.empty() ? "" : "/", name);
  }
  return out + more(all.size());
}

}  // namespace

result<json> read_incident(std::string_view bytes, std::string_view name) {
  bool too_deep = false;
  auto j = json::parse(
      bytes,
      [&](int depth, json::parse_event_t, json&) {
        too_deep = too_deep || depth > max_incident_depth;
        return !too_deep;
      },
      false);
  if (too_deep) return no_incident(fmt::format("{} nests deeper than an incident does", name));
  if (j.is_discarded()) return no_incident(fmt::format("{} is no JSON", name));
  if (text(j, "type") != "incident" || number(j, "schema") < 1)
    return no_incident(fmt::format("{} is no incident", name));
  if (const auto schema = number(j, "schema"); schema > incident_schema)
    return later_incident(name, static_cast<int>(std::min<int64_t>(schema, INT32_MAX)));
  return j;
}

std::string incident_page(const json& j, const page_places& places) {
  const auto node = text(j, "node");
  auto out =
      fmt::format("incident {} (epoch {} -> {}), {}: {}\n", number_in(j, "number"),
                  number_in(j, "epoch_from"), number_in(j, "epoch_to"),
                  node.empty() ? "nobody is named" : "node " + node, text(j, "finding", "?"));
  out += fmt::format("  {}\n", text(j, "what", "nothing is known of it"));
  out += times_line(j);
  out += fmt::format("  done: {}\n", text(j, "done", "nothing yet"));
  out += decision_lines(j);
  out += black_box_lines(j, places.output);
  for (const auto& part : list(j, "left_out"))
    if (part.is_string())
      out += fmt::format("  left out, there was no room: {}\n",
                         printable(part.get_ref<const std::string&>()));
  if (!places.folder.empty()) out += fmt::format("  all of it: {}\n", places.folder);
  return out;
}

std::string incident_line(const json& j) {
  return fmt::format("{:>4}  {:<24}  {:<16}  {:<10}  {}", number_in(j, "number"),
                     text(at(j, "at"), "noticed", "?"), text(j, "finding", "?"),
                     text(j, "node", "-"), text(j, "done", "not over when this was written"));
}

}  // namespace troupe::report
