// Tables, trees and JSON of views.
#include "apps/control/show.hpp"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/trace/text.hpp"
#include "apps/talk.hpp"
#include "io/base/printable.hpp"
#include "messages/any_msg.hpp"
#include "messages/registry.hpp"

namespace troupe::apps {

namespace {

using nlohmann::ordered_json;
using trace::duration_text;

constexpr double ns_per_s = 1e9;

std::string dump(const ordered_json& j) {
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string clock_text(const fbs::ActorListT& n) {
  if (n.node == "head") return "reference";
  if (n.bound_ns < 0) return "unknown";
  return fmt::format("{}{} +- {}", n.offset_ns < 0 ? "-" : "+",
                     duration_text(std::abs(n.offset_ns)), duration_text(n.bound_ns));
}

uint64_t mailbox(const fbs::ActorInfoT& a) {
  return a.received > a.handled ? a.received - a.handled : 0;
}

std::string state_of(const fbs::ActorInfoT& a) {
  if (!a.ended.empty()) return "ended: " + a.ended;
  return a.state.empty() ? "-" : a.state;
}

/// "812 W", "61 C" of a meter's card; empty where it has none.
std::string reading_of(const fbs::ActorInfoT& a, const char* key, const char* unit) {
  const auto detail = ordered_json::parse(a.detail, nullptr, false);
  if (!detail.is_object() || !detail.contains(key) || !detail[key].is_number()) return {};
  return fmt::format("{:.0f} {}", detail[key].get<double>(), unit);
}

/// The same of the meter of a process.
std::string reading_of(const fbs::ActorListT& n, const char* key, const char* unit) {
  for (const auto& a : n.actors)
    if (a->kind == "meter" && a->ended.empty()) return reading_of(*a, key, unit);
  return {};
}

/// What a meter reads stands beside its state.
std::string state_and_readings(const fbs::ActorInfoT& a) {
  auto out = state_of(a);
  if (a.kind != "meter" || !a.ended.empty()) return out;
  for (const auto& text : {reading_of(a, "power_w", "W"), reading_of(a, "temperature_c", "C")})
    if (!text.empty()) out += " " + text;
  return out;
}

std::vector<std::string> row_of(const fbs::ActorInfoT& a, const std::string& indent) {
  return {indent + a.path,
          state_and_readings(a),
          std::to_string(mailbox(a)),
          std::to_string(a.deepest),
          fmt::format("{:.1f}", a.handled_per_s),
          std::to_string(a.handled),
          std::to_string(a.failed),
          duration_text(a.uptime_ns),
          trace::cut(a.last_error, 40)};
}

/// Actors under those that spawned them; what has no parent here stands at the left.
void tree_rows(const fbs::ActorListT& n, std::vector<std::vector<std::string>>& rows) {
  std::map<uint64_t, std::vector<const fbs::ActorInfoT*>> children;
  std::set<uint64_t> here;
  for (const auto& a : n.actors) here.insert(a->key);
  for (const auto& a : n.actors)
    children[here.contains(a->parent) ? a->parent : 0].push_back(a.get());
  std::function<void(uint64_t, int)> walk = [&](uint64_t parent, int depth) {
    for (const auto* a : children[parent]) {
      rows.push_back(row_of(*a, std::string(static_cast<size_t>(2 * depth), ' ')));
      if (a->key != parent) walk(a->key, depth + 1);
    }
  };
  walk(0, 1);
}

ordered_json json_of(const fbs::ActorInfoT& a) {
  ordered_json j;
  j["path"] = a.path;
  j["kind"] = a.kind;
  j["key"] = a.key;
  j["parent"] = a.parent;
  j["state"] = a.state;
  j["state_s"] = static_cast<double>(a.state_for_ns) / ns_per_s;
  auto detail = ordered_json::parse(a.detail, nullptr, false);
  j["detail"] = detail.is_discarded() ? ordered_json(a.detail) : detail;
  j["mailbox"] = mailbox(a);
  j["mailbox_deepest"] = a.deepest;
  j["handled"] = a.handled;
  j["handled_per_s"] = a.handled_per_s;
  j["errors"] = a.failed;
  j["last_error"] = a.last_error;
  j["uptime_s"] = static_cast<double>(a.uptime_ns) / ns_per_s;
  j["ended"] = a.ended;
  j["handling"] = a.handling;
  j["handling_s"] = static_cast<double>(a.handling_for_ns) / ns_per_s;
  j["waits"] = ordered_json::array();
  for (const auto& w : a.waits)
    j["waits"].push_back({{"whom", w->whom},
                          {"what", w->what},
                          {"for_s", static_cast<double>(w->for_ns) / ns_per_s}});
  return j;
}

const fbs::ActorInfoT* find(const fbs::ClusterViewT& view, const std::string& path) {
  for (const auto& n : view.nodes)
    for (const auto& a : n->actors)
      if (a->path == path && a->ended.empty()) return a.get();
  return nullptr;
}

}  // namespace

int terminal_width() {
  return isatty(STDOUT_FILENO) ? terminal_columns(STDOUT_FILENO, 100) : 0;
}

std::string nodes_text(const fbs::ClusterViewT& view, int columns) {
  std::vector<std::vector<std::string>> rows{{"node", "host", "pid", "ranks", "actors", "refused",
                                              "clock", "power", "warmest", "answers"}};
  const auto or_none = [](std::string text) { return text.empty() ? "-" : text; };
  bool metered = false;
  for (const auto& n : view.nodes) {
    const auto power = reading_of(*n, "power_w", "W"), heat = reading_of(*n, "temperature_c", "C");
    metered = metered || !power.empty() || !heat.empty();
    rows.push_back({n->node, n->host, std::to_string(n->pid), or_none(n->ranks),
                    std::to_string(n->actors.size()), std::to_string(n->rejected), clock_text(*n),
                    or_none(power), or_none(heat),
                    n->silent_ns == 0 ? "yes" : "silent for " + duration_text(n->silent_ns)});
  }
  if (!metered)  // no machine has a meter that may be read
    for (auto& row : rows) row.erase(row.end() - 3, row.end() - 1);
  return trace::table_text(rows, columns);
}

std::string actors_text(const fbs::ClusterViewT& view, int columns) {
  std::vector<std::vector<std::string>> rows{{"actor", "state", "mailbox", "deepest", "msg/s",
                                              "handled", "errors", "uptime", "last error"}};
  for (const auto& n : view.nodes) {
    if (n->actors.empty()) continue;
    rows.push_back({n->node, n->silent_ns == 0 ? "" : "silent", "", "", "", "", "", "",
                    n->silent_ns == 0 ? "" : "for " + duration_text(n->silent_ns)});
    tree_rows(*n, rows);
  }
  return trace::table_text(rows, columns);
}

std::string actor_text(const fbs::ActorInfoT& a, const std::string& node) {
  std::string out = fmt::format("{} on {}: {} for {}\n", a.path, node, printable(state_of(a)),
                                duration_text(a.state_for_ns));
  out += fmt::format("  messages   {} handled, {:.1f}/s, {} in the mailbox (most ever {})\n",
                     a.handled, a.handled_per_s, mailbox(a), a.deepest);
  if (!a.handling.empty())
    out += fmt::format("  handling   {} for {}\n", a.handling, duration_text(a.handling_for_ns));
  for (const auto& w : a.waits)
    out +=
        fmt::format("  waits      {} for {} of {}\n", duration_text(w->for_ns), w->what, w->whom);
  if (a.failed > 0)
    out += fmt::format("  errors     {}, last: {}\n", a.failed, printable(a.last_error));
  if (!a.detail.empty())
    out += fmt::format("  detail     {}\n", printable(a.detail, std::string::npos));
  return out;
}

std::string status_text(const fbs::ClusterViewT& view, int columns) {
  const auto h = health_of(view);
  std::string out = fmt::format("{}: {}\n", view.job, h.good ? "healthy" : printable(h.why));
  if (const auto* run = find(view, "run"))
    out += fmt::format("run: {} for {}  {}\n", run->state, duration_text(run->state_for_ns),
                       run->detail);
  return out + nodes_text(view, columns);
}

std::string answers_text(const fbs::CallAnswersT& answers) {
  std::string out;
  for (const auto& a : answers.answers) {
    ordered_json j;
    j["actor"] = a->actor;
    j["node"] = a->node;
    if (a->failure) {
      j["error"] = a->failure->message;
      if (!a->failure->hint.empty()) j["hint"] = a->failure->hint;
    } else if (a->message.empty()) {
      j["answer"] = nullptr;
    } else if (auto m = decode(a->message)) {
      j["message"] = find_message(m->type())->name;
      j["answer"] = ordered_json::parse(to_json(*m), nullptr, false);
    } else {
      j["error"] = m.error().message;
    }
    out += dump(j) + "\n";
  }
  return out;
}

std::string view_json(const fbs::ClusterViewT& view) {
  const auto h = health_of(view);
  ordered_json j;
  j["version"] = 1;
  j["job"] = view.job;
  j["epoch"] = view.epoch;
  j["healthy"] = h.good;
  j["why"] = h.why;
  j["nodes"] = ordered_json::array();
  for (const auto& n : view.nodes) {
    ordered_json o;
    o["node"] = n->node;
    o["host"] = n->host;
    o["pid"] = n->pid;
    o["ranks"] = n->ranks;
    o["silent_s"] = static_cast<double>(n->silent_ns) / ns_per_s;
    o["clock_offset_s"] = static_cast<double>(n->offset_ns) / ns_per_s;
    o["clock_bound_s"] = n->bound_ns < 0
                             ? ordered_json(nullptr)
                             : ordered_json(static_cast<double>(n->bound_ns) / ns_per_s);
    o["refused"] = n->rejected;
    o["actors"] = ordered_json::array();
    for (const auto& a : n->actors) o["actors"].push_back(json_of(*a));
    j["nodes"].push_back(std::move(o));
  }
  return dump(j) + "\n";
}

health health_of(const fbs::ClusterViewT& view) {
  for (const auto& n : view.nodes)
    if (n->silent_ns > 0)
      return {false,
              fmt::format("node {} has not answered for {}", n->node, duration_text(n->silent_ns))};
  for (const auto& n : view.nodes)
    for (const auto& a : n->actors)
      if (a->state == "failed")
        return {false, fmt::format("{} failed: {}", a->path, a->last_error)};
      else if (a->state == "refusing")
        return {false, fmt::format("commands are refused: {}", a->detail)};
  return {};
}

bool all_taken(const fbs::CallAnswersT& answers) {
  return !answers.answers.empty() &&
         std::none_of(answers.answers.begin(), answers.answers.end(),
                      [](const auto& a) { return a->failure != nullptr; });
}

}  // namespace troupe::apps
