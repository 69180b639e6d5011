// Both under one lock.
#include "apps/up/run_log.hpp"

#include <chrono>
#include <ctime>
#include <utility>

#include <fmt/chrono.h>

#include "apps/talk.hpp"

namespace troupe::apps {

double unix_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string wall_time() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

void run_log::append(const std::string& line) {
  std::lock_guard lock(mutex_);
  const auto done = file_.append(line);
  why_ = done ? std::nullopt : std::optional(done.error());
  if (!done) ++missing_;
  if (prints_) static_cast<void>(print(line + "\n"));
}

std::optional<log_news> run_log::news() {
  std::lock_guard lock(mutex_);
  const bool is_new = why_ ? !is_told_ : missing_ > 0;
  if (!is_new) return std::nullopt;
  is_told_ = why_.has_value();
  const log_news out{why_, missing_};
  if (!why_) missing_ = 0;
  return out;
}

log_news run_log::state() const {
  std::lock_guard lock(mutex_);
  return {why_, missing_};
}

}  // namespace troupe::apps
