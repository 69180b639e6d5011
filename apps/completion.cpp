// Writes the completion scripts. Both walk the words before the cursor down the tree of verbs, then
// offer what that verb takes; where nothing is offered the shell completes file names.
#include "apps/completion.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.hpp"
#include "io/config/properties.hpp"

namespace troupe::apps {

namespace {

/// A word that may be typed next.
struct word {
  std::string text;
  std::string about;
};

/// What can follow a path of verbs, e.g. "config show".
struct place {
  std::string path;
  std::vector<word> words;
};

std::string joined(const std::string& path, const std::string& verb) {
  return path.empty() ? verb : path + " " + verb;
}

/// All places of the tree, the root first.
void collect(const command& app, const std::string& path, std::vector<place>& into) {
  place here{path, {}};
  const auto subs = app.subcommands();
  for (const auto* sub : subs) here.words.push_back({sub->name(), sub->about()});
  if (path == "config explain") {
    for (auto section : config::sections())
      here.words.push_back({std::string(section), std::string(config::section_about(section))});
    for (const auto& p : config::properties())
      here.words.push_back({std::string(p.key), std::string(p.about)});
  }
  for (const auto& a : app.arguments())
    for (const auto& flag : a.flags) here.words.push_back({flag, a.about});
  into.push_back(std::move(here));
  for (const auto* sub : subs) collect(*sub, joined(path, sub->name()), into);
}

std::vector<place> places_of(const command& app) {
  std::vector<place> places;
  collect(app, "", places);
  return places;
}

/// The case patterns that walk one word further: "config show") verb="config show" ;;
std::string walking_cases(const std::vector<place>& places) {
  std::string text;
  for (const auto& p : places)
    if (!p.path.empty()) {
      auto split = p.path.rfind(' ');
      auto before = split == p.path.npos ? "" : p.path.substr(0, split);
      auto last = p.path.substr(split + 1);
      text += fmt::format("      \"{}/{}\") verb=\"{}\" ;;\n", before, last, p.path);
    }
  return text;
}

std::string setting_keys(std::string_view separator) {
  std::vector<std::string_view> keys;
  for (const auto& p : config::properties()) keys.push_back(p.key);
  return fmt::format("{}", fmt::join(keys, separator));
}

/// Text inside zsh's single quotes, with the colon that _describe splits at.
std::string zsh_item(const word& w) {
  std::string out;
  for (char c : w.text + ":" + w.about) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return "'" + out + "'";
}

}  // namespace

std::string bash_completion(const command& app) {
  auto places = places_of(app);
  std::string offers;
  for (const auto& p : places) {
    std::vector<std::string> words;
    for (const auto& w : p.words) words.push_back(w.text);
    offers += fmt::format("    \"{}\") offer=\"{}\" ;;\n", p.path, fmt::join(words, " "));
  }
  return fmt::format(R"(# bash completion of troupe: source <(troupe completion bash)
_troupe() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" verb="" offer="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$verb/${{COMP_WORDS[i]}}" in
{}    esac
  done
  if [[ "$prev" == --set ]]; then
    compopt -o nospace
    COMPREPLY=($(compgen -S = -W "{}" -- "$cur"))
    return
  fi
  case "$verb" in
{}  esac
  COMPREPLY=($(compgen -W "$offer" -- "$cur"))
}}
complete -o default -F _troupe troupe
)",
                     walking_cases(places), setting_keys(" "), offers);
}

std::string zsh_completion(const command& app) {
  auto places = places_of(app);
  std::string offers;
  for (const auto& p : places) {
    std::vector<std::string> items;
    for (const auto& w : p.words) items.push_back(zsh_item(w));
    offers += fmt::format("    \"{}\") offer=({}) ;;\n", p.path, fmt::join(items, " "));
  }
  return fmt::format(R"(#compdef troupe
# zsh completion of troupe: source <(troupe completion zsh)
_troupe() {{
  local verb="" i
  local -a offer
  for ((i = 2; i < CURRENT; i++)); do
    case "$verb/${{words[i]}}" in
{}    esac
  done
  if [[ "${{words[CURRENT-1]}}" == --set ]]; then
    offer=({})
    compadd -S = -a offer
    return
  fi
  case "$verb" in
{}  esac
  _describe troupe offer
  _files
}}
(( $+functions[compdef] )) && compdef _troupe troupe
)",
                     walking_cases(places), setting_keys(" "), offers);
}

void add_completion(shell& sh) {
  auto* verb = sh.app.add_subcommand("completion", "Print a completion script for bash or zsh");
  verb->footer("Examples:\n  source <(troupe completion bash)\n  source <(troupe completion zsh)");
  auto which = std::make_shared<std::string>();
  verb->add_option("SHELL", *which, "bash or zsh")->required()->one_of({"bash", "zsh"});
  on_run(sh, verb, [&sh, which]() -> result<int> {
    TROUPE_CHECK(print(*which == "bash" ? bash_completion(sh.app) : zsh_completion(sh.app)));
    return 0;
  });
}

}  // namespace troupe::apps
