// Any bytes as a line of the console: it is split or said to be open, never a crash. Its words, put
// into quotes again, are the same words; what is said to be missing ends it; what is completed goes
// on with what is typed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/control/commands.hpp"
#include "apps/control/split_line.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

namespace {

using strings = std::vector<std::string>;

fbs::ClusterViewT any_view() {
  fbs::ClusterViewT view;
  for (const char* node : {"head", "node0", "node1"}) {
    view.nodes.push_back(std::make_unique<fbs::ActorListT>());
    view.nodes.back()->node = node;
    for (const char* actor : {"stage/0", "stage/1", "worker/0", "run"}) {
      view.nodes.back()->actors.push_back(std::make_unique<fbs::ActorInfoT>());
      view.nodes.back()->actors.back()->path = actor;
    }
  }
  return view;
}

std::string in_single_quotes(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string in_double_quotes(const std::string& word) {
  std::string out = "\"";
  for (const char c : word) {
    if (std::string_view("\"\\$`").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string behind_backslashes(const std::string& word) {
  std::string out = word.empty() ? "''" : "";
  for (const char c : word) {
    out += '\\';
    out += c;
  }
  return out;
}

/// SPT-1, both ways.
void quote_again(const strings& words) {
  for (const auto quote : {in_single_quotes, in_double_quotes, behind_backslashes}) {
    std::string line;
    for (const auto& word : words) line += quote(word) + " \t";
    const auto again = apps::split_words(line);
    must(again && *again == words, "SPT-1: words in quotes are the same words");
  }
}

/// Closes what is said to be open until nothing is. A backslash at the end takes one in vain.
void close(std::string line, const apps::unended_line& typed) {
  const size_t most = 2 * line.size();
  size_t closed = 0;
  for (char open = typed.open; open != 0; open = apps::words_so_far(line).open) {
    must(++closed <= most, "what is said to be missing ends the line");
    line += open;
  }
  const auto whole = apps::split_words(line);
  must(whole && whole->size() == typed.words.size(), "it ends the last word");
  if (typed.open == '\'') must(*whole == typed.words, "a quote that ends a word is none of it");
}

void complete(const std::string& line, const apps::unended_line& typed) {
  static const fbs::ClusterViewT view = any_view();
  const auto offered = apps::complete_line(view, line);
  const auto before = typed.words.size() - (typed.within ? 1 : 0);
  const auto last = typed.within ? typed.words.back() : std::string();
  for (const auto& one : offered.all) must(one.starts_with(last), "an offer extends what is typed");
  if (offered.more.empty()) return;
  must(!offered.all.empty(), "nothing is typed that is not offered");
  const auto now = apps::words_so_far(line + offered.more);
  must(now.words.size() == before + 1, "one word is completed");
  must(std::equal(typed.words.begin(), typed.words.begin() + static_cast<ptrdiff_t>(before),
                  now.words.begin()),
       "the words before stay");
  for (const auto& one : offered.all)
    must(one.starts_with(now.words.back()), "what is typed for a person is what all offers share");
  if (offered.all.size() > 1 || offered.all.front().starts_with('{')) return;
  must(now.words.back() == offered.all.front(), "the only offer is typed whole");
  must(!now.within && now.open == 0, "and ended");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string line(reinterpret_cast<const char*>(data), size);
  const auto typed = apps::words_so_far(line);
  must(!typed.within || !typed.words.empty(), "what goes on is a word");
  must(typed.open == 0 || typed.within, "what is open is within a word");
  must(!typed.json || typed.open != 0, "JSON that goes on is open");
  const auto words = apps::split_words(line);
  must(words.has_value() == (typed.open == 0), "a line is split unless something is open");
  if (words)
    must(*words == typed.words, "a whole line has the words that it has so far");
  else
    must(words.error().is(apps::unclosed), "what is open is said");
  quote_again(typed.words);
  close(line, typed);
  complete(line, typed);
  if (const auto meant = apps::parse_line(line); !meant)
    must(meant.error().is(apps::unclosed) || meant.error().is(apps::another_form) ||
             meant.error().is(apps::unknown_word),
         "a line that means nothing is told its form");
  return 0;
}
