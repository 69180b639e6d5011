// What must hold of a simulated job under a power budget, seen from its messages.
//
// Invariants that it checks
//   SIM-28  All ranks of a step work at one pace (PWR-4).
//   SIM-29  That is one which the pacer has told since its head began, and no step begins before it
//     has told one (PWR-3).
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include "messages/any_msg.hpp"
#include "messages/message_list.hpp"
#include "messages/schemas/power_generated.h"
#include "messages/schemas/train_generated.h"

namespace troupe::sim {

class power_watch {
 public:
  explicit power_watch(double budget_w) : budgeted_(budget_w > 0) {}

  /// Another head begins, in that epoch; what the one before has sent may still come.
  void begin(uint32_t epoch) { told_[epoch].clear(); }

  /// What is violated; none: nothing is.
  std::optional<std::string> see(const any_msg& m) {
    if (!budgeted_ || m.header().sender == 0) return {};  // 0: a fault of the simulation's own
    if (m.type() == message_traits<fbs::JobPower>::id)
      told_by(m.epoch()).insert(root<fbs::JobPower>(m).pace_of_1024());
    if (m.type() != message_traits<fbs::RunStep>::id) return {};
    const auto& step = root<fbs::RunStep>(m);
    const auto pace = step.pace_of_1024();
    if (!told_by(m.epoch()).contains(pace))
      return fmt::format("step {} begins at the pace {}, which the pacer has not told", step.step(),
                         pace);
    const auto [it, fresh] = paces_.emplace(std::pair(m.epoch(), step.step()), pace);
    if (!fresh && it->second != pace)
      return fmt::format("ranks of step {} work at {} and at {}", step.step(), it->second, pace);
    return {};
  }

 private:
  template <class T>
  static const T& root(const any_msg& m) {
    return *flatbuffers::GetRoot<T>(m.payload().data());
  }

  /// What the head of an epoch was told.
  std::set<uint32_t>& told_by(uint32_t epoch) {
    return std::prev(told_.upper_bound(epoch))->second;
  }

  bool budgeted_;
  std::map<uint32_t, std::set<uint32_t>> told_{{0, {}}};     ///< by the epoch that a head began in
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> paces_;  ///< by epoch and step
};

}  // namespace troupe::sim
