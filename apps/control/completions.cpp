// What may stand at the end of a console's line.
#include <algorithm>
#include <utility>

#include "actors/train/requests_policy.hpp"
#include "apps/control/commands.hpp"
#include "apps/control/split_line.hpp"
#include "io/base/printable.hpp"
#include "messages/contract.hpp"
#include "messages/registry.hpp"

namespace troupe::apps {

namespace {

std::vector<std::string> actors_in(const fbs::ClusterViewT& view) {
  std::vector<std::string> out;
  for (const auto& n : view.nodes)
    for (const auto& a : n->actors)
      if (a->ended.empty()) out.push_back(a->path);
  return out;
}

std::vector<std::string> nodes_in(const fbs::ClusterViewT& view) {
  std::vector<std::string> out;
  for (const auto& n : view.nodes)
    if (n->node != "head") out.push_back(n->node);
  return out;
}

/// All of them to ask about; those that a person may have sent (CON-4) to send.
std::vector<std::string> message_names(bool to_send) {
  std::vector<std::string> out;
  for (const auto& m : all_messages()) {
    const auto from = audience_of(m.id);
    const bool of_persons = from == audience::reader || from == audience::operator_;
    if (!to_send || (of_persons && m.name != "CallActor")) out.emplace_back(m.name);
  }
  return out;
}

std::vector<std::string> word_names() {
  std::vector<std::string> out;
  for (const auto& w : words()) out.emplace_back(w.name);
  return out;
}

/// What of begun JSON stands in its outermost object itself, rather than in one within.
struct outermost_object {
  std::string text;
  bool is_last = false;  ///< what follows stands in it, too
};

outermost_object outermost_in(std::string_view json) {
  outermost_object out;
  std::string open;
  bool in_string = false, is_escaped = false;
  for (const char c : json) {
    if (open == "{") out.text += c;
    if (std::exchange(is_escaped, false)) continue;
    if (in_string && c == '\\')
      is_escaped = true;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '{' || c == '['))
      open += c;
    else if (!in_string && (c == '}' || c == ']') && !open.empty())
      open.pop_back();
  }
  out.is_last = open == "{";
  return out;
}

/// The fields of a message that its JSON does not name yet: `{"step":` after what is typed, where
/// that is JSON and a name may stand at its end. What is within a field is not known by name.
std::vector<std::string> fields_of(const std::string& message, const std::string& typed) {
  std::vector<std::string> out;
  const auto* info = find_message(std::string_view(message));
  if (info == nullptr || (!typed.empty() && typed.front() != '{')) return out;
  const auto quote = typed.rfind('"');
  const bool in_name =
      quote != std::string::npos && std::count(typed.begin(), typed.end(), '"') % 2;
  const auto before = in_name ? typed.substr(0, quote) : typed;
  const auto behind = before.find_last_not_of(" \t");
  if (behind != std::string::npos && before[behind] != '{' && before[behind] != ',') return out;
  const auto outer = outermost_in(before);
  if (!before.empty() && !outer.is_last) return out;
  for (const auto& f : info->fields) {
    const auto name = "\"" + std::string(f.name) + "\":";
    if (outer.text.find(name) != std::string::npos) continue;
    out.push_back((before.empty() ? "{" : before) + name);
  }
  return out;
}

/// What may stand at place `at` of a line whose first words are given.
std::vector<std::string> candidates(const fbs::ClusterViewT& view,
                                    const std::vector<std::string>& line, size_t at,
                                    const std::string& typed) {
  if (at == 0) return word_names();
  const auto& first = line[0];
  const size_t actor_at = first == "call" ? 2 : 1;
  if (first == "send" || first == "call") {
    if (at == actor_at) return actors_in(view);
    if (at == actor_at + 1) return message_names(true);
    if (at == actor_at + 2) return fields_of(line[actor_at + 1], typed);
    return {};
  }
  if (at > 2) return {};
  if (at == 1 && (first == "actors" || first == "status" || first == "kill"))
    return actors_in(view);
  if (at == 1 && (first == "drain" || first == "evict" || first == "replace" || first == "nodes" ||
                  first == "blackbox" || first == "doctor"))
    return nodes_in(view);
  if (at == 1 && first == "log") return {"trace", "debug", "info", "warn", "error", "off"};
  if (at == 2 && first == "log") return nodes_in(view);
  if (at == 1 && first == "power") return {"why", "budget", "brake"};
  if (at == 2 && first == "power" && line[1] == "brake") return {"on", "off"};
  if (at == 1 && first == "checkpoint") return {"now"};
  if (at == 2 && first == "rewind") return {"skip"};
  if (at == 1 && first == "set") {
    const auto keys = train::changeable_settings();
    return {keys.begin(), keys.end()};
  }
  if (at == 1 && first == "help") {
    auto all = word_names();
    auto messages = message_names(false);
    all.insert(all.end(), messages.begin(), messages.end());
    return all;
  }
  return {};
}

/// The last word of a line that is still typed.
struct last_word {
  std::vector<std::string> before;  ///< the words before it
  std::string text;                 ///< without its quotes
  char quote = 0;                   ///< that is open in it
  bool takes_json = false;          ///< JSON that goes on at its end stands for itself
};

last_word last_word_of(std::string_view line) {
  auto typed = words_so_far(line);
  last_word out;
  out.quote = typed.json ? '\0' : typed.open;
  out.takes_json = !typed.within || typed.json || out.quote == '\'';
  if (typed.within) {
    out.text = std::move(typed.words.back());
    typed.words.pop_back();
  }
  if (!typed.words.empty() && typed.words.front() == "watch")
    typed.words.erase(typed.words.begin());
  out.before = std::move(typed.words);
  return out;
}

std::string common_beginning(const std::vector<std::string>& all) {
  auto common = all.front();
  for (const auto& one : all) {
    const auto differs = std::mismatch(common.begin(), common.end(), one.begin(), one.end()).first;
    common.erase(differs, common.end());
  }
  return common;
}

}  // namespace

std::vector<std::string> completions(const fbs::ClusterViewT& view, std::string_view line) {
  const auto typed = last_word_of(line);
  const auto& last = typed.text;
  auto all = candidates(view, typed.before, typed.before.size(), last);
  std::erase_if(all, [&](const auto& c) { return !c.starts_with(last); });
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

completion complete_line(const fbs::ClusterViewT& view, std::string_view line) {
  completion out{"", completions(view, line)};
  std::erase_if(out.all, [](const auto& c) { return printable(c) != c; });  // nobody types such
  if (out.all.empty()) return out;
  const auto typed = last_word_of(line);
  const bool json = out.all.front().starts_with('{');
  // Elsewhere each quote of JSON is typed as \", which no candidate has.
  if (json && !typed.takes_json) return out;
  out.more = common_beginning(out.all).substr(typed.text.size());
  if (out.all.size() > 1 || json) return out;  // JSON goes on behind a name
  if (typed.quote != 0) out.more += typed.quote;
  out.more += ' ';
  return out;
}

}  // namespace troupe::apps
