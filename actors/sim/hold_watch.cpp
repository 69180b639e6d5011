// Words of the pacer, steps, and incidents.
#include "actors/sim/hold_watch.hpp"

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include "messages/message_list.hpp"
#include "messages/schemas/power_generated.h"
#include "messages/schemas/train_generated.h"
#include "messages/text.hpp"

namespace troupe::sim {

namespace {

constexpr int64_t second_of_watch = 1'000'000'000;

template <class T>
const T* heard_as(const any_msg& m) {
  return m.type() == message_traits<T>::id ? flatbuffers::GetRoot<T>(m.payload().data()) : nullptr;
}

}  // namespace

void hold_watch::begin() {
  stepped_ = may_ = paused_ = false;
  step_ = 0;
}

std::optional<std::string> hold_watch::see(const any_msg& m, int64_t now_ns) {
  if (m.header().sender == 0) return {};  // a fault of the simulation's own
  if (const auto* word = heard_as<fbs::JobPower>(m)) {
    const bool may = word->pace_of_1024() > 0 && !word->brake();
    if (may && !may_) went_on_ns_ = now_ns;
    may_ = may;
  }
  if (const auto* taken = heard_as<fbs::PaceTaken>(m)) {
    if (taken->step() != step_ || (paused_ && !taken->paused())) went_on_ns_ = now_ns;
    step_ = taken->step();
    stepped_ |= step_ > 0;
    paused_ = taken->paused();
  }
  if (heard_as<fbs::RunEnded>(m) != nullptr) stepped_ = false;
  const auto* told = heard_as<fbs::IncidentReport>(m);
  if (told == nullptr || told->incident() == nullptr || befell_) return {};
  return fmt::format("{}: {}, and nothing but its power budget has befallen the job",
                     text_of(told->incident()->finding()), text_of(told->incident()->what()));
}

std::optional<std::string> hold_watch::look(int64_t now_ns) const {
  if (befell_ || !stepped_ || !may_ || paused_ || now_ns - went_on_ns_ <= goes_on_within_ns)
    return {};
  return fmt::format("no step begins behind step {}, {} s after its power budget lets it", step_,
                     (now_ns - went_on_ns_) / second_of_watch);
}

std::optional<std::string> hold_watch::draws(int64_t drawn_mw, std::optional<int64_t> counted_mw,
                                             int64_t now_ns) {
  if (befell_ || !counted_mw || drawn_mw <= *counted_mw) {
    above_since_ns_ = -1;
    return {};
  }
  if (above_since_ns_ < 0) above_since_ns_ = now_ns;
  if (now_ns - above_since_ns_ <= counted_within_ns) return {};
  return fmt::format("a child of the power budget draws {} mW for {} s, and counts at {} mW",
                     drawn_mw, (now_ns - above_since_ns_) / second_of_watch, *counted_mw);
}

}  // namespace troupe::sim
