// The thread that listens.
#include "apps/up/stop_signals.hpp"

#include <string.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "actors/base/defaults.hpp"
#include "apps/talk.hpp"
#include "apps/up/watchdog.hpp"
#include "apps/voice.hpp"

namespace troupe::apps {

namespace {

/// Children die with this process (PRC-1), partial checkpoints are the next start's to remove.
[[noreturn]] void leave(phase during, int signal, const std::function<void(int)>& last_word) {
  say(during == phase::starting
          ? fmt::format("stopped by SIG{} before the training began; the same command starts it",
                        sigabbrev_np(signal))
          : std::string(
                "second signal: aborting at once; the same command goes on from the last "
                "checkpoint, if there is one and checkpoint.resume is \"auto\", its default"));
  if (last_word) {
    try {
      const watchdog in_time(defaults::launcher_word, 128 + signal, {errc::none, ""});
      last_word(signal);
    } catch (const std::system_error&) {
      // Without a thread that watches, no last word.
    }
  }
  settle_voice();
  _exit(128 + signal);
}

}  // namespace

result<std::unique_ptr<stop_signals>> stop_signals::open() {
  TROUPE_TRY(signals, signal_queue::open());
  return std::unique_ptr<stop_signals>(new stop_signals(std::move(signals)));
}

stop_signals::stop_signals(std::unique_ptr<signal_queue> signals)
    : signals_(std::move(signals)), listener_([this] { listen(); }) {}

stop_signals::~stop_signals() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  signals_->wake();
  listener_.join();
}

void stop_signals::listen() {
  for (;;) {
    const auto event = signals_->wait(-1);
    if (event == SIGCHLD) wake();
    if (event == SIGINT || event == SIGTERM || event == SIGHUP) take(*event);
    std::lock_guard lock(mutex_);
    if (closing_) return;
  }
}

void stop_signals::take(int signal) {
  std::unique_lock lock(mutex_);
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now().time_since_epoch());
  const auto during = phase_;
  const auto verdict = policy_.heard(during, signal, now);
  if (verdict == stop_verdict::stop) asked_ = signal;
  const auto last_word = last_word_;
  lock.unlock();
  if (verdict == stop_verdict::at_once) leave(during, signal, last_word);
  wake();
}

void stop_signals::enter(phase next) {
  std::lock_guard lock(mutex_);
  phase_ = next;
}

void stop_signals::at_once(std::function<void(int)> last_word) {
  std::lock_guard lock(mutex_);
  last_word_ = std::move(last_word);
}

int stop_signals::asked() const {
  std::lock_guard lock(mutex_);
  return asked_;
}

void stop_signals::wait(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, most, [this] { return rung_; });
  rung_ = false;
}

void stop_signals::wake() noexcept {
  {
    std::lock_guard lock(mutex_);
    rung_ = true;
  }
  news_.notify_one();
}

}  // namespace troupe::apps
