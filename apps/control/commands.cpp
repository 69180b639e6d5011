// Lines to commands, and doing them.
#include "apps/control/commands.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/control/account.hpp"
#include "apps/control/doctor.hpp"
#include "apps/control/findings.hpp"
#include "apps/control/incident.hpp"
#include "apps/control/power_words.hpp"
#include "apps/control/session.hpp"
#include "apps/control/show.hpp"
#include "apps/control/spares.hpp"
#include "apps/control/split_line.hpp"
#include "apps/swap/live.hpp"
#include "apps/talk.hpp"
#include "io/base/text.hpp"
#include "io/config/properties.hpp"
#include "messages/contract.hpp"
#include "messages/registry.hpp"

namespace troupe::apps {

namespace {

using line_words = std::vector<std::string>;
using meant = std::optional<console_command>;

/// The word at a place of a line; empty where the line is shorter.
std::string at(const line_words& a, size_t place) {
  return place < a.size() ? a[place] : std::string();
}

/// From a place of the line to its end.
std::string rest(const line_words& a, size_t from) {
  return a.size() <= from
             ? std::string()
             : fmt::format("{}", fmt::join(a.begin() + static_cast<ptrdiff_t>(from), a.end(), " "));
}

/// A word that is about one node.
template <class Command>
meant of_node(const line_words& a) {
  if (a.size() != 2) return {};
  return Command{a[1]};
}

meant call(const line_words& a) {
  if (a.size() < 4) return {};
  char* end = nullptr;
  const long ms = std::strtol(a[1].c_str(), &end, 10);
  if (*end != '\0' || ms < 1 || ms > 3'600'000) return {};
  return commands::send{a[2], a[3], rest(a, 4), ms};
}

/// All of a word as a number.
std::optional<uint64_t> number_in(const std::string& text) {
  uint64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

meant incident(const line_words& a) {
  const auto number = a.size() == 2 ? number_in(a[1]) : std::nullopt;
  if (!number || *number == 0) return {};
  return commands::incident{*number};
}

meant expect(const line_words& a) {
  if (a.size() == 1) return commands::expect{};
  const auto rank = a.size() == 3 && a[1] == "why" ? number_in(a[2]) : std::nullopt;
  if (!rank || *rank > UINT32_MAX) return {};
  return commands::expect{static_cast<uint32_t>(*rank)};
}

meant rewind(const line_words& a) {
  if (a.size() != 2 && (a.size() != 4 || a[2] != "skip")) return {};
  const auto step = number_in(a[1]), skip = a.size() == 4 ? number_in(a[3]) : 0;
  if (!step || !skip) return {};
  return commands::rewind{*step, *skip};
}

/// "brake [NAME] on|off", behind "power".
meant brake_words(const line_words& a) {
  if (a.size() < 3 || a.size() > 4 || (a.back() != "on" && a.back() != "off")) return {};
  return commands::power{.name = a.size() == 4 ? a[2] : "", .brake = a.back() == "on"};
}

/// "budget [NAME] WATTS [for TIME]", the same.
meant budget_words(line_words a) {
  commands::power out;
  if (a.size() >= 5 && a[a.size() - 2] == "for") {
    out.for_time = a.back();
    a.resize(a.size() - 2);
  }
  if (a.size() < 3 || a.size() > 4 || a.back() == "for") return {};
  out.budget_w = a.back();
  if (a.size() == 4) out.name = a[2];
  return out;
}

meant power_words(const line_words& a) {
  if (a.size() == 1) return commands::power{};
  if (a[1] == "brake") return brake_words(a);
  if (a[1] == "budget") return budget_words(a);
  if (a[1] == "why" && a.size() <= 3) return commands::power{.why = true, .name = at(a, 2)};
  if (a.size() == 2) return commands::power{.name = a[1]};
  return {};
}

constexpr std::array all_words{
    word{"nodes", "nodes [NODE]", "One line for every process of the cluster",
         [](const line_words& a) -> meant { return commands::nodes{at(a, 1)}; }},
    word{"actors", "actors [ACTOR]", "The actors as a tree: state, mailbox, messages/s, errors",
         [](const line_words& a) -> meant { return commands::actors{.actor = at(a, 1)}; }},
    word{"status", "status [ACTOR]", "How the cluster is, or all about some actors",
         [](const line_words& a) -> meant { return commands::status{.actor = at(a, 1)}; }},
    word{"send", "send ACTOR MESSAGE [JSON]", "Gives a message to actors; prints what they answer",
         [](const line_words& a) -> meant {
           if (a.size() < 3) return {};
           return commands::send{a[1], a[2], rest(a, 3)};
         }},
    word{"call", "call MS ACTOR MESSAGE [JSON]", "As send, waiting at most MS milliseconds", call},
    word{"pause", "pause [WHY]", "The run stops before its next step",
         [](const line_words& a) -> meant { return commands::pause{rest(a, 1)}; }},
    word{"resume", "resume", "Resumes the run",
         [](const line_words&) -> meant { return commands::resume{}; }},
    word{"checkpoint", "checkpoint now", "Saves after the current step",
         [](const line_words& a) -> meant {
           if (a.size() != 2 || a[1] != "now") return {};
           return commands::checkpoint{};
         }},
    word{"stop", "stop [WHY]", "Finishes the step, saves, and ends the run",
         [](const line_words& a) -> meant {
           return commands::stop{a.size() > 1 ? rest(a, 1) : "stopped from the console"};
         }},
    word{"set", "set KEY VALUE", "Changes a setting of the run, e.g. set train.lr 1e-4",
         [](const line_words& a) -> meant {
           if (a.size() != 3) return {};
           return commands::set{a[1], a[2]};
         }},
    word{"rewind", "rewind STEP [skip N]",
         "Goes back to the newest checkpoint of STEP or before, past the data of N steps", rewind},
    word{"drain", "drain NODE", "Saves; a spare comes into the node's place, or the run ends",
         [](const line_words& a) -> meant { return of_node<commands::drain>(a); }},
    word{"evict", "evict NODE", "Takes a node out at once, where a spare can take its place",
         [](const line_words& a) -> meant { return of_node<commands::evict>(a); }},
    word{"admit", "admit NODE", "Lets a drained or evicted node join again, as a spare",
         [](const line_words& a) -> meant { return of_node<commands::admit>(a); }},
    word{"replace", "replace NODE", "Starts a node's process anew; a spare stands in",
         [](const line_words& a) -> meant { return of_node<commands::replace>(a); }},
    word{"spares", "spares", "The nodes that run no ranks",
         [](const line_words&) -> meant { return commands::spares{}; }},
    word{"swap", "swap", "What of the ranks lives on drives, and what was moved",
         [](const line_words&) -> meant { return commands::swap{}; }},
    word{"power", "power [NAME | why [JOB] | budget [NAME] WATTS [for TIME] | brake [NAME] on|off]",
         "What the machines draw; why a job is slow; another budget; hold all work below one",
         power_words},
    word{"kill", "kill ACTOR", "Ends an actor at once",
         [](const line_words& a) -> meant {
           if (a.size() != 2) return {};
           return commands::kill{a[1]};
         }},
    word{"log", "log LEVEL [NODE]", "How much the processes log: trace ... off",
         [](const line_words& a) -> meant {
           if (a.size() < 2) return {};
           return commands::log{a[1], at(a, 2)};
         }},
    word{"blackbox", "blackbox [NODE]", "Writes the last seconds of every process to a file",
         [](const line_words& a) -> meant { return commands::black_box{at(a, 1)}; }},
    word{"findings", "findings", "What is wrong, and who it is",
         [](const line_words&) -> meant { return commands::findings{}; }},
    word{"expect", "expect [why RANK]",
         "What each part of a step should take on each rank, and takes, or what that is made of",
         expect},
    word{"incidents", "incidents", "The last faults that the job went through",
         [](const line_words&) -> meant { return commands::incidents{}; }},
    word{"incident", "incident N", "All that is kept of one of them", incident},
    word{"doctor", "doctor [NODE]", "Examines the machines of nodes, some seconds of work for each",
         [](const line_words& a) -> meant { return commands::doctor{at(a, 1)}; }},
    word{"watch", "watch WORD ...", "The same again every second, until Enter or Ctrl-C",
         [](const line_words&) -> meant { return {}; }},
    word{"help", "help [WORD or MESSAGE]", "These words, or what a message means",
         [](const line_words& a) -> meant { return commands::help{at(a, 1)}; }},
    word{"quit", "quit", "Leaves the console; the cluster continues",
         [](const line_words&) -> meant { return commands::quit{}; }}};

std::vector<std::string_view> all_word_names() {
  std::vector<std::string_view> out;
  for (const auto& w : all_words) out.push_back(w.name);
  return out;
}

/// The command of a line of at least one word.
result<console_command> command_of(const line_words& a) {
  const auto name = a[0] == "exit" ? "quit" : a[0];
  for (const auto& w : all_words) {
    if (w.name != name) continue;
    auto found = w.parse(a);
    if (!found) return another_form(w.usage, w.help);
    return std::move(*found);
  }
  const auto near = nearest(a[0], all_word_names());
  return unknown_word(a[0],
                      near.empty() ? "help lists them" : fmt::format("did you mean {}?", near));
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

/// A pattern that fits nobody is an error in every form: what is said of no actor reads as good.
status somebody(session& s, const fbs::ClusterViewT& view, const std::string& pattern) {
  const auto has_actors = [](const auto& n) { return !n->actors.empty(); };
  if (pattern.empty() || std::any_of(view.nodes.begin(), view.nodes.end(), has_actors)) return {};
  return nobody(s, pattern);
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

/// "Run takes it from an operator, answers Ack within 5000 ms".
std::string in_words(const call_info& c) {
  auto out = fmt::format(
      "{} takes it from {}", c.service == "Component" ? "Every actor" : c.service,
      c.from == audience::node ? "nodes"
      : c.from == audience::power
          ? "jobs that have a key of role power"
          : fmt::format("{} {}", c.from == audience::operator_ ? "an" : "a", to_string(c.from)));
  if (c.response == nullptr) return out + ", answers nothing";
  out += fmt::format(", answers {} within {} ms", c.response->name, c.timeout_ms);
  if (c.timeout_key >= 0)
    out += fmt::format(" ({})", timeout_keys()[static_cast<size_t>(c.timeout_key)]);
  return out;
}

result<std::string> help(const std::string& about) {
  std::string out;
  if (about.empty()) {
    for (const auto& w : all_words) out += fmt::format("  {:<28}{}\n", w.usage, w.help);
    return out;
  }
  for (const auto& w : all_words)
    if (w.name == about) return fmt::format("{}\n  {}\n", w.usage, w.help);
  const auto found = lookup_message(about);
  if (!found) {
    auto e = found.error();
    if (const auto near = nearest(about, all_word_names()); !near.empty())
      e.hint = fmt::format("did you mean {}?", near);
    return e;
  }
  const auto* info = *found;
  out = fmt::format("{} ({}): {}\n", info->name, info->domain, info->doc);
  for (const auto& f : info->fields)
    out += fmt::format("  {:<22}{:<14}{}\n", f.name, f.type, f.doc);
  for (const auto& service : all_services())
    for (const auto& c : service.calls)
      if (c.request == info) out += fmt::format("  {}\n", in_words(c));
  return out;
}

std::string line_of(const nlohmann::ordered_json& j) {
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// What has no other form: {"text":...}.
std::string text_json(const std::string& text) {
  return line_of({{"text", text}});
}

/// One who means all says "*": an empty pattern is a script's unset variable.
status named(const std::string& actor) {
  if (!actor.empty()) return {};
  return error{errc::usage, "no actor is named", "a path, or a pattern: 'worker/*'"};
}

/// Does commands, one overload each.
struct executor {
  session& s;
  answer_form as;

  result<answer> operator()(const commands::nothing&) const { return answer{}; }
  result<answer> operator()(const commands::nodes& c) const {
    TROUPE_TRY(view, s.view(c.node, "", false));
    return answer{as.json ? view_json(view) : nodes_text(view, as.columns), health_of(view).good};
  }
  result<answer> operator()(const commands::actors& c) const {
    TROUPE_TRY(view, s.view(c.node, c.actor, c.dead));
    TROUPE_CHECK(somebody(s, view, c.actor));
    return answer{as.json ? view_json(view) : actors_text(view, as.columns)};
  }
  result<answer> operator()(const commands::status& c) const {
    TROUPE_TRY(view, s.view("", c.actor, false));
    TROUPE_CHECK(somebody(s, view, c.actor));
    answer out{"", health_of(view).good};
    if (as.json || c.actor.empty()) {
      out.text = as.json ? view_json(view) : status_text(view, as.columns);
      return out;
    }
    for (const auto& n : view.nodes)
      for (const auto& actor : n->actors) out.text += actor_text(*actor, n->node, as.columns);
    return out;
  }
  result<answer> operator()(const commands::send& c) const {
    TROUPE_CHECK(named(c.actor));
    TROUPE_TRY(m, message_of(c.message, c.fields));
    return give(c.actor, m, c.timeout_ms);
  }
  result<answer> operator()(const commands::pause& c) const {
    return to_run<fbs::Pause>([&](auto& m) { m.reason = c.reason; });
  }
  result<answer> operator()(const commands::resume&) const {
    return to_run<fbs::Resume>([](auto&) {});
  }
  result<answer> operator()(const commands::checkpoint&) const {
    return to_run<fbs::CheckpointNow>([](auto& m) { m.reason = "asked for"; });
  }
  result<answer> operator()(const commands::stop& c) const {
    return give("coordinator", make_msg<fbs::StopTraining>({}, [&](auto& m) {
                  m.reason = c.reason;
                  m.save = true;
                }));
  }
  result<answer> operator()(const commands::set& c) const {
    return to_run<fbs::SetValue>([&](auto& m) {
      m.key = c.key;
      m.value = c.value;
    });
  }
  result<answer> operator()(const commands::rewind& c) const {
    return to_run<fbs::Rewind>([&](auto& m) {
      m.step = c.step;
      m.skip_steps = c.skip_steps;
    });
  }
  result<answer> operator()(const commands::drain& c) const {
    TROUPE_TRY(said, s.drain(c.node));
    return answer{as.json ? text_json(said) : said + "\n"};
  }
  result<answer> operator()(const commands::evict& c) const {
    return to_coordinator<fbs::EvictNode>(c.node);
  }
  result<answer> operator()(const commands::admit& c) const {
    return to_coordinator<fbs::AdmitNode>(c.node);
  }
  result<answer> operator()(const commands::replace& c) const {
    return to_coordinator<fbs::ReplaceNode>(c.node);
  }
  result<answer> operator()(const commands::spares&) const {
    TROUPE_TRY(all, spares_of(s));
    return answer{as.json ? line_of(spares_json(all)) : spares_text(all)};
  }
  result<answer> operator()(const commands::swap&) const {
    TROUPE_TRY(view, s.view("", "", false));
    return answer{as.json ? swap::live_json(view) : swap::live_text(view, as.columns)};
  }
  result<answer> operator()(const commands::power& c) const {
    if (s.is_power_budget()) return tell_power_budget(s, c, as);
    TROUPE_CHECK(is_about_job(s, c));
    if (!c.budget_w.empty()) return (*this)(commands::set{"power.budget_w", c.budget_w});
    return power_of_job(s, c, as);
  }
  result<answer> operator()(const commands::kill& c) const {
    TROUPE_CHECK(named(c.actor));
    return of_actors(c.actor, s.kill("", c.actor));
  }
  result<answer> operator()(const commands::log& c) const {
    return orders(s.log_level(c.node, c.level));
  }
  result<answer> operator()(const commands::black_box& c) const {
    return orders(s.black_box(c.node, "asked"));
  }
  result<answer> operator()(const commands::findings&) const {
    TROUPE_TRY(all, findings_of(s));
    return answer{as.json ? findings_json(all) : findings_text(all), is_well(all)};
  }
  result<answer> operator()(const commands::expect& c) const {
    if (c.why) {
      TROUPE_TRY(why, explanation_of(s, *c.why));
      auto all = findings_of(s, true);  // a cluster may have no monitor
      const auto suspects = all ? std::move(*all) : fbs::FindingsT{};
      auto j = why_json(why);
      j["suspected"] = suspected_json(suspects, *c.why);
      return answer{as.json ? line_of(j)
                            : why_text(why, as.columns) + suspected_text(suspects, *c.why)};
    }
    TROUPE_TRY(all, findings_of(s, true));
    return answer{as.json ? line_of(expect_json(all)) : expect_text(all, as.columns)};
  }
  result<answer> operator()(const commands::incidents&) const {
    TROUPE_TRY(run, account_of(s));
    if (as.json) return answer{line_of(account_json(run))};
    return answer{run.incidents.empty() ? "no incidents\n" : incidents_text(run)};
  }
  result<answer> operator()(const commands::incident& c) const {
    TROUPE_TRY(text, incident_of(s, c.number, as.json));
    return answer{as.json ? line_of(nlohmann::ordered_json::parse(text, nullptr, false)) : text};
  }
  result<answer> operator()(const commands::doctor& c) const {
    TROUPE_TRY(found, examine_cluster(s, {.node = c.node}));
    return answer{as.json ? diagnosis_json(found) : diagnosis_text(found),
                  verdict_of(found) != fbs::CheckVerdict::bad};
  }
  result<answer> operator()(const commands::help& c) const {
    TROUPE_TRY(text, help(c.about));
    return answer{as.json ? text_json(text) : text};
  }
  result<answer> operator()(const commands::quit&) const {
    answer out;
    out.leave = true;
    return out;
  }

 private:
  result<answer> orders(const result<fbs::CallAnswersT>& answers) const {
    if (!answers) return answers.error();
    if (answers->answers.empty()) return error{errc::not_found, "actor not found"};
    answer out{"", all_taken(*answers)};
    if (as.json) {
      out.text = answers_json(*answers);
      return out;
    }
    out.text = answers_text(*answers, as.columns);
    out.refusals = refusals_in(*answers);
    return out;
  }

  result<answer> of_actors(const std::string& pattern,
                           const result<fbs::CallAnswersT>& answers) const {
    if (answers && answers->answers.empty()) return nobody(s, pattern);
    return orders(answers);
  }

  /// `timeout_ms` 0: as the contract says.
  result<answer> give(const std::string& actor, const any_msg& m, int64_t timeout_ms = 0) const {
    return of_actors(actor, s.call("", actor, m, timeout_ms));
  }

  template <class T, class Fill>
  result<answer> to_run(Fill fill) const {
    return give("run", make_msg<T>({}, fill));
  }

  /// What is said of a node; to the head alone, for that node may go.
  template <class T>
  result<answer> to_coordinator(const std::string& node) const {
    const auto m = make_msg<T>({}, [&](auto& order) { order.node = node; });
    return of_actors("coordinator", s.call("head", "coordinator", m, 0));
  }
};

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

result<parsed_line> parse_line(std::string_view line) {
  TROUPE_TRY(a, split_words(line));
  parsed_line out;
  if (a.empty()) return out;
  out.again = a[0] == "watch";
  if (out.again) a.erase(a.begin());
  if (a.empty()) a.emplace_back("watch");
  TROUPE_TRY(what, command_of(a));
  out.what = std::move(what);
  return out;
}

result<int> tell(const answer& said) {
  TROUPE_CHECK(print(said.text));
  for (const auto& e : said.refusals) say(e);
  return said.good ? 0 : 1;
}

result<answer> execute(session& s, const console_command& c, const answer_form& as) {
  return std::visit(executor{s, as}, c);
}

}  // namespace troupe::apps
