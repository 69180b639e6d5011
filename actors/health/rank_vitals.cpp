// Views of two actors to one line of vitals.
#include "actors/health/rank_vitals.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "messages/operations.hpp"

namespace troupe::health {

namespace {

using train::operations;

/// The number of an operation by its name, or by the name that a text begins with; -1: none.
int8_t op_of(std::string_view text) {
  const auto word = text.substr(0, text.find(' '));
  for (size_t i = 0; i < operations.size(); ++i)
    if (operations[i].name == word) return static_cast<int8_t>(i);
  return -1;
}

/// 3 of "worker/3", 0 of "all_reduce 0"; none where there is no number at the end.
std::optional<int> number_behind(std::string_view text, char mark) {
  const auto at = text.rfind(mark);
  if (at == text.npos) return std::nullopt;
  int out = 0;
  const auto digits = text.substr(at + 1);
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (fault != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return out;
}

/// The oldest wait for another rank's worker; nullptr: there is none.
const actor_wait* wait_for_rank(const actor_view& worker) {
  const actor_wait* out = nullptr;
  for (const auto& w : worker.waits)
    if (w.whom.starts_with("worker/") && (out == nullptr || w.since_ns < out->since_ns)) out = &w;
  return out;
}

uint32_t ms_since(int64_t since_ns, int64_t now_ns) {
  const auto ms = std::max<int64_t>(0, now_ns - since_ns) / 1'000'000;
  return static_cast<uint32_t>(std::min<int64_t>(ms, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

uint16_t rank_threads(const actor_view& worker) {
  if (!worker.values.worker) return 0;
  constexpr uint32_t most = std::numeric_limits<uint16_t>::max();
  return static_cast<uint16_t>(std::min(worker.values.worker->threads, most));
}

fbs::RankVitalsT rank_vitals(uint32_t rank, const actor_view& stage, const actor_view& worker,
                             int64_t now_ns) {
  fbs::RankVitalsT out;
  out.rank = rank;
  if (stage.values.stage) out.step = stage.values.stage->step;
  if (const auto& w = worker.values.worker) {
    out.finished = static_cast<uint32_t>(w->operations);
    out.median_us = static_cast<uint32_t>(std::clamp(w->median_ms * 1e3, 0.0, 4e9));
    out.saving = w->checkpoint && !w->checkpoint->saves.empty();
  }
  if (stage.values.stage) {  // what the pace holds back is not stuck
    const auto held_us = std::min<uint64_t>(stage.values.stage->held_us, 4'000'000'000);
    out.median_us = std::max(out.median_us, static_cast<uint32_t>(held_us));
    out.braked = stage.values.stage->braked;
  }
  const bool in_pass = stage.state == "training" || stage.state == "validating";
  const auto* wait = wait_for_rank(worker);
  const auto op = op_of(worker.state);
  out.for_ms = ms_since(stage.since_ns, now_ns);
  if (stage.state == "failed") {
    out.state = fbs::RankState::failed;
  } else if (op >= 0) {
    out.state = static_cast<train::pipeline_op>(op) == train::pipeline_op::load
                    ? fbs::RankState::loading
                    : fbs::RankState::computing;
    out.op = op;
    out.for_ms = ms_since(worker.since_ns, now_ns);
    if (worker.values.worker) out.micro_batch = static_cast<int32_t>(worker.values.worker->number);
  } else if (wait != nullptr) {
    out.state = fbs::RankState::waiting;
    out.op = op_of(wait->what);
    out.micro_batch = number_behind(wait->what, ' ').value_or(-1);
    out.waits_for = number_behind(wait->whom, '/').value_or(-1);
    out.for_ms = ms_since(wait->since_ns, now_ns);
  } else {
    out.state = in_pass                   ? fbs::RankState::computing
                : stage.state == "idle"   ? fbs::RankState::idle
                : worker.state == "ready" ? fbs::RankState::idle
                                          : fbs::RankState::starting;
  }
  return out;
}

}  // namespace troupe::health
