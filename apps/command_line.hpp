// The command line as verbs describe it: words, what they mean, where their values go.
//
// CLI11 does the work, and command_line.cpp alone includes it: its headers cost every file that
// sees them 3 seconds of the compiler. A name without a comment means what it means in CLI11.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/base/result.hpp"

namespace CLI {
class Option;
}

namespace troupe::apps {

/// What the value of an argument names: completion offers it.
enum class offered : uint8_t {
  anything,       ///< a word, or a file: not known
  nothing_known,  ///< a number, a text of one's own
  file,
  folder,
  job,      ///< a running one of this user on this machine
  address,  ///< HOST:PORT of one
  node,     ///< of the running cluster
  actor,
  message,  ///< that a person may send
  setting,  ///< KEY=VALUE
  key,      ///< a key or a section of a configuration
};

/// An argument of a verb: an option or, without dashes, a word in its place. Calls can be chained.
class argument {
 public:
  explicit argument(CLI::Option* it) : it_(it) {}

  argument* required();
  /// The value lies in [least, most]; the help shows it, and names T: int, uint64_t, double ...
  template <class T>
  argument* within(T least, T most);
  argument* positive();
  argument* not_negative();
  argument* one_of(const std::vector<std::string>& words);
  /// "f32" or "bf16", also as "float32" and "bfloat16"; what is stored is one of the former.
  argument* number_type();
  /// Words that completion offers beside others that are allowed, too.
  argument* suggests(const std::vector<std::string>& words);
  argument* takes(offered what);
  /// A number of bytes, with a unit or without: 80GiB.
  argument* as_size();
  argument* delimiter(char between);
  argument* take_all();
  argument* expected(int values);
  argument* type_name(const std::string& name);
  argument* capture_default_str();
  /// The help does not speak of it.
  argument* hidden();

  /// How often it was given.
  size_t count() const;

 private:
  friend class command;
  CLI::Option* it_;
  std::vector<std::string> words_ = {};  ///< that may be its value, or are among those that may
  offered what_ = offered::anything;
};

/// The program, or a verb of it, or a verb of a verb.
class command {
 public:
  /// The program.
  explicit command(const std::string& name);
  command(const command&) = delete;
  command& operator=(const command&) = delete;
  ~command();

  command* add_subcommand(const std::string& name, const std::string& about);
  /// Binds a string, a number or a vector of such, which lives as long as the command.
  template <class T>
  argument* add_option(const std::string& names, T& into, const std::string& about);
  argument* add_flag(const std::string& names, bool& into, const std::string& about);
  /// `--version` prints this line.
  void version(std::function<std::string()> text);
  void description(const std::string& about);
  void footer(const std::string& text);
  void require_subcommand(int least);
  /// What parse() calls where this verb was chosen.
  void callback(std::function<void()> chosen);

  /// An argument as completion, man pages and tests want it.
  struct described {
    std::vector<std::string> flags;  ///< "--out", "-o"; none: it is a word in its place
    std::string place;               ///< the name of such a word, "FILE"
    std::string about;
    std::string value;         ///< what its value is like, "TEXT"; empty: it takes none
    std::string unless_given;  ///< its default; empty: none
    std::vector<std::string> words;
    offered what = offered::anything;
    char between = '\0';  ///< what parts several values in one word
    bool required = false, many = false, hidden = false;
  };
  const std::string& name() const;
  const std::string& about() const;
  /// Examples and what else stands below the help.
  std::string notes() const;
  std::vector<described> arguments() const;
  std::vector<const command*> subcommands() const;

  /// Parses the program's arguments ("help VERB" is "VERB --help") and calls what was chosen. An
  /// exit code where the line asked for no verb, but for help. Errors: usage, with the nearest word
  /// where one is unknown.
  result<std::optional<int>> parse(int argc, const char* const* argv);

 private:
  struct parts;
  explicit command(std::unique_ptr<parts> made);
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::apps
