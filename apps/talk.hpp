// How the program talks. Apart from shell.hpp, since most files talk and few know the command line.
//
// SH-1 stdout carries data only; everything said to a person goes to stderr.
// SH-3 Colour appears on terminals only, and never under NO_COLOR.
// SH-4 Talking never throws and never ends a verb; whether it may wait for its reader is the verb's
//      choice (voice.hpp).
// SH-5 What others said (names, reasons, errors of peers) reaches a terminal escaped, whichever
//   verb shows it: by these functions, and by the format of the log (log_format.hpp).
#pragma once

#include <string_view>

#include "io/base/result.hpp"

namespace troupe::apps {

/// Writes data to stdout, printable line by line (io/base/printable.hpp). Errors: io, e.g. a full
/// disk; a closed pipe ends the program as usual. Through outboxes neither happens: what is lost is
/// counted and told.
status print(std::string_view text);
/// The same for what is no text of ours, or is a sequence that a terminal acts on.
status print_unchanged(std::string_view text);

/// Tells a person something, one line on stderr.
void say(std::string_view text);
/// The same without a line end: for a line that rewrites itself.
void say_as_is(std::string_view text);
/// Tells a person about an error: "error: message" and "hint: remedy" on stderr.
void say(const error& e);

/// Whether a file descriptor is a terminal that wants colour (NO_COLOR, TERM=dumb).
bool wants_colour(int fd);
/// Columns of the terminal, or `otherwise` if it is none.
int terminal_columns(int fd, int otherwise);
/// Whether the locale's character set is UTF-8 (LC_ALL, LC_CTYPE, LANG).
bool speaks_utf8();

}  // namespace troupe::apps
