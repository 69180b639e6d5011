// Steps to medians.
#include "actors/health/step_windows_policy.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "io/base/median.hpp"
#include "messages/operations.hpp"
#include "messages/text.hpp"

namespace troupe::health {

namespace {

constexpr float not_told = -1;
constexpr uint32_t whole_pace = 1024;

/// Whether it is no part of what a step takes: it comes with a checkpoint, a comparison or a
/// validation.
bool comes_and_goes(train::pipeline_op kind) {
  using op = train::pipeline_op;
  return kind == op::evaluate || kind == op::await_copies || kind == op::digest ||
         kind == op::recheck;
}

/// Eleven days are more than any step takes; windows add such numbers up.
bool is_time(double ms) {
  return ms >= 0 && ms <= 1e9;
}

}  // namespace

rank_step rank_step_in(const fbs::StepDone& done, uint32_t epoch) {
  rank_step out{epoch, done.step(), done.rank()};
  if (done.parts() == nullptr) return out;
  for (const auto* p : *done.parts()) {
    const auto* facts = train::operation_named(text_of(p->kind()));
    if (facts == nullptr || facts->stream != train::op_stream::compute) continue;
    if (comes_and_goes(facts->kind)) continue;
    out.own_ms += p->busy_ms();
    out.whole_ms += p->busy_ms() + p->waited_ms();
    if (facts->kind == train::pipeline_op::forward) out.tokens += p->work();
  }
  const double pace = std::min(done.pace_of_1024(), whole_pace);
  if (pace > 0) out.pace = pace / whole_pace;
  out.whole_ms = std::max(out.own_ms, out.whole_ms * out.pace);
  return out;
}

bool paces_differ(double a, double b) {
  constexpr double tenth = 1.1;
  return a > b * tenth || b > a * tenth;
}

void step_windows_policy::begin_step(const rank_step& said) {
  step_ = said.step;
  pace_ = said.pace;
  told_ = 0;
  tokens_ = 0;
  now_.whole_ms = 0;
  now_.own_ms.assign(ranks_, not_told);
}

void step_windows_policy::begin_window(int64_t now_ns) {
  begun_ns_ = now_ns;
  steps_ = 0;
  every_ = 1;
  kept_.clear();
}

/// SWN-3.
void step_windows_policy::keep() {
  if (steps_ % every_ == 0) {
    if (kept_.size() == most_steps_kept) {
      for (size_t i = 0; 2 * i < kept_.size(); ++i) std::swap(kept_[i], kept_[2 * i]);
      kept_.resize((kept_.size() + 1) / 2);
      every_ *= 2;
    }
    kept_.push_back(now_);
  }
  ++steps_;
}

step_window step_windows_policy::sum_up() const {
  step_window out{epoch_, steps_, window_tokens_, window_pace_, 0, {}};
  std::vector<float> values(kept_.size());
  const auto middle = [&](auto of) {
    std::transform(kept_.begin(), kept_.end(), values.begin(), of);
    return upper_median(std::span(values));
  };
  out.step_ms = middle([](const whole_step& s) { return s.whole_ms; });
  out.own_ms.reserve(ranks_);
  for (size_t r = 0; r < ranks_; ++r)
    out.own_ms.push_back(middle([r](const whole_step& s) { return s.own_ms[r]; }));
  return out;
}

/// SWN-1, SWN-2.
std::optional<step_window> step_windows_policy::end_step(int64_t now_ns) {
  if (++whole_steps_ <= first_steps) {
    begin_window(now_ns);
    return {};
  }
  const bool other = tokens_ != window_tokens_ || paces_differ(pace_, window_pace_);
  if (steps_ > 0 && other) begin_window(now_ns);
  if (steps_ == 0) window_pace_ = pace_;
  window_tokens_ = tokens_;
  keep();
  if (now_ns - begun_ns_ < window_ns_ || steps_ < least_steps) return {};
  auto out = sum_up();
  begin_window(now_ns);
  return out;
}

std::optional<step_window> step_windows_policy::hear(const rank_step& said, int64_t now_ns) {
  if (said.rank >= ranks_ || said.epoch < epoch_) return {};
  if (!is_time(said.own_ms) || !is_time(said.whole_ms)) return {};
  const bool is_new = said.epoch != epoch_;
  if (is_new) {
    epoch_ = said.epoch;
    whole_steps_ = 0;
  }
  if (is_new || said.step != step_ || told_ == ranks_) begin_step(said);
  auto& own = now_.own_ms[said.rank];
  if (own != not_told) return {};
  own = static_cast<float>(said.own_ms);
  now_.whole_ms = std::max(now_.whole_ms, static_cast<float>(said.whole_ms));
  tokens_ += said.tokens;
  return ++told_ == ranks_ ? end_step(now_ns) : std::nullopt;
}

}  // namespace troupe::health
