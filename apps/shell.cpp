// Running a verb and talking to the person who typed it.
#include "apps/shell.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "apps/log_format.hpp"
#include "io/base/printable.hpp"

namespace troupe::apps {

namespace {

std::string first_of(std::initializer_list<const char*> variables) {
  for (const char* name : variables)
    if (const char* text = std::getenv(name); text && *text) return text;
  return {};
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
  try {
    spdlog::set_formatter(log_format());  // SH-4
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

status print(std::string_view text) {
  return print_unchanged(printable_lines(text));  // SH-4
}

status print_unchanged(std::string_view text) {
  errno = 0;
  auto wrote = std::fwrite(text.data(), 1, text.size(), stdout);
  if (wrote != text.size() || std::fflush(stdout) != 0)
    return error::system("write to stdout", errno);
  return {};
}

void say(std::string_view text) {
  fmt::print(stderr, "{}\n", printable_lines(text));
}

void say(const error& e) {
  bool colour = wants_colour(STDERR_FILENO);
  auto paint = [&](const char* code, const char* word) {
    return colour ? fmt::format("\x1b[{}m{}:\x1b[0m", code, word) : fmt::format("{}:", word);
  };
  for (std::string_view rest = e.message; !rest.empty();) {  // a configuration may have many faults
    auto line = rest.substr(0, rest.find('\n'));
    fmt::print(stderr, "{} {}\n", paint("1;31", "error"), printable(line));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  if (!e.hint.empty()) fmt::print(stderr, "{} {}\n", paint("1", "hint"), printable(e.hint));
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
