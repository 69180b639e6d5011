// Waiting at the signal desk, in short pulses.
#include "apps/up/watch.hpp"

#include <unistd.h>
#include <csignal>

#include <fmt/format.h>
#include <caf/send.hpp>

#include "apps/talk.hpp"
#include "apps/voice.hpp"
#include "messages/msg.hpp"

namespace troupe::apps {

namespace {

constexpr int pulse_ms = 200;
constexpr int grace_ms = 10'000;
constexpr int failed_grace_ms = 1'000;  ///< a frozen node would take all of the other

/// Where the last seconds of those are that a signal ended.
void note(const std::vector<ended_child>& children) {
  for (const auto& c : children)
    if (!c.black_box.empty())
      say(fmt::format("node {} {}; its keeper writes its last seconds to {}", c.node, c.how,
                      c.black_box));
}

}  // namespace

int watch::until_over() {
  while (!over()) {
    const auto event = desk_.wait(pulse_ms);
    if (event && (*event == SIGINT || *event == SIGTERM || *event == SIGHUP)) interrupt(*event);
    tell_of_ended_children();
  }
  return signal_;
}

void watch::until_alone(const std::atomic<bool>& coordinator_gone) {
  auto alone = [&] { return nodes_.running() == 0 && coordinator_gone; };
  const int grace = failed() ? failed_grace_ms : grace_ms;
  for (int waited = 0; !alone() && waited < grace; waited += pulse_ms / 4) {
    const auto event = desk_.wait(pulse_ms / 4);
    if (event && (*event == SIGINT || *event == SIGTERM)) break;
    note(nodes_.reap());
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

/// The first signal asks, the second does not.
void watch::interrupt(int number) {
  if (signal_ != 0) {
    say("second signal: aborting at once");
    nodes_.signal_all(SIGKILL);
    settle_voice();
    _exit(128 + number);
  }
  signal_ = number;
  say("finishing the step, then saving and stopping (again to abort at once)");
  caf::anon_send(coordinator_, make_msg<fbs::StopTraining>({}, [&](auto& s) {
                   s.reason = number == SIGINT ? "interrupted" : "terminated";
                   s.save = true;
                 }));
}

void watch::tell_of_ended_children() {
  const auto children = nodes_.reap();
  note(children);
  for (const auto& child : children)
    caf::anon_send(coordinator_, make_msg<fbs::Leave>({}, [&](auto& l) {
                     l.node = child.node;
                     l.reason = child.how;
                   }));
}

}  // namespace troupe::apps
