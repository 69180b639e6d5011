// One child, one pipe, some signals.
#include "apps/up/supervise.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>

#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "apps/talk.hpp"
#include "apps/up/child_end.hpp"
#include "apps/up/head.hpp"
#include "apps/up/head_restarts_policy.hpp"
#include "apps/up/head_words.hpp"
#include "apps/up/oom_count.hpp"
#include "apps/up/signals.hpp"
#include "apps/up/stop_policy.hpp"
#include "apps/voice.hpp"
#include "io/file.hpp"

extern char** environ;

namespace troupe::apps {

namespace {

using clock = std::chrono::steady_clock;

struct head_process {
  pid_t pid = -1;
  io::unique_fd words;  ///< what it says (head_words.hpp)
  std::string unread = {};  ///< the begin of a line
  head_says said = {};

  /// Takes what has been said since.
  void listen() {
    char some[max_head_words_bytes];
    for (ssize_t n; (n = read(words.get(), some, sizeof some)) > 0;) {
      unread.append(some, static_cast<size_t>(n));
      take_head_words(unread, said);
      if (unread.size() > max_head_words_bytes) unread.clear();
    }
  }
};

/// SPV-4. Its mask is ours: a signal that comes before it listens waits for it (SPV-2).
result<head_process> start_head(std::vector<std::string> command,
                                const std::optional<train::lost_head>& lost, bool goes_on) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return error::system("make a pipe", errno);
  head_process head{-1, io::unique_fd(ends[0])};
  const io::unique_fd writing(ends[1]);
  command.insert(command.end(), {"--launcher", std::to_string(getpid())});
  if (lost)
    for (auto& word : lost_head_words(*lost)) command.push_back(std::move(word));
  if (goes_on) command.insert(command.end(), {"--set", "checkpoint.resume=auto"});
  std::vector<char*> argv;
  for (auto& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, writing.get(), head_words_fd);
  const int failed =
      posix_spawn(&head.pid, "/proc/self/exe", &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) return error::system("start the head", failed);
  return head;
}

/// As actors of the next head tell the time.
int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now().time_since_epoch())
      .count();
}

/// Signals on their way to the head.
class relay {
 public:
  explicit relay(signal_queue& signals) : signals_(signals) {}

  /// Until the head has ended and all that it said is heard; as waitpid says it.
  int until_ended(head_process& head) {
    for (;;) {
      int how = 0;
      const bool over = waitpid(head.pid, &how, WNOHANG) == head.pid;
      head.listen();
      if (over) return how;
      const auto event = signals_.wait(static_cast<int>(defaults::launcher_period.count()));
      if (event == SIGINT || event == SIGTERM || event == SIGHUP) hand_on(head.pid, *event);
      if (kill_at_ && clock::now() >= *kill_at_) kill(head.pid, SIGKILL);
    }
  }
  bool asked() const { return asked_; }

 private:
  void hand_on(pid_t head, int signal) {
    const auto now = clock::now();
    const auto at = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
    asked_ = true;
    if (policy_.heard(phase::running, signal, at) == stop_verdict::at_once)
      kill_at_ = now + defaults::orderly_end;
    kill(head, signal);
  }

  signal_queue& signals_;
  stop_policy policy_;
  bool asked_ = false;
  std::optional<clock::time_point> kill_at_;  ///< SPV-2
};

}  // namespace

result<int> supervise_head(const std::vector<std::string>& command) {
  TROUPE_TRY(signals, signal_queue::open());  // before any thread
  speak_through_outboxes();
  relay handing_on(*signals);
  head_restarts_policy restarts;
  oom_count killed_for_memory;
  std::optional<train::lost_head> lost;
  for (bool goes_on = false;;) {
    TROUPE_TRY(head, start_head(command, lost, goes_on));
    const int how = handing_on.until_ended(head);
    if (!WIFSIGNALED(how)) return WEXITSTATUS(how);  // HRS-1
    const auto& said = head.said;
    const auto text = child_end_text(how, killed_for_memory.look(clock::now()));
    const auto granted = restarts.after_kill(text, said, handing_on.asked(), clock::now());
    if (!granted) {
      say(granted.error());
      return 128 + WTERMSIG(how);  // SPV-3
    }
    goes_on = goes_on || said.saved;
    lost = {text, said.step, std::max(said.furthest, lost ? lost->furthest_step : 0), now_ns()};
    say(fmt::format("warning: the head {}: it is started again ({} of {} within an hour)", text,
                    restarts.within_hour(), *said.restarts_per_hour));
  }
}

}  // namespace troupe::apps
