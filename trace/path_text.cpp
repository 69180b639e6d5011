// A critical path in words, in numbers, and as JSON.
#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trace/critical_path.hpp"
#include "trace/text.hpp"

namespace troupe::trace {

namespace {

/// Segments of one kind, actor and name together.
struct path_group {
  segment_kind kind{};
  uint32_t actor = nothing;
  std::string what, blame;
  size_t count = 0;
  int64_t ns = 0;
  int tenths = 0;
  int64_t blamed_ns = 0;  ///< of the segment `blame` is from
};

std::vector<path_group> groups_of(const critical_path& p) {
  std::map<std::tuple<segment_kind, uint32_t, std::string>, path_group> by;
  for (const auto& s : p.segments) {
    auto& g = by[{s.kind, s.actor, s.what}];
    g.kind = s.kind;
    g.actor = s.actor;
    g.what = s.what;
    ++g.count;
    g.ns += s.took_ns();
    if (!s.blame.empty() && s.took_ns() > g.blamed_ns) {
      g.blame = s.blame;
      g.blamed_ns = s.took_ns();
    }
  }
  std::vector<path_group> out;
  for (auto& [key, g] : by) out.push_back(std::move(g));
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.ns > b.ns; });
  std::vector<int64_t> parts;
  for (const auto& g : out) parts.push_back(g.ns);
  const auto tenths = shares(parts);
  for (size_t i = 0; i < out.size(); ++i) out[i].tenths = tenths[i];
  return out;
}

struct kind_sum {
  segment_kind kind{};
  int64_t ns = 0;
  int tenths = 0;
};

std::vector<kind_sum> sums_of(const critical_path& p) {
  std::vector<int64_t> ns(segment_kinds);
  for (const auto& s : p.segments) ns[static_cast<size_t>(s.kind)] += s.took_ns();
  const auto tenths = shares(ns);
  std::vector<kind_sum> out;
  for (size_t k = 0; k < segment_kinds; ++k)
    out.push_back({static_cast<segment_kind>(k), ns[k], tenths[k]});
  return out;
}

std::string_view long_name(segment_kind kind) {
  constexpr std::string_view names[] = {"handling messages",
                                        "messages on the way",
                                        "messages in mailboxes",
                                        "device work",
                                        "transfers between ranks",
                                        "files",
                                        "idle",
                                        "held back by a power budget"};
  return names[static_cast<size_t>(kind)];
}

std::string sentence(const timeline& t, const path_group& g) {
  const auto who = t.path(g.actor);
  const auto times = g.count > 1 ? fmt::format(" ({} times)", g.count) : "";
  switch (g.kind) {
    case segment_kind::handling:
      return fmt::format("{} handled {}{}", who, g.what, times);
    case segment_kind::way:
      return fmt::format("{} was on its way to {}{}", g.what, who, times);
    case segment_kind::mailbox:
      return fmt::format("{} lay in the mailbox of {}{}{}", g.what, who, times,
                         g.blame.empty() ? "" : ": " + g.blame);
    case segment_kind::device:
    case segment_kind::file:
      return fmt::format("{} did {}{}", who, g.what, times);
    case segment_kind::transfer:
      return fmt::format("{} waited for the bytes of {}{}", who, g.what, times);
    case segment_kind::power:
      return fmt::format("{} was held back by {}{}", who, g.what, times);
    case segment_kind::idle:
      break;
  }
  return fmt::format("{} waited for {}{}", who, g.what, times);
}

std::string sentence(const timeline& t, const path_wait& w) {
  auto out =
      fmt::format("{} waited {} for the {}", t.path(w.stage), duration_text(w.until_ns - w.from_ns),
                  w.gradient ? "gradient" : "activation");
  if (w.micro_batch >= 0) out += fmt::format(" of micro-batch {}", w.micro_batch);
  out += fmt::format(" from {}", t.path(w.whom));
  if (!w.doing.empty()) out += fmt::format(": {} for {}", w.doing, duration_text(w.doing_ns));
  return out;
}

}  // namespace

std::string path_text(const timeline& t, const critical_path& p, int columns, size_t most) {
  auto out = fmt::format("step {} took {}; its critical path has {} links\n\n", p.step,
                         duration_text(p.took_ns()), p.segments.size());
  std::vector<std::vector<std::string>> rows;
  for (const auto& k : sums_of(p))
    if (k.ns > 0)
      rows.push_back({std::string(long_name(k.kind)), duration_text(k.ns), share_text(k.tenths)});
  out += table_text(rows, columns);
  out += "\nthe longest parts:\n";
  const auto groups = groups_of(p);
  for (size_t i = 0; i < groups.size() && i < most; ++i)
    out += fmt::format("{:>8}  {:>8}  {}\n", share_text(groups[i].tenths),
                       duration_text(groups[i].ns), sentence(t, groups[i]));
  int rest = 0;
  int64_t rest_ns = 0;
  for (size_t i = most; i < groups.size(); ++i) {
    rest += groups[i].tenths;
    rest_ns += groups[i].ns;
  }
  if (groups.size() > most)
    out += fmt::format("{:>8}  {:>8}  {} smaller ones\n", share_text(rest), duration_text(rest_ns),
                       groups.size() - most);
  auto waits = p.waits;
  std::stable_sort(waits.begin(), waits.end(), [](const path_wait& a, const path_wait& b) {
    return a.until_ns - a.from_ns > b.until_ns - b.from_ns;
  });
  if (waits.size() > most) waits.resize(most);
  if (!waits.empty()) out += "\nwho waited for whom:\n";
  for (const auto& w : waits) out += "  " + sentence(t, w) + '\n';
  if (const auto notes = remarks(t); !notes.empty()) {
    out += '\n';
    for (const auto& n : notes) out += "note: " + n + '\n';
  }
  return out;
}

std::string path_json(const timeline& t, const critical_path& p) {
  using json = nlohmann::ordered_json;
  json out;
  out["type"] = "critical_path";
  out["version"] = 1;
  out["step"] = p.step;
  out["took_ns"] = p.took_ns();
  out["kinds"] = json::array();
  for (const auto& k : sums_of(p))
    out["kinds"].push_back(
        {{"kind", to_string(k.kind)}, {"ns", k.ns}, {"percent", k.tenths / 10.0}});
  out["top"] = json::array();
  for (const auto& g : groups_of(p))
    out["top"].push_back({{"kind", to_string(g.kind)},
                          {"actor", t.path(g.actor)},
                          {"what", g.what},
                          {"count", g.count},
                          {"ns", g.ns},
                          {"percent", g.tenths / 10.0},
                          {"text", sentence(t, g)}});
  out["waits"] = json::array();
  for (const auto& w : p.waits)
    out["waits"].push_back({{"actor", t.path(w.stage)},
                            {"whom", t.path(w.whom)},
                            {"tensor", w.gradient ? "gradient" : "activation"},
                            {"micro_batch", w.micro_batch},
                            {"ns", w.until_ns - w.from_ns},
                            {"text", sentence(t, w)}});
  out["segments"] = json::array();
  for (const auto& s : p.segments) {
    json line{{"begin_ns", s.begin_ns - p.begin_ns},
              {"took_ns", s.took_ns()},
              {"kind", to_string(s.kind)},
              {"actor", t.path(s.actor)},
              {"what", s.what}};
    if (s.number >= 0) line["number"] = s.number;
    if (!s.blame.empty()) line["blame"] = s.blame;
    out["segments"].push_back(std::move(line));
  }
  out["remarks"] = remarks(t);
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace troupe::trace
