// What may stand at the end of a command line, and the verb that tells it.
#include "apps/completion.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.hpp"
#include "io/config/properties.hpp"

namespace troupe::apps {

namespace {

using described = command::described;
using line_words = std::vector<std::string>;

/// "TEXT:{a,b}" tells what is wanted of a value; what begins so wants a number.
bool wants_number(const described& a) {
  constexpr std::array numbers{"INT", "UINT", "FLOAT", "SIZE"};
  return std::any_of(numbers.begin(), numbers.end(),
                     [&](const char* n) { return a.value.starts_with(n); });
}

/// A line, read as far as its last word.
struct reading {
  const command* verb = nullptr;
  std::vector<described> arguments;
  size_t placed = 0;                ///< words in places so far
  bool only_places = false;         ///< after "--"
  const described* open = nullptr;  ///< the option whose value comes next
  typed_options typed;

  void enter(const command& next) {
    verb = &next;
    arguments = next.arguments();
    placed = 0;
  }

  const described* flagged(const std::string& flag) const {
    for (const auto& a : arguments)
      if (std::find(a.flags.begin(), a.flags.end(), flag) != a.flags.end()) return &a;
    return nullptr;
  }

  void take(const std::string& word) {
    if (open != nullptr) {
      typed.emplace_back(open->flags.front(), word);
      open = nullptr;
    } else if (word == "--" && !only_places) {
      only_places = true;
    } else if (word.starts_with('-') && !only_places) {
      const auto equals = word.find('=');
      const auto* a = flagged(word.substr(0, equals));
      if (a == nullptr || a->value.empty()) return;
      if (equals == word.npos)
        open = a;
      else
        typed.emplace_back(a->flags.front(), word.substr(equals + 1));
    } else {
      const auto subs = verb->subcommands();
      const auto sub = std::find_if(subs.begin(), subs.end(),
                                    [&](const command* c) { return c->name() == word; });
      if (placed == 0 && sub != subs.end())
        enter(**sub);
      else
        ++placed;
    }
  }

  /// The word that comes next in its place; nullptr: none does.
  const described* place() const {
    size_t nth = 0;
    for (const auto& a : arguments)
      if (a.flags.empty() && (nth++ == placed || a.many)) return &a;
    return nullptr;
  }
};

void offer_setting(offer& o, const std::string& before, const std::string& typed) {
  const auto equals = typed.find('=');
  if (equals == typed.npos) {
    o.goes_on = true;
    for (const auto& p : config::properties())
      o.words.push_back({fmt::format("{}{}=", before, p.key), std::string(p.about)});
    return;
  }
  const auto key = typed.substr(0, equals);
  for (const auto& p : config::properties()) {
    if (p.key != key) continue;
    for (const auto choice : p.choices)
      o.words.push_back({fmt::format("{}{}={}", before, key, choice), ""});
    if (p.kind == config::value_kind::boolean)
      for (const char* truth : {"true", "false"})
        o.words.push_back({fmt::format("{}{}={}", before, key, truth), ""});
    if (p.kind == config::value_kind::text || p.kind == config::value_kind::texts)
      o.paths = offer::also::files;
  }
}

void offer_keys(offer& o) {
  for (auto section : config::sections())
    o.words.push_back({std::string(section), std::string(config::section_about(section))});
  for (const auto& p : config::properties())
    o.words.push_back({std::string(p.key), std::string(p.about)});
}

/// Values of an argument; `before` stands before them in the word ("--shell=").
void offer_values(offer& o, const described& a, const std::string& before, const std::string& typed,
                  const typed_options& options, const live_source& live) {
  auto first = before;
  if (const auto comma = a.between == '\0' ? typed.npos : typed.rfind(a.between);
      comma != typed.npos)
    first += typed.substr(0, comma + 1);
  for (const auto& w : a.words) o.words.push_back({first + w, ""});
  if (!a.words.empty() || wants_number(a)) return;
  switch (a.what) {
    case offered::anything:
    case offered::file:
      o.paths = offer::also::files;
      return;
    case offered::folder:
      o.paths = offer::also::folders;
      return;
    case offered::setting:
      return offer_setting(o, before, typed);
    case offered::key:
      return offer_keys(o);
    case offered::nothing_known:
      return;
    case offered::job:
    case offered::address:
    case offered::node:
    case offered::actor:
    case offered::message:
      for (const auto& name : live(a.what, options)) o.words.push_back({first + name, ""});
  }
}

void offer_verbs(offer& o, const command& verb) {
  for (const auto* sub : verb.subcommands()) o.words.push_back({sub->name(), sub->about()});
}

void offer_flags(offer& o, const std::vector<described>& arguments) {
  for (const auto& a : arguments)
    if (!a.hidden)
      for (const auto& flag : a.flags) o.words.push_back({flag, a.about});
}

offer offer_by(const reading& r, const std::string& last, const live_source& live) {
  offer o;
  if (r.open != nullptr) {
    offer_values(o, *r.open, "", last, r.typed, live);
  } else if (last.starts_with('-') && !r.only_places) {
    const auto equals = last.find('=');
    const auto* a = equals == last.npos ? nullptr : r.flagged(last.substr(0, equals));
    if (a != nullptr && !a->value.empty())
      offer_values(o, *a, last.substr(0, equals + 1), last.substr(equals + 1), r.typed, live);
    else
      offer_flags(o, r.arguments);
  } else {
    if (r.placed == 0) offer_verbs(o, *r.verb);
    if (const auto* a = r.place())
      offer_values(o, *a, "", last, r.typed, live);
    else if (o.words.empty())
      offer_flags(o, r.arguments);
  }
  return o;
}

/// What may follow "help": verbs, and below them theirs.
offer offer_help(const command& app, const line_words& line) {
  reading r;
  r.enter(app);
  for (size_t i = 1; i + 1 < line.size(); ++i) r.take(line[i]);
  offer o;
  if (r.placed == 0) offer_verbs(o, *r.verb);
  return o;
}

}  // namespace

offer offer_at_end(const command& app, const line_words& line, const live_source& live) {
  if (line.empty()) return {};
  const auto& last = line.back();
  offer o;
  if (line.size() > 1 && line.front() == "help") {
    o = offer_help(app, line);
  } else {
    reading r;
    r.enter(app);
    for (size_t i = 0; i + 1 < line.size(); ++i) r.take(line[i]);
    o = offer_by(r, last, live);
    if (line.size() == 1) o.words.push_back({"help", "The help of a verb"});
  }
  std::erase_if(o.words, [&](const auto& w) { return !w.text.starts_with(last); });
  return o;
}

std::string text_of(const offer& o) {
  std::string out;
  for (const auto& w : o.words) {
    auto about = w.about;
    std::replace_if(
        about.begin(), about.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
    out += about.empty() ? w.text + "\n" : fmt::format("{}\t{}\n", w.text, about);
  }
  if (o.paths != offer::also::nothing)
    out += o.paths == offer::also::files ? ":files\n" : ":folders\n";
  return o.goes_on ? out + ":goes-on\n" : out;
}

void add_completion(shell& sh) {
  struct typed {
    std::string shell;
    line_words line;
  };
  auto a = std::make_shared<typed>();
  const auto shells = fmt::format("{}", fmt::join(completing_shells(), ", "));
  auto* verb = sh.app.add_subcommand("completion", "Print a completion script for a shell");
  verb->footer(
      "Examples:\n"
      "  source <(troupe completion bash)\n"
      "  source <(troupe completion zsh)\n"
      "  troupe completion fish | source\n"
      "  troupe completion bash -- ckpt ex\n\n"
      "An installed troupe completes without any of these. The scripts ask the program, as the\n"
      "last example does, so that they need not be made anew when it is.");
  verb->add_option("SHELL", a->shell, shells)->required()->one_of(completing_shells());
  verb->add_option("WORD", a->line,
                   "After --: instead of the script, what may stand in place of the last word")
      ->takes(offered::nothing_known);
  on_run(sh, verb, [&sh, a]() -> result<int> {
    // As they were typed: the parser would drop an empty one.
    const auto dashes = std::find(sh.words.begin(), sh.words.end(), "--");
    if (dashes == sh.words.end() && !a->line.empty())
      return error{errc::usage, fmt::format("unexpected word: {}", a->line.front()),
                   "a line to complete comes after --"};
    if (dashes == sh.words.end()) {
      TROUPE_CHECK(print(completion_script(a->shell)));
      return 0;
    }
    TROUPE_CHECK(print(text_of(offer_at_end(sh.app, {dashes + 1, sh.words.end()}, live_words))));
    return 0;
  });
}

}  // namespace troupe::apps
