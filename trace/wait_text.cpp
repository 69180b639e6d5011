// The wait-for graph in words and as JSON, and from the gateway's answer.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/base/printable.hpp"
#include "messages/schemas/control_generated.h"
#include "messages/text.hpp"
#include "trace/text.hpp"
#include "trace/wait_graph.hpp"

namespace troupe::trace {

namespace {

using cluster = std::vector<waiting_process>;

const waiting_actor& at(const cluster& c, actor_place p) {
  return c[p.process].actors[p.actor];
}

std::string where(const waiting_process& p) {
  return fmt::format("node {} (process {}{})", p.node, p.pid,
                     p.host.empty() ? "" : " on " + p.host);
}

std::string sentence(const cluster& c, const wait_edge& e) {
  return fmt::format("{} waits {} for {}: {}{}", at(c, e.from).path, duration_text(e.for_ns),
                     at(c, e.to).path, e.what, e.implied ? " (so it follows)" : "");
}

std::string list(const std::vector<std::string>& names) {
  constexpr size_t most = 8;
  std::string out;
  for (size_t i = 0; i < names.size() && i < most; ++i) out += (i > 0 ? ", " : "") + names[i];
  if (names.size() > most) out += fmt::format(" and {} more", names.size() - most);
  return out;
}

std::string sentence(const cluster& c, const culprit& x) {
  const auto& process = c[x.process];
  const auto place = x.place.empty() ? "" : fmt::format(" [{}]", x.place);
  const auto& who = x.actors.empty() ? process.node : x.actors.front();
  std::string out;
  switch (x.kind) {
    case culprit_kind::silent:
      out = fmt::format("{}{} has not answered for {}; its actors: {}", where(process), place,
                        duration_text(x.for_ns), x.actors.empty() ? "none known" : list(x.actors));
      break;
    case culprit_kind::busy: {
      std::string message = "a message";
      for (const auto& a : process.actors)
        if (a.path == who) message = a.handling;
      out = fmt::format("{}{} on {} has been handling {} for {}", who, place, where(process),
                        message, duration_text(x.for_ns));
      break;
    }
    case culprit_kind::missing:
      out = fmt::format("{}{} does not exist, and is waited for from {}, for {}", who, place,
                        where(process), duration_text(x.for_ns));
      break;
    case culprit_kind::idle: {
      std::string state;
      for (const auto& a : process.actors)
        if (a.path == who && !a.state.empty())
          state = a.state_for_ns > 0 ? fmt::format("; its state is {} since {}", a.state,
                                                   duration_text(a.state_for_ns))
                                     : fmt::format("; its state is {}", a.state);
      out = fmt::format("{}{} on {} waits for nobody{}", who, place, where(process), state);
      break;
    }
  }
  if (x.waiters > 0)
    out += fmt::format("; {} {} for it", x.waiters, x.waiters == 1 ? "actor waits" : "actors wait");
  return out;
}

nlohmann::ordered_json json_of(const cluster& c, const wait_edge& e) {
  nlohmann::ordered_json out;
  out["from"] = at(c, e.from).path;
  out["to"] = at(c, e.to).path;
  out["what"] = e.what;
  out["for_ns"] = e.for_ns;
  if (e.implied) out["implied"] = true;
  return out;
}

nlohmann::ordered_json list_of(const cluster& c, const std::vector<wait_edge>& edges) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& e : edges) out.push_back(json_of(c, e));
  return out;
}

nlohmann::ordered_json json_of(const cluster& c, const culprit& x) {
  constexpr std::string_view kinds[] = {"silent", "busy", "missing", "idle"};
  const auto& p = c[x.process];
  nlohmann::ordered_json out;
  out["kind"] = kinds[static_cast<size_t>(x.kind)];
  out["node"] = p.node;
  out["host"] = p.host;
  out["pid"] = p.pid;
  out["actors"] = x.actors;
  out["place"] = x.place;
  out["for_ns"] = x.for_ns;
  out["waiters"] = x.waiters;
  out["chain"] = list_of(c, x.chain);
  out["text"] = sentence(c, x);
  return out;
}

nlohmann::ordered_json list_of(const cluster& c, const std::vector<culprit>& all) {
  auto out = nlohmann::ordered_json::array();
  for (const auto& x : all) out.push_back(json_of(c, x));
  return out;
}

/// A quoted name of a graph: what others said neither ends it nor begins a line.
std::string dot_text(std::string_view text) {
  std::string out = "\"";
  for (const char x : printable(text)) {
    if (x == '"' || x == '\\') out += '\\';
    out += x;
  }
  return out + '"';
}

std::string section(const cluster& c, std::string_view one, std::string_view many,
                    const std::vector<culprit>& all, size_t most) {
  if (all.empty()) return {};
  auto out = fmt::format("{}:\n", all.size() == 1 ? one : many);
  for (size_t i = 0; i < all.size() && i < most; ++i) {
    out += fmt::format("  {}\n", sentence(c, all[i]));
    for (const auto& e : all[i].chain) out += fmt::format("    {}\n", sentence(c, e));
  }
  if (all.size() > most) out += fmt::format("  ... and {} more\n", all.size() - most);
  return out;
}

/// Who waits for the pacer is held back by a budget: by which, says its state.
std::string state_of(const fbs::ActorInfo& info) {
  const auto* p = info.values() != nullptr ? info.values()->pacer() : nullptr;
  const auto parent = p != nullptr ? text_of(p->parent()) : std::string();
  if (p == nullptr || (p->budget_w() <= 0 && parent.empty())) return text_of(info.state());
  const auto watts = p->budget_w() > 0 ? fmt::format(" {:.4g} W", p->budget_w()) : " its budget";
  auto out = fmt::format("keeping{}{} by a pace of {:.0f} %", watts,
                         parent.empty() ? "" : " of " + parent, p->pace_percent());
  if (const auto why = text_of(p->reason()); !why.empty()) out += " (" + why + ")";
  return out;
}

waiting_actor actor_of(const fbs::ActorInfo& info) {
  waiting_actor a;
  a.path = text_of(info.path());
  a.state = state_of(info);
  a.state_for_ns = info.state_for_ns();
  if (const auto* s = info.values() != nullptr ? info.values()->stage() : nullptr)
    a.place = grid_place{static_cast<int>(s->data_rank()), 0, static_cast<int>(s->pipeline_rank())};
  a.handling = text_of(info.handling());
  a.handling_for_ns = info.handling_for_ns();
  if (const auto* waits = info.waits())
    for (const auto* w : *waits)
      a.waits.push_back({text_of(w->whom()), text_of(w->what()), w->for_ns()});
  return a;
}

}  // namespace

std::string wait_text(const std::vector<waiting_process>& c, const wait_report& r) {
  constexpr size_t most = 10;
  std::string out;
  for (const auto& cycle : r.cycles) {
    out += "deadlock: these wait for each other\n";
    for (const auto& e : cycle) out += fmt::format("  {}\n", sentence(c, e));
  }
  out += section(c, "culprit", "culprits", r.culprits, most);
  out += section(c, "waits for nobody either, probably a victim",
                 "wait for nobody either, probably victims", r.suspects, most);
  if (out.empty()) return "nobody waits for anybody\n";
  if (!r.edges.empty()) out += fmt::format("all {} waits, the longest first:\n", r.edges.size());
  for (size_t i = 0; i < r.edges.size() && i < 2 * most; ++i)
    out += fmt::format("  {}\n", sentence(c, r.edges[i]));
  if (r.edges.size() > 2 * most)
    out += fmt::format("  ... and {} more\n", r.edges.size() - 2 * most);
  return out;
}

std::string wait_json(const std::vector<waiting_process>& c, const wait_report& r) {
  nlohmann::ordered_json out;
  out["type"] = "wait_graph";
  out["version"] = 1;
  out["culprits"] = list_of(c, r.culprits);
  out["suspects"] = list_of(c, r.suspects);
  out["deadlocks"] = nlohmann::ordered_json::array();
  for (const auto& cycle : r.cycles) out["deadlocks"].push_back(list_of(c, cycle));
  out["waits"] = list_of(c, r.edges);
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string wait_dot(const std::vector<waiting_process>& c, const wait_report& r) {
  const auto name = [&](actor_place p) {
    return dot_text(fmt::format("{} ({})", at(c, p).path, c[p.process].node));
  };
  std::string out = "digraph waits {\n  rankdir=LR;\n  node [shape=box];\n";
  for (const auto& x : r.culprits)
    for (const auto& path : x.actors) {
      const bool missing = x.kind == culprit_kind::missing;
      const auto who = missing ? path : fmt::format("{} ({})", path, c[x.process].node);
      out += fmt::format("  {} [color=red, penwidth=2];\n", dot_text(who));
      if (missing) out += fmt::format("  {} -> {};\n", dot_text(c[x.process].node), dot_text(who));
    }
  for (const auto& e : r.edges)
    out += fmt::format("  {} -> {} [label={}{}];\n", name(e.from), name(e.to),
                       dot_text(fmt::format("{}, {}", e.what, duration_text(e.for_ns))),
                       e.implied ? ", style=dashed" : "");
  return out + "}\n";
}

wait_report shortened(wait_report r, size_t most_edges, size_t most_others) {
  const auto cut = [](auto& list, size_t most) {
    if (list.size() > most) list.erase(list.begin() + static_cast<ptrdiff_t>(most), list.end());
  };
  cut(r.edges, most_edges);
  for (auto* all : {&r.culprits, &r.suspects}) {
    cut(*all, most_others);
    for (auto& x : *all) {
      cut(x.actors, most_others);
      cut(x.chain, most_others);
    }
  }
  cut(r.cycles, most_others);
  for (auto& cycle : r.cycles) cut(cycle, most_others);
  return r;
}

std::vector<waiting_process> waits_of(const fbs::ClusterView& view) {
  std::vector<waiting_process> out;
  if (view.nodes() == nullptr) return out;
  for (const auto* node : *view.nodes()) {
    auto& p = out.emplace_back();
    p.node = text_of(node->node());
    p.host = text_of(node->host());
    p.pid = node->pid();
    p.ranks = text_of(node->ranks());
    p.silent_ns = node->silent_ns();
    if (node->actors() == nullptr) continue;
    for (const auto* a : *node->actors())
      if (text_of(a->ended()).empty()) p.actors.push_back(actor_of(*a));
  }
  return out;
}

}  // namespace troupe::trace
