// Counters that move, budgets of what does not.
#include "actors/health/stuck_policy.hpp"

#include <algorithm>

namespace troupe::health {

namespace {

constexpr int64_t ns_per_s = 1'000'000'000;
constexpr int64_t away_after_ns = ns_per_s;

constexpr std::string_view validating = "validating", over = "ended";
/// Kernels are chosen, memory is touched for the first time, groups make their first transfers.
constexpr int64_t first_step_ns = 60 * ns_per_s;
constexpr int64_t validation_ns = 30 * ns_per_s;
/// As long as a save waits for a slot before it is given up (gpu/model/state_saver.hpp).
constexpr int64_t copies_ns = 60 * ns_per_s;
constexpr int64_t times_median = 5;

}  // namespace

/// Of an operation that takes so long. Not a number is none.
int64_t stuck_policy::allowed_for(double median_ms) const {
  if (!(median_ms > 0)) return 0;
  return static_cast<int64_t>(
      std::min(times_median * median_ms * 1e6, static_cast<double>(longest_ns_)));
}

void stuck_policy::hear(const std::string& node, uint32_t epoch, uint64_t sequence,
                        const std::vector<rank_progress>& ranks, int64_t now_ns) {
  auto& n = nodes_[node];
  if (epoch < epoch_ || (epoch == n.epoch && sequence <= n.sequence)) return;  // STK-3
  enter(epoch, now_ns);
  n.epoch = epoch;
  n.sequence = sequence;
  n.heard_ns = now_ns;
  std::map<int, rank_progress> said;
  for (const auto& r : ranks) {
    const auto before = n.ranks.find(r.rank);
    if (before == n.ranks.end() || before->second.finished != r.finished) move(now_ns);  // STK-1
    if (r.braked) move(now_ns);                                                          // STK-5
    said.emplace(r.rank, r);
  }
  n.ranks = std::move(said);
}

void stuck_policy::enter(uint32_t epoch, int64_t now_ns) {
  if (epoch <= epoch_) return;
  epoch_ = epoch;
  stepped_ = false;
  move(now_ns);
}

void stuck_policy::step_done(uint32_t epoch, int64_t now_ns) {
  if (epoch < epoch_) return;  // STK-3
  enter(epoch, now_ns);
  stepped_ = true;
  move(now_ns);
}

void stuck_policy::run_is(std::string_view phase, uint64_t step, int64_t now_ns) {
  if (phase != phase_ || step != step_) move(now_ns);
  phase_ = phase;
  step_ = step;
}

/// STK-2.
std::optional<int64_t> stuck_policy::allowed_ns() const {
  if (phase_ != stepping && phase_ != validating) return std::nullopt;
  auto out = stuck_after_ns_;
  if (phase_ == stepping && !stepped_) out = std::max(out, first_step_ns);
  if (phase_ == validating) out = std::max(out, validation_ns);
  for (const auto& [name, n] : nodes_)
    for (const auto& [rank, r] : n.ranks) {
      if (n.epoch != epoch_) break;
      out = std::max(out, allowed_for(r.median_ms));
      if (r.awaits_copies) out = std::max(out, copies_ns);
    }
  return out;
}

stuck_policy::verdict stuck_policy::judge(int64_t now_ns) {
  const auto away = judged_ns_ ? now_ns - *judged_ns_ : 0;
  judged_ns_ = now_ns;
  if (away > away_after_ns) {  // STK-4
    moved_ns_ = std::min(now_ns, moved_ns_ + away);
    for (auto& [name, n] : nodes_) n.heard_ns = std::min(now_ns, n.heard_ns + away);
  }
  verdict out;
  const auto allowed = allowed_ns();
  if (!allowed || nodes_.empty()) return out;
  out.still_ns = now_ns - moved_ns_;
  out.allowed_ns = *allowed;
  out.stuck = out.still_ns >= out.allowed_ns;
  return out;
}

std::vector<stuck_policy::silence> stuck_policy::silent(int64_t now_ns) const {
  std::vector<silence> out;
  if (phase_ == over) return out;
  for (const auto& [name, n] : nodes_)
    if (n.epoch == epoch_ && now_ns - n.heard_ns >= silent_after_ns_)
      out.push_back({name, now_ns - n.heard_ns});
  return out;
}

}  // namespace troupe::health
