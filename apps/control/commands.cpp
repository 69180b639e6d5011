// Parsing and doing.
#include "apps/control/commands.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/control/show.hpp"
#include "io/base/text.hpp"
#include "io/config/properties.hpp"
#include "messages/contract.hpp"
#include "messages/registry.hpp"

namespace troupe::apps {

namespace {

constexpr std::array all_words{
    word{"nodes", "nodes [NODE]", "One line for every process of the cluster"},
    word{"actors", "actors [ACTOR]", "The actors as a tree: state, mailbox, messages/s, errors"},
    word{"status", "status [ACTOR]", "How the cluster is, or all about some actors"},
    word{"send", "send ACTOR MESSAGE [JSON]", "Gives a message to actors; prints what they answer"},
    word{"call", "call MS ACTOR MESSAGE [JSON]", "As send, waiting at most MS milliseconds"},
    word{"pause", "pause [WHY]", "The run stops before its next step"},
    word{"resume", "resume", "Resumes the run"},
    word{"checkpoint", "checkpoint now", "Saves after the current step"},
    word{"stop", "stop [WHY]", "Finishes the step, saves, and ends the run"},
    word{"set", "set KEY VALUE", "Changes a setting of the run, e.g. set train.lr 1e-4"},
    word{"drain", "drain NODE", "Takes a node out of service in order"},
    word{"kill", "kill ACTOR", "Ends an actor at once"},
    word{"log", "log LEVEL [NODE]", "How much the processes log: trace ... off"},
    word{"blackbox", "blackbox [NODE]", "Writes the last seconds of every process to a file"},
    word{"help", "help [WORD or MESSAGE]", "These words, or what a message means"},
    word{"quit", "quit", "Leaves the console; the cluster continues"}};

using arguments = std::vector<std::string>;

error usage_of(std::string_view name) {
  for (const auto& w : all_words)
    if (w.name == name) return {errc::usage, fmt::format("say: {}", w.usage), std::string(w.help)};
  return {errc::usage, fmt::format("unknown console command: {}", name)};
}

std::string rest(const arguments& a, size_t from) {
  return a.size() <= from
             ? std::string()
             : fmt::format("{}", fmt::join(a.begin() + static_cast<ptrdiff_t>(from), a.end(), " "));
}

/// The nearest actor paths, for a path that fits nobody.
error nobody(session& s, const std::string& pattern) {
  error e{errc::not_found, fmt::format("no actor fits {}", pattern)};
  auto view = s.view("", "", false);
  if (!view) return e;
  std::vector<std::string> paths;
  for (const auto& n : view->nodes)
    for (const auto& a : n->actors) paths.push_back(a->path);
  std::vector<std::string_view> all(paths.begin(), paths.end());
  const auto near = nearest(pattern, all);
  e.hint = !near.empty() ? fmt::format("did you mean {}?", near)
                         : fmt::format("the actors are: {}", fmt::join(paths, ", "));
  return e;
}

/// The message from its name and JSON; an error shows what would be right.
result<any_msg> message_of(const std::string& name, const std::string& json) {
  TROUPE_TRY(info, lookup_message(name));
  auto m = from_json(info->name, json.empty() ? "{}" : json);
  if (m) return m;
  auto e = m.error();
  std::string fields;
  for (const auto& f : info->fields)
    fields += fmt::format("{}\"{}\": {}", fields.empty() ? "" : ", ", f.name, f.type);
  e.hint = fmt::format("{} has {{{}}}", info->name, fields);
  return e;
}

/// `timeout_ms` 0: as the contract says.
result<answer> give(session& s, const std::string& actor, const any_msg& m,
                    int64_t timeout_ms = 0) {
  TROUPE_TRY(answers, s.call("", actor, m, timeout_ms));
  if (answers.answers.empty()) return nobody(s, actor);
  return answer{answers_text(answers), all_taken(answers)};
}

template <class T, class Fill>
result<answer> to_run(session& s, Fill fill) {
  return give(s, "run", make_msg<T>({}, fill));
}

result<answer> orders(result<fbs::CallAnswersT> answers) {
  if (!answers) return answers.error();
  if (answers->answers.empty()) return error{errc::not_found, "actor not found"};
  return answer{answers_text(*answers), all_taken(*answers)};
}

/// "Run takes it from an operator, answers Ack within 5000 ms".
std::string in_words(const call_info& c) {
  auto out = fmt::format(
      "{} takes it from {}", c.service == "Component" ? "Every actor" : c.service,
      c.from == audience::node
          ? "nodes"
          : fmt::format("{} {}", c.from == audience::operator_ ? "an" : "a", to_string(c.from)));
  if (c.response == nullptr) return out + ", answers nothing";
  out += fmt::format(", answers {} within {} ms", c.response->name, c.timeout_ms);
  if (c.timeout_key >= 0)
    out += fmt::format(" ({})", timeout_keys()[static_cast<size_t>(c.timeout_key)]);
  return out;
}

result<answer> help(const arguments& a) {
  answer out;
  if (a.size() < 2) {
    for (const auto& w : all_words) out.text += fmt::format("  {:<28}{}\n", w.usage, w.help);
    return out;
  }
  for (const auto& w : all_words)
    if (w.name == a[1]) return answer{fmt::format("{}\n  {}\n", w.usage, w.help)};
  TROUPE_TRY(info, lookup_message(a[1]));
  out.text = fmt::format("{} ({}): {}\n", info->name, info->domain, info->doc);
  for (const auto& f : info->fields)
    out.text += fmt::format("  {:<22}{:<14}{}\n", f.name, f.type, f.doc);
  for (const auto& service : all_services())
    for (const auto& c : service.calls)
      if (c.request == info) out.text += fmt::format("  {}\n", in_words(c));
  return out;
}

result<answer> say_status(session& s, const arguments& a, int columns) {
  TROUPE_TRY(view, s.view("", a.size() > 1 ? a[1] : "", false));
  if (a.size() < 2) return answer{status_text(view, columns), health_of(view).good};
  answer out;
  for (const auto& n : view.nodes)
    for (const auto& actor : n->actors) out.text += actor_text(*actor, n->node, columns);
  if (out.text.empty()) return nobody(s, a[1]);
  return out;
}

result<answer> send(session& s, const arguments& a) {
  if (a.size() < 3) return usage_of("send");
  TROUPE_TRY(m, message_of(a[2], rest(a, 3)));
  return give(s, a[1], m);
}

result<answer> call(session& s, const arguments& a) {
  if (a.size() < 4) return usage_of("call");
  char* end = nullptr;
  const long ms = std::strtol(a[1].c_str(), &end, 10);
  if (*end != '\0' || ms < 1 || ms > 3'600'000) return usage_of("call");
  TROUPE_TRY(m, message_of(a[3], rest(a, 4)));
  return give(s, a[2], m, ms);
}

using handler = std::function<result<answer>(session&, const arguments&, int columns)>;

const std::map<std::string, handler, std::less<>>& handlers() {
  static const std::map<std::string, handler, std::less<>> all{
      {"nodes",
       [](session& s, const arguments& a, int columns) -> result<answer> {
         TROUPE_TRY(view, s.view(a.size() > 1 ? a[1] : "", "", false));
         return answer{nodes_text(view, columns), health_of(view).good};
       }},
      {"actors",
       [](session& s, const arguments& a, int columns) -> result<answer> {
         TROUPE_TRY(view, s.view("", a.size() > 1 ? a[1] : "", false));
         return answer{actors_text(view, columns)};
       }},
      {"status", say_status},
      {"send", [](session& s, const arguments& a, int) { return send(s, a); }},
      {"call", [](session& s, const arguments& a, int) { return call(s, a); }},
      {"pause", [](session& s, const arguments& a,
                   int) { return to_run<fbs::Pause>(s, [&](auto& m) { m.reason = rest(a, 1); }); }},
      {"resume",
       [](session& s, const arguments&, int) { return to_run<fbs::Resume>(s, [](auto&) {}); }},
      {"checkpoint",
       [](session& s, const arguments& a, int) -> result<answer> {
         if (a.size() != 2 || a[1] != "now") return usage_of("checkpoint");
         return to_run<fbs::CheckpointNow>(s, [](auto& m) { m.reason = "asked for"; });
       }},
      {"stop",
       [](session& s, const arguments& a, int) {
         auto m = make_msg<fbs::StopTraining>({}, [&](auto& t) {
           t.reason = a.size() > 1 ? rest(a, 1) : "stopped from the console";
           t.save = true;
         });
         return give(s, "coordinator", m);
       }},
      {"set",
       [](session& s, const arguments& a, int) -> result<answer> {
         if (a.size() != 3) return usage_of("set");
         return to_run<fbs::SetValue>(s, [&](auto& m) {
           m.key = a[1];
           m.value = a[2];
         });
       }},
      {"drain",
       [](session& s, const arguments& a, int) -> result<answer> {
         if (a.size() != 2) return usage_of("drain");
         TROUPE_TRY(said, s.drain(a[1]));
         return answer{said + "\n"};
       }},
      {"kill",
       [](session& s, const arguments& a, int) -> result<answer> {
         if (a.size() != 2) return usage_of("kill");
         TROUPE_TRY(answers, s.kill("", a[1]));
         if (answers.answers.empty()) return nobody(s, a[1]);
         return answer{answers_text(answers), all_taken(answers)};
       }},
      {"log",
       [](session& s, const arguments& a, int) -> result<answer> {
         if (a.size() < 2) return usage_of("log");
         return orders(s.log_level(a.size() > 2 ? a[2] : "", a[1]));
       }},
      {"blackbox", [](session& s, const arguments& a,
                      int) { return orders(s.black_box(a.size() > 1 ? a[1] : "", "asked")); }},
      {"help", [](session&, const arguments& a, int) { return help(a); }},
      {"quit",
       [](session&, const arguments&, int) {
         return result<answer>(answer{"", true, true});
       }},
  };
  return all;
}

}  // namespace

std::string greeting(std::string_view job, std::string_view address, std::string_view who,
                     bool may_change) {
  return fmt::format("connected to {} at {} as {}{}; help lists the words, Tab completes", job,
                     address, who,
                     may_change ? "" : ", read-only: its role is reader, which may only look");
}

std::span<const word> words() {
  return all_words;
}

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> out;
  std::string now;
  int braces = 0;
  bool quoted = false, any = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && quoted && i + 1 < line.size()) {
      if (braces > 0) now += c;
      now += line[++i];
      continue;
    }
    if (c == '"') {
      quoted = !quoted;
      any = true;
      if (braces > 0) now += c;  // part of JSON: it stays
      continue;
    }
    if (!quoted && (c == '{' || c == '[')) ++braces;
    if (!quoted && (c == '}' || c == ']')) --braces;
    if (!quoted && braces <= 0 && (c == ' ' || c == '\t')) {
      if (any) out.push_back(std::exchange(now, {}));
      any = false;
      continue;
    }
    now += c;
    any = true;
  }
  if (any) out.push_back(now);
  return out;
}

result<answer> execute(session& s, std::string_view line, int columns) {
  const auto a = split_words(line);
  if (a.empty()) return answer{};
  const auto found = handlers().find(a[0] == "exit" ? "quit" : a[0]);
  if (found != handlers().end()) return found->second(s, a, columns);
  std::vector<std::string_view> names;
  for (const auto& w : all_words) names.push_back(w.name);
  const auto near = nearest(a[0], names);
  return error{errc::usage, fmt::format("unknown console command: {}", a[0]),
               near.empty() ? "help lists them" : fmt::format("did you mean {}?", near)};
}

}  // namespace troupe::apps
