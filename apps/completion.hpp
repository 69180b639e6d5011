// Shell completion. The program itself knows what may stand at the end of a line, from the table of
// verbs and options that parses it: the scripts of shells only ask it, so that a new verb completes
// at once and every shell offers the same.
//
// CPT-1 To complete changes nothing and says nothing: where a cluster does not answer, or a line
//       makes no sense, there is nothing to offer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/command_line.hpp"

namespace troupe::apps {

/// What may stand at the end of a line.
struct offer {
  struct one {
    std::string text;   ///< the whole word
    std::string about;  ///< a sentence; may be empty
  };
  std::vector<one> words;
  enum class also : uint8_t { nothing, files, folders } paths = also::nothing;
  bool goes_on = false;  ///< the word is not whole yet: no blank comes after it
};

/// Names that only running clusters know, given the connect options as typed: ("--job", "x").
using typed_options = std::vector<std::pair<std::string, std::string>>;
using live_source = std::function<std::vector<std::string>(offered what, const typed_options&)>;

/// What may stand in place of the last word, which may be empty; `line` is without the program.
offer offer_at_end(const command& app, const std::vector<std::string>& line,
                   const live_source& live);

/// A line for each word, "TEXT TAB ABOUT", then :files or :folders, and :goes-on.
std::string text_of(const offer& o);

/// "bash", "zsh", "fish".
const std::vector<std::string>& completing_shells();
/// The script of one of them.
std::string completion_script(const std::string& shell);

/// Asks the clusters of this user on this machine, or the one the options name; waits shortly.
std::vector<std::string> live_words(offered what, const typed_options& typed);

}  // namespace troupe::apps
