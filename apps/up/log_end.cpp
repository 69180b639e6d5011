// By what the run came to.
#include "apps/up/log_end.hpp"

#include <string.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "apps/exit_codes.hpp"
#include "apps/talk.hpp"
#include "apps/up/log_tail.hpp"

namespace troupe::apps {

namespace {

constexpr uint64_t read_for_end_bytes = 256 << 10;

/// The last step that is known to be done.
uint64_t last_step_of(const run_outcome& outcome, uint64_t after_step) {
  const auto& steps = outcome.summary.losses;
  const auto told = steps.empty() ? 0 : static_cast<uint64_t>(steps.back().step);
  return outcome.last_step > 0 ? outcome.last_step : std::max(told, after_step);
}

}  // namespace

void log_end::process_ends(const result<int>& code, int signal) {
  using report::end_reason;
  if (!code) return write(end_reason::error, exit_code(code.error().code), code.error().message);
  if (*code == 0) return write(end_reason::done, 0, "");
  write(signal != 0 ? end_reason::signal : end_reason::stopped, *code, why());
}

void log_end::aborted(int signal) {
  write(report::end_reason::signal, 128 + signal,
        fmt::format("aborted at once by SIG{}", sigabbrev_np(signal)));
}

void log_end::goes_on(report::end_reason reason) {
  write(reason, std::nullopt, why());
}

std::string log_end::why() const {
  std::lock_guard lock(outcome_->mutex);
  return outcome_->why.message;
}

void log_end::write(report::end_reason reason, std::optional<int> code, const std::string& text) {
  std::lock_guard only(mutex_);
  if (std::exchange(written_, true)) return;  // LGE-1
  const auto passed = std::chrono::steady_clock::now() - began_;
  report::run_over line;
  line.unix_s = unix_now();
  line.epoch = epoch_;
  line.reason = reason;
  line.code = code;
  line.text = text;
  line.seconds = std::chrono::duration<double>(passed).count();
  {
    std::lock_guard lock(outcome_->mutex);
    line.step = static_cast<int64_t>(last_step_of(*outcome_, after_step_));
  }
  log_->append(report::end_json(line));
}

std::shared_ptr<log_end> begin_end(const reporter_options& talk, stop_signals& signals) {
  auto out = std::make_shared<log_end>(talk.log, talk.outcome, talk.epoch, talk.after_step);
  signals.at_once([out](int signal) { out->aborted(signal); });
  return out;
}

std::optional<bool> last_launch_has_end(const std::string& file) {
  return report::has_end(tail_of(file, read_for_end_bytes));
}

}  // namespace troupe::apps
