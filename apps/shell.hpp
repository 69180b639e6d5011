// What every verb of the program shares: how it is registered, how it ends, how it talks.
//
// SH-1 stdout carries data only; everything said to a person goes to stderr.
// SH-2 A verb ends with 0, with a sysexits(3) value made from its error, or with a number it chose.
// SH-3 Colour appears on terminals only, and never under NO_COLOR.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "io/base/result.hpp"

namespace troupe::apps {

/// The command line of the program and how the chosen verb ended.
struct shell {
  CLI::App app;
  int exit_code = 0;
};

/// Says what a verb does when it was chosen: the number it returns is the process's exit code; an
/// error is printed (say) and becomes its exit code.
void on_run(shell& sh, CLI::App* verb, std::function<result<int>()> run);

/// Parses and runs; the process's exit code. A wrong command line ends in 64 and the nearest word.
int run(shell& sh, int argc, const char* const* argv);

/// Writes data to stdout. Errors: io, e.g. a full disk; a closed pipe ends the program as usual.
status print(std::string_view text);

/// Tells a person something, one line on stderr.
void say(std::string_view text);
/// Tells a person about an error: "error: message" and "hint: remedy" on stderr.
void say(const error& e);

/// Whether a file descriptor is a terminal that wants colour (NO_COLOR, TERM=dumb).
bool wants_colour(int fd);
/// Columns of the terminal, or `otherwise` if it is none.
int terminal_columns(int fd, int otherwise);
/// Whether the locale's character set is UTF-8 (LC_ALL, LC_CTYPE, LANG).
bool speaks_utf8();

}  // namespace troupe::apps
