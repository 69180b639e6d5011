// Sums, leases and words.
#include "actors/sim/parent_watch.hpp"

#include <algorithm>
#include <utility>

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include "messages/message_list.hpp"
#include "messages/schemas/power_generated.h"
#include "messages/schemas/train_generated.h"

namespace troupe::sim {

namespace {

/// The pacer looks at its lease twice a second.
constexpr int64_t lapse_seen_ns = 500'000'000;

template <class T>
const T* message_as(const any_msg& m) {
  return m.type() == message_traits<T>::id ? flatbuffers::GetRoot<T>(m.payload().data()) : nullptr;
}

}  // namespace

void parent_watch::begin() {
  granted_ = false;
  until_ns_ = 0;
  step_ = 0;
  word_ns_ = -1;
  last_word_ = most_word_ = 0;
}

std::optional<std::string> parent_watch::in_force(int64_t sum_mw, int64_t budget_mw,
                                                  int64_t now_ns) {
  caps_before_.forget(now_ns);
  if (budget_mw_ && *budget_mw_ > budget_mw) caps_before_.ended(*budget_mw_, now_ns);
  budget_mw_ = budget_mw;
  const auto before_mw = std::exchange(sum_mw_, sum_mw);
  if (sum_mw <= std::max(caps_before_.most(budget_mw), before_mw)) return {};
  return fmt::format("the children of the power budget may draw {} mW, of {} mW; before: {} mW",
                     sum_mw, budget_mw, before_mw);  // SIM-30
}

std::optional<std::string> parent_watch::see(const any_msg& m, int64_t cap_mw, int64_t now_ns) {
  if (m.header().sender == 0) return {};  // a fault of the simulation's own
  if (const auto* grant = message_as<fbs::PowerGrant>(m)) {
    static_mw_ = grant->static_share_mw();
    if (grant->lease_epoch() == 0) return {};
    granted_ |= grant->cap_mw() > 0;
    until_ns_ =
        std::max(until_ns_, grant->answers_sent_ns() + int64_t{grant->ttl_ms()} * 1'000'000);
  }
  if (const auto* word = message_as<fbs::JobPower>(m)) {
    most_word_ = std::max(now_ns == word_ns_ ? most_word_ : last_word_, word->pace_of_1024());
    last_word_ = word->pace_of_1024();
    word_ns_ = now_ns;
  }
  const auto* step = message_as<fbs::PaceTaken>(m);
  if (step == nullptr) return {};
  if (step->step() == std::exchange(step_, step->step()) || step_ == 0) return {};  // it goes on
  return step_begins(step->step(), step->pace_of_1024(), cap_mw, now_ns);
}

std::optional<std::string> parent_watch::step_begins(uint64_t step, uint32_t pace, int64_t cap_mw,
                                                     int64_t now_ns) {
  if (!granted_) return fmt::format("step {} begins before any watts were granted", step);
  const auto most = now_ns == word_ns_ ? most_word_ : last_word_;
  if (most == 0) return fmt::format("step {} begins while its pacer lets none begin", step);
  if (pace > most)
    return fmt::format("step {} begins at the pace {}, its pacer has told {}", step, pace, most);
  if (now_ns > until_ns_ + lapse_seen_ns && cap_mw > static_mw_)
    return fmt::format("step {} begins under {} mW, its lease is over and its static share {} mW",
                       step, cap_mw, static_mw_);
  return {};
}

}  // namespace troupe::sim
