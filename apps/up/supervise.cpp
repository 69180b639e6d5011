// One head, one line to it, some signals.
#include "apps/up/supervise.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "apps/talk.hpp"
#include "apps/up/child_end.hpp"
#include "apps/up/child_processes.hpp"
#include "apps/up/head.hpp"
#include "apps/up/head_restarts_policy.hpp"
#include "apps/up/head_words.hpp"
#include "apps/up/launcher_line.hpp"
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
  launcher_line line;
  pid_t pid = -1;
  head_says said = {};

  /// Takes what has been said since, and orders.
  void listen(child_processes& nodes) {
    while (const auto p = line.receive())
      if (!take_head_words(*p, said)) nodes.take(*p);
  }
  /// Tells it what became of nodes; it hears that as the ends of children.
  void tell(const std::vector<packet>& news) {
    line.flush();
    for (const auto& n : news) static_cast<void>(line.send(n));  // its end is seen elsewhere
    if (!news.empty()) kill(pid, SIGCHLD);
  }
};

/// What the next head is told of the one before.
struct lost_before {
  train::lost_head how;
  uint16_t port = 0;
  bool saved = false;  ///< this launch has a checkpoint
  std::vector<std::string> warnings = {};  ///< of its end, and of others' since a step: STW-1
};

/// As actors of the next head tell the time.
int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now().time_since_epoch())
      .count();
}

/// Of the head that has just ended; one that made no step leaves what was known of the one before.
lost_before lost_after(const std::optional<lost_before>& before, const head_says& said,
                       const std::string& how) {
  if (!before) return {{how, said.step, said.furthest, now_ns()}, said.port, said.saved};
  auto out = *before;
  out.how.how = how;
  out.saved |= said.saved;
  if (said.port != 0) out.port = said.port;
  if (said.step == 0) return out;
  out.warnings.clear();  // it had a log
  out.how.after_step = said.step;
  out.how.furthest_step = std::max(out.how.furthest_step, said.furthest);
  out.how.at_ns = now_ns();
  return out;
}

/// SPV-4. Its mask is ours: a signal that comes before it listens waits for it (SPV-2).
result<head_process> start_head(std::vector<std::string> command,
                                const std::optional<lost_before>& lost,
                                const child_processes& nodes) {
  TROUPE_TRY(ends, launcher_line::make());
  head_process head{std::move(ends.first)};
  for (const auto& known : nodes.known()) TROUPE_CHECK(head.line.send(known));
  command.insert(command.end(), {"--launcher", std::to_string(getpid())});
  if (lost)
    for (auto& word : lost_head_words(lost->how, lost->port)) command.push_back(std::move(word));
  if (lost)
    for (const auto& told : lost->warnings) command.insert(command.end(), {"--lost-warning", told});
  if (lost && lost->saved) command.insert(command.end(), {"--set", "checkpoint.resume=auto"});
  std::vector<char*> argv;
  for (auto& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends.second.get(), launcher_line_fd);
  const int failed =
      posix_spawn(&head.pid, "/proc/self/exe", &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) return error::system("start the head", failed);
  return head;
}

/// Signals on their way to the head, and its nodes.
class relay {
 public:
  relay(signal_queue& signals, child_processes& nodes) : signals_(signals), nodes_(nodes) {}

  /// Until the head has ended and all that it said is heard; as waitpid says it.
  int until_ended(head_process& head) {
    for (;;) {
      int how = 0;
      const bool over = waitpid(head.pid, &how, WNOHANG) == head.pid;
      head.listen(nodes_);
      if (over) return how;
      head.tell(nodes_.look());
      const auto pause = nodes_.waits() ? defaults::child_look : defaults::launcher_period;
      const auto event = signals_.wait(static_cast<int>(pause.count()), head.line.fd());
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
  child_processes& nodes_;
  stop_policy policy_;
  bool asked_ = false;
  std::optional<clock::time_point> kill_at_;  ///< SPV-2
};

}  // namespace

result<int> supervise_head(const std::vector<std::string>& command) {
  TROUPE_TRY(signals, signal_queue::open());  // before any thread
  speak_through_outboxes();
  child_processes nodes;
  relay handing_on(*signals, nodes);
  head_restarts_policy restarts;
  oom_count killed_for_memory;
  std::optional<lost_before> lost;
  for (;;) {
    TROUPE_TRY(head, start_head(command, lost, nodes));
    const int how = handing_on.until_ended(head);
    if (!WIFSIGNALED(how)) return WEXITSTATUS(how);  // HRS-1
    const auto& said = head.said;
    const auto text = child_end_text(how, killed_for_memory.look(clock::now()));
    const auto granted = restarts.after_kill(text, said, handing_on.asked(), clock::now());
    if (!granted) {
      say(granted.error());
      return 128 + WTERMSIG(how);  // SPV-3
    }
    lost = lost_after(lost, said, text);
    const auto& told = lost->warnings.emplace_back(
        fmt::format("the head {}: it is started again ({} of {} within an hour)", text,
                    restarts.within_hour(), restarts.per_hour()));
    say("warning: " + told);
  }
}

}  // namespace troupe::apps
