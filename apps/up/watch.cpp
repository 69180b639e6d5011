// Waiting for signals and children, in short pulses.
#include "apps/up/watch.hpp"

#include <string.h>
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <caf/send.hpp>

#include "actors/base/defaults.hpp"
#include "apps/talk.hpp"
#include "messages/msg.hpp"

namespace troupe::apps {

namespace {

/// Where the last seconds of those are that a signal ended.
void note(const std::vector<ended_child>& children) {
  for (const auto& c : children)
    if (!c.black_box.empty())
      say(fmt::format("node {} {}; its crash dumper writes its last seconds to {}", c.node, c.how,
                      c.black_box));
}

}  // namespace

run_end watch::until_over(const std::atomic<bool>& coordinator_gone) {
  using clock = std::chrono::steady_clock;
  auto last = clock::now();
  std::optional<clock::time_point> gone;
  while (!over()) {
    signals_.wait(defaults::launcher_period);
    const auto now = clock::now();
    const auto away = now - std::exchange(last, now);  // Ctrl-Z: nothing of us ran
    end_.absence = std::max(end_.absence, std::chrono::floor<std::chrono::milliseconds>(away));
    if (const int signal = signals_.asked(); signal != 0 && end_.signal == 0) ask_to_stop(signal);
    tell_of_ended_children();
    start_what_is_ordered();
    if (coordinator_gone && !gone) gone = now;
    if (gone && now - *gone >= defaults::coordinator_word && !over()) give_up();
  }
  return end_;
}

void watch::until_alone(const std::atomic<bool>& coordinator_gone) {
  auto alone = [&] { return nodes_.running() == 0 && coordinator_gone; };
  const auto most = failed() ? defaults::launcher_failed_grace : defaults::launcher_grace;
  for (auto waited = defaults::launcher_period * 0; !alone() && waited < most;
       waited += defaults::launcher_period / 4) {
    signals_.wait(defaults::launcher_period / 4);
    if (signals_.asked() != end_.signal) break;  // somebody is in a hurry
    note(nodes_.heard());
  }
}

bool watch::over() {
  std::lock_guard lock(outcome_->mutex);
  return outcome_->over;
}

bool watch::failed() {
  std::lock_guard lock(outcome_->mutex);
  return outcome_->why.code != errc::none && outcome_->why.code != errc::cancelled;
}

void watch::give_up() {
  std::lock_guard lock(outcome_->mutex);
  outcome_->why = {errc::bug, "the coordinator ended without saying how the run did",
                   "training resumes from the last checkpoint with `troupe up`; was it told to "
                   "end by `troupe kill`?"};
  outcome_->over = true;
}

void watch::ask_to_stop(int signal) {
  end_.signal = signal;
  say("finishing the step, then saving and stopping (again to abort at once)");
  caf::anon_send(coordinator_, make_msg<fbs::StopTraining>({}, [&](auto& s) {
                   s.reason = fmt::format("stopped by SIG{}", sigabbrev_np(signal));
                   s.save = true;
                 }));
}

void watch::tell_of_ended_children() {
  const auto children = nodes_.heard();
  note(children);
  for (const auto& child : children) {
    end_.deserted = end_.deserted || child.code == exit_code(errc::unavailable);
    tell_of_end(child.node, child.how, child.pid);
  }
}

void watch::tell_of_end(const std::string& node, const std::string& how, pid_t pid) {
  caf::anon_send(coordinator_, make_msg<fbs::Leave>({}, [&](auto& l) {
                   l.node = node;
                   l.reason = how;
                   l.pid = static_cast<uint32_t>(pid);
                 }));
}

void watch::start_what_is_ordered() {
  for (const auto& node : orders_.take()) {
    end_.absence = {};  // that was recovered from
    end_.deserted = false;
    if (auto started = nodes_.restart(node); !started)
      tell_of_end(node, started.error().message, 0);
  }
}

}  // namespace troupe::apps
