// Sequences of outputs, then their parts, then their fields.
#include "actors/replay/compare.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/replay/message_parts.hpp"
#include "messages/registry.hpp"

namespace troupe::replay {

namespace {

using json = nlohmann::json;

/// How far ahead a output is looked for that is not where it was.
constexpr size_t look_ahead = 64;

std::string type_of(const fbs::ActorLogEventT& e) {
  const auto m = message_in(e.parts);
  const auto* info = m ? find_message(m.type()) : nullptr;
  if (info != nullptr) return std::string(info->name);
  return e.parts.empty() ? "" : fbs::EnumNameActorLogPartKind(e.parts.front()->kind);
}

bool alike(const fbs::ActorLogEventT& a, const fbs::ActorLogEventT& b) {
  if (a.kind != b.kind || a.peer != b.peer || a.text != b.text) return false;
  if (a.kind == fbs::ActorLogKind::answered && a.request != b.request) return false;
  return type_of(a) == type_of(b);
}

/// Walks two values of JSON.
class fields {
 public:
  fields(comparison& into, std::string said, std::string message)
      : into_(into), said_(std::move(said)), message_(std::move(message)) {}

  void walk(const json& a, const json& b, const std::string& path) {
    if (a == b) return;
    if (a.is_object() && b.is_object()) return members(a, b, path);
    if (a.is_array() && b.is_array() && a.size() == b.size()) {
      for (size_t i = 0; i < a.size(); ++i) walk(a[i], b[i], fmt::format("{}[{}]", path, i));
      return;
    }
    differ(path, a.dump(), b.dump());
  }

  void differ(const std::string& path, std::string a, std::string b) {
    if (const auto full = message_ + "." + path; not_compared().contains(full))
      into_.left_out.insert(full);
    else
      into_.differences.push_back({0, {}, said_, path, std::move(a), std::move(b)});
  }

 private:
  void members(const json& a, const json& b, const std::string& path) {
    const auto at = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
    for (const auto& [key, value] : a.items()) {
      if (b.contains(key))
        walk(value, b[key], at(key));
      else
        differ(at(key), value.dump(), "");
    }
    for (const auto& [key, value] : b.items())
      if (!a.contains(key)) differ(at(key), "", value.dump());
  }

  comparison& into_;
  std::string said_, message_;
};

json json_of(const fbs::ActorLogPartT& p) {
  json out;
  out["kind"] = fbs::EnumNameActorLogPartKind(p.kind);
  if (!p.actors.empty()) out["handles"] = p.actors;
  if (p.atom != 0) out["atom"] = p.atom;
  if (p.failure)
    out["error"] = {{"code", to_string(static_cast<errc>(p.failure->code))},
                    {"message", p.failure->message},
                    {"hint", p.failure->hint},
                    {"kind", p.failure->kind}};
  if (!p.text.empty()) out["text"] = p.text;
  return out;
}

void compare_parts(const fbs::ActorLogEventT& a, const fbs::ActorLogEventT& b, comparison& out) {
  fields walker(out, words_of(a), type_of(a));
  const auto x = message_in(a.parts), y = message_in(b.parts);
  if (x && y) {
    if (x.epoch() != y.epoch())
      walker.differ("(epoch)", fmt::format("{}", x.epoch()), fmt::format("{}", y.epoch()));
    walker.walk(json::parse(to_json(x)), json::parse(to_json(y)), "");
  }
  if (a.parts.size() != b.parts.size())
    return walker.differ("(elements)", fmt::format("{}", a.parts.size()),
                         fmt::format("{}", b.parts.size()));
  for (size_t i = 0; i < a.parts.size(); ++i)
    if (a.parts[i]->kind != fbs::ActorLogPartKind::message)
      walker.walk(json_of(*a.parts[i]), json_of(*b.parts[i]), "");
}

}  // namespace

const std::set<std::string>& not_compared() {
  static const std::set<std::string> names{"Observe.pid", "Observe.host",
                                           "LoaderReady.shared_memory"};
  return names;
}

std::string words_of(const fbs::ActorLogEventT& e) {
  const auto what = summary_of(e.parts);
  const auto whom = !e.path.empty() ? e.path : std::string("another process");
  switch (e.kind) {
    case fbs::ActorLogKind::answered:
      return fmt::format("the answer {} to {}", what, whom);
    case fbs::ActorLogKind::asked:
      return fmt::format("the request {} to {}", what, whom);
    case fbs::ActorLogKind::spawned:
      return fmt::format("the actor it spawned as {}", e.text);
    default:
      return fmt::format("{} to {}", what, whom);
  }
}

comparison compare(const outputs& recorded, const outputs& replayed) {
  comparison out;
  size_t j = 0;
  for (size_t i = 0; i < recorded.size(); ++i) {
    const auto& a = *recorded[i];
    const auto end = std::min(replayed.size(), j + look_ahead);
    size_t k = j;
    while (k < end && !alike(a, *replayed[k])) ++k;
    if (k == end) {
      out.differences.push_back({0, {}, words_of(a), "", summary_of(a.parts), ""});
      continue;
    }
    for (; j < k; ++j)
      out.differences.push_back(
          {0, {}, words_of(*replayed[j]), "", "", summary_of(replayed[j]->parts)});
    out.same.emplace_back(i, k);
    compare_parts(a, *replayed[k], out);
    j = k + 1;
  }
  for (; j < replayed.size(); ++j)
    out.differences.push_back(
        {0, {}, words_of(*replayed[j]), "", "", summary_of(replayed[j]->parts)});
  return out;
}

}  // namespace troupe::replay
