// Running a verb and talking to the person who typed it.
#include "apps/shell.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <exception>

#include <spdlog/spdlog.h>

#include "apps/log_format.hpp"
#include "apps/voice.hpp"

namespace troupe::apps {

namespace {

std::string first_of(std::initializer_list<const char*> variables) {
  for (const char* name : variables)
    if (const char* text = std::getenv(name); text && *text) return text;
  return {};
}

/// Who was started without standard descriptors gets some that lead nowhere: else the first files
/// that are opened have their numbers, and what is said goes into them.
void have_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) return;  // the lowest free number
}

int run_verb(shell& sh, int argc, const char* const* argv) {
  try {
    spdlog::set_formatter(log_format());  // SH-5
    auto parsed = sh.app.parse(argc, argv);
    if (!parsed) {
      say(parsed.error());
      return exit_code(errc::usage);
    }
    return parsed->value_or(sh.exit_code);
  } catch (const std::exception& bug) {
    say(error{errc::bug, bug.what(), "this is a bug of troupe; please report it"});
    return exit_code(errc::bug);
  }
}

}  // namespace

void on_run(shell& sh, command* verb, std::function<result<int>()> run) {
  verb->callback([&sh, run = std::move(run)] {
    auto done = run();
    if (!done) say(done.error());
    sh.exit_code = done ? *done : exit_code(done.error().code);
  });
}

int run(shell& sh, int argc, const char* const* argv) {
  have_standard_descriptors();
  sh.words.assign(argv, argv + argc);
  const int code = run_verb(sh, argc, argv);
  settle_voice();
  return code;
}

bool wants_colour(int fd) {
  return isatty(fd) == 1 && first_of({"NO_COLOR"}).empty() && first_of({"TERM"}) != "dumb";
}

int terminal_columns(int fd, int otherwise) {
  winsize size{};
  if (isatty(fd) != 1 || ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
  return size.ws_col;
}

bool speaks_utf8() {
  auto locale = first_of({"LC_ALL", "LC_CTYPE", "LANG"});
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
}

}  // namespace troupe::apps
