// The commands of the console. A line becomes one (parse_line), a verb such as `troupe send` fills
// one from its options, and both are executed alike. The words of lines serve the completion, too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "messages/schemas/control_generated.h"

namespace troupe::apps {

class session;

/// What can be asked of a cluster. Nodes and actors are patterns; to look, an empty one fits all.
namespace commands {

struct nothing {};
struct nodes {
  std::string node;
};
struct actors {
  std::string actor = {}, node = {};
  bool dead = false;  ///< with those that have ended
};
struct status {
  std::string actor;
};
struct send {
  std::string actor, message;
  std::string fields;      ///< JSON; empty: none
  int64_t timeout_ms = 0;  ///< 0: as the contract says
};
struct pause {
  std::string reason;
};
struct resume {};
struct checkpoint {};
struct stop {
  std::string reason;
};
struct set {
  std::string key, value;
};
struct rewind {
  uint64_t step = 0, skip_steps = 0;
};
struct drain {
  std::string node;
};
struct evict {
  std::string node;
};
struct admit {
  std::string node;
};
struct replace {
  std::string node;
};
struct spares {};
struct swap {};
struct power {
  std::string budget_w = {};       ///< to set; empty: to be shown
  bool why = false;                ///< in sentences
  std::string name = {};           ///< a served budget, or of what it has below; empty: this one
  std::string for_time = {};       ///< of what is set; empty: for good
  std::optional<bool> brake = {};  ///< to set
};
struct kill {
  std::string actor;
};
struct log {
  std::string level, node;
};
struct black_box {
  std::string node;
};
struct findings {};
struct expect {
  std::optional<uint32_t> why = {};  ///< a rank: of what its expectations are made
};
struct incidents {};
struct incident {
  uint64_t number = 0;
};
struct doctor {
  std::string node;  ///< empty: all of them
};
struct help {
  std::string about;  ///< a word or a message; empty: all words
};
struct quit {};

}  // namespace commands

using console_command =
    std::variant<commands::nothing, commands::nodes, commands::actors, commands::status,
                 commands::send, commands::pause, commands::resume, commands::checkpoint,
                 commands::stop, commands::set, commands::rewind, commands::drain, commands::evict,
                 commands::admit, commands::replace, commands::spares, commands::swap,
                 commands::power, commands::kill, commands::log, commands::black_box,
                 commands::findings, commands::expect, commands::incidents, commands::incident,
                 commands::doctor, commands::help, commands::quit>;

/// A word of the console.
struct word {
  std::string_view name;
  std::string_view usage;  ///< "send ACTOR MESSAGE [JSON]"
  std::string_view help;   ///< one sentence
  /// The command of a line that begins with it; none where the line has not this form.
  std::optional<console_command> (*parse)(const std::vector<std::string>& line);
};

/// The first line of a console: where it is, as whom, and what it may do.
std::string greeting(std::string_view job, std::string_view address, std::string_view who,
                     bool may_change);

/// All of them, in the order of the help.
std::span<const word> words();

/// A line as it is meant.
struct parsed_line {
  console_command what;
  bool again = false;  ///< every second ("watch")
};

/// A line whose word has another form, which is said with what the word does; and no word at all.
inline constexpr error_kind<std::string_view, std::string_view> another_form{
    "another_form", errc::usage, "say: {0}", "{1}"};
inline constexpr error_kind<std::string_view, std::string_view> unknown_word{
    "unknown_word", errc::usage, "unknown console command: {0}", "{1}"};

/// Errors: another_form, unknown_word with the nearest one, unclosed (split_line.hpp).
result<parsed_line> parse_line(std::string_view line);

/// How answers look.
struct answer_form {
  int columns = 0;    ///< of the terminal; 0: nothing is shortened
  bool json = false;  ///< a line of JSON for each answer, instead of sentences
};

/// What a command led to.
struct answer {
  std::string text;    ///< for stdout
  bool good = true;    ///< false: an actor refused, or the cluster is not well
  bool leave = false;  ///< the person wants to go
  std::vector<error> refusals = {};  ///< of actors, where they do not stand in the text
};

/// Does it. Errors: what the cluster answers, with the nearest name of what there is not.
result<answer> execute(session& s, const console_command& c, const answer_form& as);

/// Says an answer, or why there is none, to a person and to stdout: 0, 1 where it was refused or
/// all is not well. Errors: those of print().
result<int> tell(const answer& said);

/// What may stand at the end of the line: whole replacements of its last word. `view` gives nodes
/// and actors (may be empty).
std::vector<std::string> completions(const fbs::ClusterViewT& view, std::string_view line);

/// What Tab does at the end of a line.
struct completion {
  std::string more;              ///< stands behind what is typed, whose quotes are kept
  std::vector<std::string> all;  ///< to be shown where nothing more is sure
};

/// As far as all that may stand there agree; where it is one word, to its end, with the quote that
/// closes it and a blank.
completion complete_line(const fbs::ClusterViewT& view, std::string_view line);

}  // namespace troupe::apps
