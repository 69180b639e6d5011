// Tails to the policy.
#include "actors/health/log_watch.hpp"

#include <time.h>
#include <optional>
#include <utility>

#include "io/logs/kernel_log.hpp"

namespace troupe::health {

namespace {

/// Of this thread's: other work does not count.
int64_t processor_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

struct log_watch::parts {
  log_rules_policy rules;
  std::vector<io::log_tail> own = {};
  std::optional<io::kernel_log> kernel = {};
  uint64_t passed_over_bytes = 0;
  size_t room = 64 << 10;  ///< of a look at a log
};

log_watch::log_watch() : parts_(std::make_unique<parts>()) {}
log_watch::log_watch(log_watch&&) noexcept = default;
log_watch& log_watch::operator=(log_watch&&) noexcept = default;
log_watch::~log_watch() = default;

log_watch::log_watch(const std::vector<config::log_rule_spec>& rules,
                     const std::vector<io::log_place>& own)
    : parts_(std::make_unique<parts>(parts{log_rules_policy(rules)})) {
  if (parts_->rules.is_idle()) return;
  for (const auto& place : own) parts_->own.emplace_back(place);
  parts_->kernel = io::kernel_log::open();
}

void log_watch::look(fbs::MachineVitalsT& out, int64_t now_ns) {
  auto& p = *parts_;
  const auto begin = processor_ns();
  for (size_t i = 0; i < p.own.size(); ++i) {
    const auto piece = p.own[i].look(p.room);
    p.passed_over_bytes += piece.passed_over_bytes;
    p.rules.take(i, piece, now_ns);
    out.logs.push_back(p.own[i].name());
  }
  if (p.kernel) {
    p.rules.take(p.own.size(), p.kernel->look(p.room), now_ns);
    out.logs.emplace_back(io::kernel_log::path);
  }
  p.room = next_room(p.room, processor_ns() - begin);
  out.log_rules = p.rules.counts();
  out.logs_passed_over_bytes = p.passed_over_bytes;
}

}  // namespace troupe::health
