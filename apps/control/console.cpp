// `troupe console`: words for a running cluster, with line editing, history and completion
// (libedit). Lines from a pipe are executed too; `-c LINE` executes one.
#include <histedit.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/commands.hpp"
#include "apps/control/commands.hpp"
#include "apps/control/loss_policy.hpp"
#include "apps/control/losses.hpp"
#include "apps/control/session.hpp"
#include "apps/control/show.hpp"
#include "apps/up/signals.hpp"
#include "io/base/printable.hpp"

namespace troupe::apps {

namespace {

constexpr int history_lines = 1000;

struct console_arguments {
  connect_options connect;
  std::vector<std::string> lines;
  bool json = false;
  bool yes = false;  ///< what an order loses may be lost
};

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
  explicit editor(session& s)
      : session_(s), prompt_(fmt::format("troupe:{}> ", printable(s.job()))) {
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
    // While a line is typed Ctrl-C and Ctrl-Z are keys: as signals they would end the program, or
    // stop it with the terminal as it is.
    el_set(line_, EL_SETTY, "-d", "-isig", nullptr);
    el_set(line_, EL_ADDFN, "troupe-cancel", "cancel the line", &editor::cancel);
    el_set(line_, EL_BIND, "^C", "troupe-cancel", nullptr);
    el_set(line_, EL_ADDFN, "troupe-suspend", "stop the program", &editor::suspend);
    el_set(line_, EL_BIND, "^Z", "troupe-suspend", nullptr);
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

  /// From here to the end of the next line keys are no signals. libedit does this by itself, but
  /// behind the prompt, so that a quick Ctrl-C would be nobody's.
  void takes_terminal() { el_set(line_, EL_PREP_TERM, 1); }

  /// The next line; none at the end of the input.
  std::optional<std::string> next() {
    int count = 0;
    cancelled_ = false;
    const char* text = el_gets(line_, &count);
    if (cancelled_) return std::string();
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

  static unsigned char cancel(EditLine* line, int) {
    self(line)->cancelled_ = true;
    say_as_is("^C\n");
    return CC_NEWLINE;
  }

  static unsigned char suspend(EditLine* line, int) {
    el_set(line, EL_PREP_TERM, 0);
    kill(0, SIGTSTP);
    el_set(line, EL_PREP_TERM, 1);
    return CC_REDISPLAY;
  }

  /// Completes as far as all candidates agree; shows them where they do not.
  static unsigned char complete(EditLine* line, int) {
    auto* me = self(line);
    const LineInfo* info = el_line(line);
    const std::string before(info->buffer, info->cursor);
    auto view = me->session_.view("", "", false);
    const auto ends = complete_line(view ? *view : fbs::ClusterViewT{}, before);
    if (ends.all.empty()) return CC_REFRESH_BEEP;
    if (!ends.more.empty() && el_insertstr(line, ends.more.c_str()) == 0) return CC_REFRESH;
    static_cast<void>(print(fmt::format("\n{}\n", fmt::join(ends.all, "  "))));
    return CC_REDISPLAY;
  }

  session& session_;
  std::string prompt_, path_;
  EditLine* line_ = nullptr;
  History* history_ = nullptr;
  bool cancelled_ = false;
};

/// A person at a terminal, whose Ctrl-C ends what the console does, never the console.
class person {
 public:
  person(session& s, signal_queue& interrupts) : session_(s), interrupts_(interrupts) {}

  /// What was pressed before, in vain, is no word about what follows; what is pressed right behind
  /// Enter is one about that line. So this stands where keys are no signals, before the line.
  void begins_line() {
    while (interrupts_.wait(0)) continue;
    session_.listen_again();
  }

  /// Does something that Ctrl-C ends.
  template <class Work>
  auto may_interrupt(Work work) {
    std::jthread listener([this](const std::stop_token& over) {
      const std::stop_callback bell(over, [this] { interrupts_.wake(); });
      while (!over.stop_requested())
        if (const auto event = interrupts_.wait(-1); event && *event != 0) session_.interrupt();
    });
    return work();
  }

  /// Whether a second passes in which nobody presses Enter or Ctrl-C.
  bool lets_second_pass() {
    const auto event = interrupts_.wait(1000, STDIN_FILENO);
    return (!event || *event == 0) && !has_input(STDIN_FILENO);
  }

  /// The end of the input (Ctrl-D) and Ctrl-C are no, and of this question.
  status asked(const std::string& loss) {
    say_as_is(fmt::format("{}. Do it? [y/N] ", loss));
    const auto answer = next_line();
    if (!answer) say_as_is("\n");
    if (answer && (*answer == "y" || *answer == "yes")) return {};
    return error{errc::cancelled, "not done"};
  }

 private:
  static bool has_input(int fd) {
    pollfd there{fd, POLLIN, 0};
    return poll(&there, 1, 0) > 0;
  }

  /// Past the buffers of stdio: what follows the line belongs to the editor.
  std::optional<std::string> next_line() {
    std::string line;
    for (char c = 0;;) {
      if (const auto event = interrupts_.wait(-1, STDIN_FILENO); event && *event != 0) return {};
      if (!has_input(STDIN_FILENO)) continue;
      if (read(STDIN_FILENO, &c, 1) != 1) return {};
      if (c == '\n') return line;
      line += c;
    }
  }

  session& session_;
  signal_queue& interrupts_;
};

/// What a console does with lines.
struct console_of {
  session& s;
  const console_arguments& a;
  person* who = nullptr;  ///< nobody: a script

  status may(const std::string& loss) const {
    if (a.yes) return {};
    return who != nullptr ? who->asked(loss) : would_lose(loss);
  }

  /// What a person's Ctrl-C ends.
  template <class Work>
  auto interruptible(Work work) const {
    return who != nullptr ? who->may_interrupt(work) : work();
  }

  result<answer> once(const console_command& c) const {
    return interruptible([&] { return execute(s, c, {terminal_width(), a.json}); });
  }

  /// Again and again where it is to be watched.
  result<answer> line(const std::string& text) const {
    TROUPE_TRY(asked, parse_line(text));
    const auto loss = interruptible([&] { return loss_now(s, asked.what); });
    if (loss) TROUPE_CHECK(may(*loss));
    if (!asked.again) return once(asked.what);
    for (;;) {
      TROUPE_TRY(said, once(asked.what));
      if (isatty(STDOUT_FILENO) && !a.json) TROUPE_CHECK(print_unchanged("\x1b[H\x1b[2J"));
      TROUPE_TRY(code, apps::tell(said));
      const bool goes_on = who != nullptr ? who->lets_second_pass() : nobody_writes();
      if (said.leave || !goes_on) return answer{"", code == 0};
    }
  }

  /// Says what came of a line: 0, 1 where it was refused or failed, 77 where one may not say it, 64
  /// where nobody has said that it may lose what it loses.
  int tell(const result<answer>& said) const {
    const auto told = said ? apps::tell(*said) : said.error();
    if (told) return *told;
    if (!a.json || !print(error_json(told.error()))) say(told.error());
    const bool tells = told.error().code == errc::permission || told.error().is(would_lose);
    return tells ? exit_code(told.error().code) : 1;
  }

 private:
  /// Whether a second passes without a word from the pipe.
  static bool nobody_writes() {
    pollfd in{STDIN_FILENO, POLLIN, 0};
    return poll(&in, 1, 1000) <= 0;
  }
};

result<int> converse(const console_arguments& a) {
  TROUPE_TRY(interrupts, signal_queue::of_interrupts());  // before the session's threads
  TROUPE_TRY(s, session::open(a.connect));
  person who(*s, *interrupts);
  const console_of console{*s, a, &who};
  editor e(*s);
  say(greeting(s->job(), s->address(), s->who(), s->may_change()));
  for (;;) {
    e.takes_terminal();
    who.begins_line();
    const auto line = e.next();  // Tab asks, too
    if (!line) break;
    const auto said = console.line(*line);
    console.tell(said);
    if (said && said->leave) return 0;
  }
  say_as_is("\n");
  return 0;
}

result<int> console(const console_arguments& a) {
  if (a.lines.empty() && isatty(STDIN_FILENO)) return converse(a);
  TROUPE_TRY(s, session::open(a.connect));
  const console_of console{*s, a};
  int code = 0;
  auto one = [&](const std::string& line) {
    const auto said = console.line(line);
    if (const int of_line = console.tell(said); of_line != 0) code = of_line;
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
  auto* verb = sh.app.add_subcommand("console", "Speak with a running cluster or power budget");
  auto a = std::make_shared<console_arguments>();
  a->connect.or_budget = true;
  add_connect_options(verb, a->connect);
  verb->add_option("-c,--command", a->lines,
                   "Executes this line and ends; may be given several times");
  verb->add_flag("--json", a->json, "Answers as JSON, a line each");
  verb->add_flag("-y,--yes", a->yes,
                 "Do what would lose the only copy of steps without asking; a script is refused "
                 "(64) otherwise");
  verb->footer(
      "Words: nodes, actors, status, send, call, watch, pause, resume, checkpoint now, stop, set,\n"
      "rewind, drain, evict, admit, replace, spares, swap, power, kill, log, blackbox,\n"
      "findings, expect, incidents, incident, doctor, help, quit. Lines may also come from a\n"
      "pipe; their words are quoted as in a shell. Ctrl-C cancels a line or an answer, Ctrl-D\n"
      "leaves.\n"
      "evict, replace, rewind and kill ask where they would lose steps; drain and stop save.\n\n"
      "Examples:\n"
      "  troupe console\n"
      "  troupe console -c pause -c 'set train.lr 1e-4' -c resume\n"
      "  troupe console --job row0 -c 'power budget 55 for 2h' -c 'power why gpt-b'");
  on_run(sh, verb, [a] { return console(*a); });
}

}  // namespace troupe::apps
