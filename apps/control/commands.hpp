// The words of the console: one line in, its answer out. Used by the console, by scripts
// (`troupe console -c "pause"`), and by the completion.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/control/session.hpp"

namespace troupe::apps {

/// A word of the console.
struct word {
  std::string_view name;
  std::string_view usage;  ///< "send ACTOR MESSAGE [JSON]"
  std::string_view help;   ///< one sentence
};

/// The first line of a console: where it is, as whom, and what it may do.
std::string greeting(std::string_view job, std::string_view address, std::string_view who,
                     bool may_change);

/// All of them, in the order of the help.
std::span<const word> words();

/// What a line led to.
struct answer {
  std::string text;   ///< for stdout
  bool good = true;   ///< false: an actor refused, or a node does not answer
  bool leave = false; ///< the person wants to go
};

/// Does what the line says. Errors: usage with the nearest word or the right form; what the cluster
/// answers.
result<answer> execute(session& s, std::string_view line, int columns);

/// A line in its words: blanks part them, quotes and braces keep them together.
std::vector<std::string> split_words(std::string_view line);

/// What may stand at the end of the line: whole replacements of its last word. `view` gives nodes
/// and actors (may be empty).
std::vector<std::string> completions(const fbs::ClusterViewT& view, std::string_view line);

}  // namespace troupe::apps
