// `troupe console`: words for a running cluster, with line editing, history and completion
// (libedit). Lines from a pipe are executed too; `-c LINE` executes one.
#include <histedit.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.hpp"
#include "apps/control/commands.hpp"
#include "apps/control/loss_policy.hpp"
#include "apps/control/losses.hpp"
#include "apps/control/session.hpp"
#include "apps/control/show.hpp"

namespace troupe::apps {

namespace {

constexpr int history_lines = 1000;

struct console_arguments {
  connect_options connect;
  std::vector<std::string> lines;
  int64_t watch_ms = 0;
  bool yes = false;  ///< what an order loses may be lost
};

/// Whether what an order loses may be lost; where it may not, why.
using consent = std::function<status(const std::string& loss)>;

/// XDG_STATE_HOME/troupe/history, or ~/.local/state/troupe/history; empty where there is no home.
std::string history_path() {
  namespace fs = std::filesystem;
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state == nullptr && home == nullptr) return {};
  const auto folder =
      (state != nullptr ? fs::path(state) : fs::path(home) / ".local/state") / "troupe";
  std::error_code code;
  fs::create_directories(folder, code);
  return code ? std::string() : (folder / "history").string();
}

/// The line editor; owns libedit's objects.
class editor {
 public:
  explicit editor(session& s) : session_(s), prompt_(fmt::format("troupe:{}> ", s.job())) {
    line_ = el_init("troupe", stdin, stdout, stderr);
    history_ = history_init();
    HistEvent event;
    history(history_, &event, H_SETSIZE, history_lines);
    history(history_, &event, H_SETUNIQUE, 1);
    path_ = history_path();
    if (!path_.empty()) history(history_, &event, H_LOAD, path_.c_str());
    el_set(line_, EL_CLIENTDATA, this);
    el_set(line_, EL_PROMPT, &editor::prompt);
    el_set(line_, EL_HIST, history, history_);
    el_set(line_, EL_EDITOR, "emacs");
    el_set(line_, EL_SIGNAL, 1);
    el_set(line_, EL_ADDFN, "troupe-complete", "complete the word", &editor::complete);
    el_set(line_, EL_BIND, "^I", "troupe-complete", nullptr);
    el_set(line_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_source(line_, nullptr);
  }
  ~editor() {
    HistEvent event;
    if (!path_.empty()) {
      history(history_, &event, H_SAVE, path_.c_str());
      chmod(path_.c_str(), 0600);
    }
    history_end(history_);
    el_end(line_);
  }
  editor(const editor&) = delete;
  editor& operator=(const editor&) = delete;

  /// The next line; none at the end of the input.
  std::optional<std::string> next() {
    int count = 0;
    const char* text = el_gets(line_, &count);
    if (text == nullptr || count <= 0) return std::nullopt;
    std::string line(text, static_cast<size_t>(count));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    if (!line.empty()) {
      HistEvent event;
      history(history_, &event, H_ENTER, line.c_str());
    }
    return line;
  }

 private:
  static editor* self(EditLine* line) {
    editor* me = nullptr;
    el_get(line, EL_CLIENTDATA, &me);
    return me;
  }

  static const char* prompt(EditLine* line) { return self(line)->prompt_.c_str(); }

  /// Completes as far as all candidates agree; shows them where they do not.
  static unsigned char complete(EditLine* line, int) {
    auto* me = self(line);
    const LineInfo* info = el_line(line);
    const std::string before(info->buffer, info->cursor);
    auto view = me->session_.view("", "", false);
    const auto all = completions(view ? *view : fbs::ClusterViewT{}, before);
    if (all.empty()) return CC_REFRESH_BEEP;
    std::string common = all.front();
    for (const auto& c : all) {
      size_t n = 0;
      while (n < common.size() && n < c.size() && common[n] == c[n]) ++n;
      common.resize(n);
    }
    const auto brace = before.find('{');
    const auto blank = before.find_last_of(' ');
    const auto start = brace != std::string::npos   ? brace
                       : blank == std::string::npos ? 0
                                                    : blank + 1;
    const auto typed = before.substr(start);
    std::string more = common.size() > typed.size() ? common.substr(typed.size()) : "";
    if (all.size() == 1 && brace == std::string::npos) more += ' ';
    if (!more.empty() && el_insertstr(line, more.c_str()) == 0) return CC_REFRESH;
    static_cast<void>(print(fmt::format("\n{}\n", fmt::join(all, "  "))));
    return CC_REDISPLAY;
  }

  session& session_;
  std::string prompt_, path_;
  EditLine* line_ = nullptr;
  History* history_ = nullptr;
};

/// A person is asked; nobody else can be. The end of the input (Ctrl-D) is no, and of this answer.
status ask_person(const std::string& loss) {
  say_as_is(fmt::format("{}. Do it? [y/N] ", loss));
  std::string answer;
  if (!std::getline(std::cin, answer) || std::cin.eof()) {
    answer.clear();
    std::cin.clear();
    std::clearerr(stdin);
    say_as_is("\n");
  }
  if (answer == "y" || answer == "yes") return {};
  return error{errc::cancelled, "not done"};
}

consent consent_of(const console_arguments& a, bool asks) {
  if (a.yes) return [](const std::string&) { return status(); };
  if (asks) return ask_person;
  return [](const std::string& loss) -> status { return would_lose(loss); };
}

/// Executes a line, again and again where it is to be watched.
result<answer> execute_line(session& s, const std::string& line, const consent& may) {
  TROUPE_TRY(asked, parse_line(line));
  if (const auto loss = loss_now(s, asked.what)) TROUPE_CHECK(may(*loss));
  if (!asked.again) return execute(s, asked.what, terminal_width());
  for (;;) {
    TROUPE_TRY(said, execute(s, asked.what, terminal_width()));
    if (isatty(STDOUT_FILENO)) TROUPE_CHECK(print_unchanged("\x1b[H\x1b[2J"));
    TROUPE_CHECK(print(said.text));
    fd_set in;
    FD_ZERO(&in);
    FD_SET(STDIN_FILENO, &in);
    timeval pause{1, 0};
    if (select(STDIN_FILENO + 1, &in, nullptr, nullptr, &pause) > 0) return answer{};
  }
}

/// Says what came of a line: 0, 1 where it was refused or failed, 77 where one may not say it, 64
/// where nobody has said that it may lose what it loses.
int tell(const result<answer>& said) {
  if (!said) {
    say(said.error());
    const bool tells = said.error().code == errc::permission || said.error().is(would_lose);
    return tells ? exit_code(said.error().code) : 1;
  }
  return print(said->text) && said->good ? 0 : 1;
}

result<int> converse(session& s, const consent& may) {
  editor e(s);
  say(greeting(s.job(), s.address(), s.who(), s.may_change()));
  while (auto line = e.next()) {
    const auto said = execute_line(s, *line, may);
    tell(said);
    if (said && said->leave) break;
  }
  return 0;
}

result<int> console(const console_arguments& a) {
  TROUPE_TRY(s, session::open(a.connect));
  const bool converses = a.lines.empty() && isatty(STDIN_FILENO);
  const auto may = consent_of(a, converses);
  if (converses) return converse(*s, may);
  int code = 0;
  auto one = [&](const std::string& line) {
    const auto said = execute_line(*s, line, may);
    if (const int of_line = tell(said); of_line != 0) code = of_line;
    return said && said->leave;
  };
  if (!a.lines.empty()) {
    for (const auto& line : a.lines)
      if (one(line)) break;
  } else {
    std::string line;
    while (std::getline(std::cin, line))
      if (one(line)) break;
  }
  return code;
}

}  // namespace

void add_console(shell& sh) {
  auto* verb = sh.app.add_subcommand("console", "Speak with a running cluster");
  auto a = std::make_shared<console_arguments>();
  add_connect_options(verb, a->connect);
  verb->add_option("-c,--command", a->lines,
                   "Executes this line and ends; may be given several times");
  verb->add_flag("-y,--yes", a->yes,
                 "Do what would lose the only copy of steps without asking; a script is refused "
                 "(64) otherwise");
  verb->footer(
      "Words: nodes, actors, status, send, call, watch, pause, resume, checkpoint now, stop, set,\n"
      "rewind, drain, evict, admit, replace, spares, swap, power, kill, log, blackbox,\n"
      "findings, incidents, incident, doctor, help, quit. Lines may also come from a pipe.\n"
      "evict, replace, rewind and kill ask where they would lose steps; drain and stop save.\n\n"
      "Examples:\n"
      "  troupe console\n"
      "  troupe console -c pause -c 'set train.lr 1e-4' -c resume");
  on_run(sh, verb, [a] { return console(*a); });
}

}  // namespace troupe::apps
