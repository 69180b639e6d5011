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
#include <vector>

#include <fmt/format.h>

#include "io/config/properties.hpp"

namespace troupe::apps {

namespace {

/// The command line as far as it made sense, the program first.
std::vector<const CLI::App*> understood(const CLI::App& app) {
  std::vector<const CLI::App*> verbs{&app};
  for (auto chosen = app.get_subcommands(); !chosen.empty();
       chosen = verbs.back()->get_subcommands())
    verbs.push_back(chosen.front());
  return verbs;
}

/// What to tell about a wrong command line: the unknown word and the nearest that would do.
error as_error(const CLI::App& app, const CLI::ParseError& wrong) {
  auto verbs = understood(app);
  std::string path;
  for (const auto* verb : verbs) path += (path.empty() ? "" : " ") + verb->get_name();
  error e{errc::usage, wrong.what(), fmt::format("see `{} --help`", path)};
  auto extra = app.remaining(true);
  auto unknown = std::find_if(extra.begin(), extra.end(),
                              [](const std::string& word) { return word.starts_with('-'); });
  if (unknown == extra.end()) unknown = extra.begin();
  if (unknown == extra.end()) return e;
  e.message = fmt::format("`{}` does not know {}", path, *unknown);
  std::vector<std::string> names;
  for (const auto* sub : verbs.back()->get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  for (const auto* option : verbs.back()->get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  std::vector<std::string_view> views(names.begin(), names.end());
  auto near = config::nearest(*unknown, views);
  if (!near.empty()) e.hint = fmt::format("did you mean {}?", near);
  return e;
}

std::string first_of(std::initializer_list<const char*> variables) {
  for (const char* name : variables)
    if (const char* text = std::getenv(name); text && *text) return text;
  return {};
}

}  // namespace

void on_run(shell& sh, CLI::App* verb, std::function<result<int>()> run) {
  verb->callback([&sh, run = std::move(run)] {
    auto done = run();
    if (!done) say(done.error());
    sh.exit_code = done ? *done : exit_code(done.error().code);
  });
}

int run(shell& sh, int argc, const char* const* argv) {
  try {
    sh.app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help and the like: data, so stdout
    return sh.app.exit(asked);
  } catch (const CLI::ParseError& wrong) {
    say(as_error(sh.app, wrong));
    return exit_code(errc::usage);
  } catch (const std::exception& bug) {
    say(error{errc::bug, bug.what(), "this is a bug of troupe; please report it"});
    return exit_code(errc::bug);
  }
  return sh.exit_code;
}

status print(std::string_view text) {
  errno = 0;
  auto wrote = std::fwrite(text.data(), 1, text.size(), stdout);
  if (wrote != text.size() || std::fflush(stdout) != 0)
    return error::system("write to stdout", errno);
  return {};
}

void say(std::string_view text) {
  fmt::print(stderr, "{}\n", text);
}

void say(const error& e) {
  bool colour = wants_colour(STDERR_FILENO);
  auto paint = [&](const char* code, const char* word) {
    return colour ? fmt::format("\x1b[{}m{}:\x1b[0m", code, word) : fmt::format("{}:", word);
  };
  for (std::string_view rest = e.message; !rest.empty();) {  // a configuration may have many faults
    auto line = rest.substr(0, rest.find('\n'));
    fmt::print(stderr, "{} {}\n", paint("1;31", "error"), line);
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  if (!e.hint.empty()) fmt::print(stderr, "{} {}\n", paint("1", "hint"), e.hint);
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
