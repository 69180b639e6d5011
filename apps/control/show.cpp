// Tables, trees and JSON of views.
#include "apps/control/show.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/talk.hpp"
#include "io/base/printable.hpp"
#include "io/base/text.hpp"
#include "messages/any_msg.hpp"
#include "messages/message_rows.hpp"
#include "messages/msg.hpp"
#include "messages/registry.hpp"
#include "messages/text.hpp"
#include "trace/text.hpp"

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

/// What meters say; empty where they do not. A wave stands before what is not measured.
std::string power_text(const fbs::MeterStatusT& m) {
  if (m.power_w == fbs::MeterStatusT().power_w) return "";
  return fmt::format("{}{:.0f} W", m.source == fbs::PowerSource::modelled ? "~" : "", m.power_w);
}
std::string heat_text(const fbs::MeterStatusT& m) {
  return m.temperature_c == fbs::MeterStatusT().temperature_c
             ? ""
             : fmt::format("{:.0f} C", m.temperature_c);
}

/// The meter of an actor that lives; nullptr: it is none.
const fbs::MeterStatusT* meter_of(const fbs::ActorInfoT& a) {
  return a.values && a.ended.empty() ? a.values->meter.get() : nullptr;
}

/// What a meter reads stands beside its state.
std::string state_and_readings(const fbs::ActorInfoT& a) {
  auto out = state_of(a);
  if (const auto* m = meter_of(a))
    for (const auto& text : {power_text(*m), heat_text(*m)})
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
          a.last_error};
}

status_value::table rows_of(const fbs::ActorInfoT& a) {
  return a.values ? status_rows(*a.values) : status_value::table{};
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
  j["detail"] = ordered_json::parse(to_json(rows_of(a)));
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

// -- values in words ------------------------------------------------------------------------------

std::string number_text(double x, std::string_view unit) {
  if (std::isnan(x)) return "nan";  // of either sign
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  if (unit.starts_with("bytes") && x >= 0 && x < 1e18)
    return bytes_text(static_cast<uint64_t>(x)) + std::string(unit.substr(5));
  const auto digits = std::abs(x) < 1000 ? fmt::format("{:.4g}", x) : fmt::format("{:.0f}", x);
  return fmt::format("{}{}{}", digits, unit.empty() ? "" : " ", unit);
}

template <class Integer>
std::string number_text(Integer x, std::string_view unit) {
  if (unit == "bytes") return bytes_text(static_cast<uint64_t>(x));
  return fmt::format("{}{}{}", x, unit.empty() ? "" : " ", unit);
}

/// Of a value that is no table and no list of them.
std::string value_text(const status_value& value, std::string_view unit) {
  return std::visit(
      [&](const auto& x) -> std::string {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, bool>) {
          return x ? "yes" : "no";
        } else if constexpr (std::is_arithmetic_v<T>) {
          return number_text(x, unit);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return x.empty() ? "-" : printable(x);
        } else if constexpr (std::is_same_v<T, status_value::list>) {
          std::string out;
          for (const auto& one : x) out += (out.empty() ? "" : ", ") + value_text(one, unit);
          return out.empty() ? "-" : out;
        } else {
          return "-";
        }
      },
      value.what);
}

/// Whether a value comes from a meter, which may be missing; a budget, a cap and a limit are given.
bool is_measured(const status_row& row) {
  constexpr std::array<std::string_view, 5> units{"W", "J", "C", "%", "ms"};
  return std::find(units.begin(), units.end(), row.unit) != units.end() &&
         !row.name.starts_with("budget_") && !row.name.starts_with("cap_") &&
         !row.name.starts_with("limit_");
}

std::string value_text(const status_row& row) {
  const bool absent = std::holds_alternative<std::monostate>(row.value.what);
  return absent && is_measured(row) ? "not measured" : value_text(row.value, row.unit);
}

/// Of a list of tables the elements' rows; nothing where it is another value.
std::vector<const status_value::table*> tables_in(const status_value& value) {
  std::vector<const status_value::table*> out;
  if (const auto* list = std::get_if<status_value::list>(&value.what))
    for (const auto& one : *list)
      if (const auto* rows = std::get_if<status_value::table>(&one.what)) out.push_back(rows);
  return out;
}

/// A line for each value, "checkpoint.slot_bytes  4.0 KiB", then a table for each list of tables.
void add_text(const status_value::table& rows, const std::string& before,
              std::vector<std::vector<std::string>>& lines, std::string& tables, int columns) {
  for (const auto& row : rows) {
    const auto name = before + std::string(row.name);
    const auto elements = tables_in(row.value);
    if (const auto* inner = std::get_if<status_value::table>(&row.value.what)) {
      add_text(*inner, name + ".", lines, tables, columns);
    } else if (elements.empty()) {
      lines.push_back({name, value_text(row)});
    } else {
      std::vector<std::vector<std::string>> cells(1);
      for (const auto& r : *elements.front()) cells.front().emplace_back(r.name);
      cells.front().front() = "  " + name;
      for (const auto* e : elements) {
        auto& to = cells.emplace_back();
        for (const auto& r : *e) to.push_back(value_text(r));
        to.front() = "    " + to.front();
      }
      tables += trace::table_text(std::move(cells), columns);
    }
  }
}

std::string rows_text(const status_value::table& rows, int columns) {
  std::vector<std::vector<std::string>> lines;
  std::string out, tables;
  add_text(rows, "", lines, tables, columns);
  size_t width = 0;
  for (const auto& line : lines) width = std::max(width, line[0].size());
  for (const auto& line : lines) out += fmt::format("  {:<{}}  {}\n", line[0], width, line[1]);
  return out + tables;
}

/// What an actor answered; empty: nothing, for its message has no answer. Errors: its own.
result<any_msg> answer_in(const fbs::CallAnswerT& a) {
  if (a.failure)
    return error{static_cast<errc>(a.failure->code), a.failure->message, a.failure->hint,
                 a.failure->kind};
  if (a.message.empty()) return any_msg{};
  return decode(a.message);
}

void add_error(ordered_json& j, const error& e) {
  j["error"] = e.message;
  j["code"] = to_string(e.code);
  if (!e.hint.empty()) j["hint"] = e.hint;
}

std::string words_of(const msg<fbs::Ack>& m) {
  const auto text = text_of(m->text());
  return text.empty() ? "done" : printable(text);
}

/// The nodes' last heartbeats, as the coordinator heard them.
std::map<std::string_view, const fbs::NodeUsageT*> usage_in(const fbs::ClusterViewT& view) {
  std::map<std::string_view, const fbs::NodeUsageT*> out;
  for (const auto& n : view.nodes)
    for (const auto& a : n->actors)
      if (a->values && a->values->coordinator)
        for (const auto& usage : a->values->coordinator->nodes)
          out.emplace(usage->node, usage.get());
  return out;
}

}  // namespace

std::string values_text(const fbs::ActorInfoT& a, int columns) {
  return rows_text(rows_of(a), columns);
}

int terminal_width() {
  return isatty(STDOUT_FILENO) ? terminal_columns(STDOUT_FILENO, 100) : 0;
}

std::string nodes_text(const fbs::ClusterViewT& view, int columns) {
  std::vector<std::vector<std::string>> rows{{"node", "host", "pid", "ranks", "actors", "refused",
                                              "clock", "answers", "memory", "cpu", "step", "power",
                                              "warmest"}};
  constexpr size_t always = 8;  // further columns stand where somebody has something for them
  std::vector<bool> known(rows[0].size() - always);
  const auto usage = usage_in(view);
  // Of a machine, the node that says its watts.
  std::map<std::string_view, std::string_view> first_on;
  for (const auto& n : view.nodes) {
    auto& row = rows.emplace_back(std::vector<std::string>{
        n->node, n->host, std::to_string(n->pid), n->ranks, std::to_string(n->actors.size()),
        std::to_string(n->rejected), clock_text(*n),
        n->silent_ns == 0 ? "yes" : "silent for " + duration_text(n->silent_ns)});
    row.resize(rows[0].size());
    if (const auto it = usage.find(n->node); it != usage.end()) {
      row[8] = bytes_text(it->second->rss_bytes);
      row[9] = fmt::format("{:.1f} s", it->second->cpu_s);
      row[10] = std::to_string(it->second->step);
    }
    for (const auto& a : n->actors)
      if (const auto* m = meter_of(*a)) {
        row[11] = power_text(*m), row[12] = heat_text(*m);
        if (m->machine.empty() || row[11].empty() || n->silent_ns != 0) continue;
        const auto [first, is_first] = first_on.emplace(m->machine, n->node);
        if (!is_first && first->second != n->node) row[11] = fmt::format("as {}", first->second);
      }
    for (size_t i = 0; i < known.size(); ++i) known[i] = known[i] || !row[always + i].empty();
    for (auto& cell : row)
      if (cell.empty()) cell = "-";
  }
  for (auto& row : rows)
    for (size_t i = known.size(); i-- > 0;)
      if (!known[i]) row.erase(row.begin() + static_cast<ptrdiff_t>(always + i));
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
  // The last error gives way first, then how a mailbox was; who an actor is stays longest.
  constexpr std::array gives_way{trace::column_limit{8, 10}, trace::column_limit{1, 12},
                                 trace::column_limit{0, 16}, trace::column_limit{3},
                                 trace::column_limit{5},     trace::column_limit{7},
                                 trace::column_limit{8},     trace::column_limit{4},
                                 trace::column_limit{6},     trace::column_limit{2}};
  return trace::table_text(std::move(rows), columns, gives_way);
}

std::string actor_text(const fbs::ActorInfoT& a, const std::string& node, int columns) {
  std::string out = fmt::format("{} on {}: {} for {}\n", printable(a.path), printable(node),
                                printable(state_of(a)), duration_text(a.state_for_ns));
  out += fmt::format("  messages   {} handled, {:.1f}/s, {} in the mailbox (most ever {})\n",
                     a.handled, a.handled_per_s, mailbox(a), a.deepest);
  if (!a.handling.empty())
    out += fmt::format("  handling   {} for {}\n", printable(a.handling),
                       duration_text(a.handling_for_ns));
  for (const auto& w : a.waits)
    out += fmt::format("  waits      {} for {} of {}\n", duration_text(w->for_ns),
                       printable(w->what), printable(w->whom));
  if (a.failed > 0)
    out += fmt::format("  errors     {}, last: {}\n", a.failed, printable(a.last_error));
  return out + values_text(a, columns);
}

std::string status_text(const fbs::ClusterViewT& view, int columns) {
  const auto h = health_of(view);
  std::string out =
      fmt::format("{}: {}\n", printable(view.job), h.good ? "healthy" : printable(h.why));
  if (const auto* run = find(view, "run"))
    out += fmt::format("run: {} for {}\n{}", printable(run->state),
                       duration_text(run->state_for_ns), values_text(*run, columns));
  return out + nodes_text(view, columns);
}

std::string answers_text(const fbs::CallAnswersT& answers, int columns) {
  std::string out;
  for (const auto& a : answers.answers) {
    const auto m = answer_in(*a);
    if (!m) continue;
    if (!*m)
      out += fmt::format("{}: done\n", printable(a->actor));
    else if (m->type() == message_traits<fbs::Ack>::id)
      out += fmt::format("{}: {}\n", printable(a->actor), words_of(cast<fbs::Ack>(*m)));
    else
      out += fmt::format("{} of {} answers {}:\n{}", printable(a->actor), printable(a->node),
                         find_message(m->type())->name, rows_text(message_rows(*m), columns));
  }
  return out;
}

std::vector<error> refusals_in(const fbs::CallAnswersT& answers) {
  std::vector<error> out;
  for (const auto& a : answers.answers)
    if (const auto m = answer_in(*a); !m)
      out.push_back(m.error().code == errc::usage
                        ? m.error()
                        : m.error().within(fmt::format("{} of {}", a->actor, a->node)));
  return out;
}

std::string answers_json(const fbs::CallAnswersT& answers) {
  std::string out;
  for (const auto& a : answers.answers) {
    ordered_json j;
    j["actor"] = a->actor;
    j["node"] = a->node;
    if (const auto m = answer_in(*a); !m) {
      add_error(j, m.error());
    } else if (!*m) {
      j["answer"] = nullptr;
    } else {
      j["message"] = find_message(m->type())->name;
      j["answer"] = ordered_json::parse(to_json(message_rows(*m)), nullptr, false);
    }
    out += dump(j) + "\n";
  }
  return out;
}

std::string error_json(const error& e) {
  ordered_json j;
  add_error(j, e);
  return dump(j) + "\n";
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
        return {false,
                fmt::format("commands are refused: {}",
                            a->values && a->values->gateway ? a->values->gateway->audit_log : "")};
  return {};
}

bool all_taken(const fbs::CallAnswersT& answers) {
  return !answers.answers.empty() &&
         std::none_of(answers.answers.begin(), answers.answers.end(),
                      [](const auto& a) { return a->failure != nullptr; });
}

}  // namespace troupe::apps
