// Which actors live in one process. CAF says so by their nodes; the processes of a simulation share
// this one, and its network knows them apart.
#pragma once

#include <string>

#include <caf/actor_control_block.hpp>

#include "actors/base/runtime.hpp"
#include "actors/base/traced.hpp"

namespace troupe {

/// What a simulated network is besides, where actors ask for their processes.
class simulated_processes {
 public:
  virtual ~simulated_processes() = default;
  virtual bool together(const caf::strong_actor_ptr& a, const caf::strong_actor_ptr& b) = 0;
};

/// False where one of them is nobody.
inline bool in_one_process(const runtime& in, const caf::strong_actor_ptr& a,
                           const caf::strong_actor_ptr& b) {
  if (!a || !b) return false;
  auto* simulated = dynamic_cast<simulated_processes*>(in.network);
  return simulated != nullptr ? simulated->together(a, b) : a->node() == b->node();
}

/// Whether who speaks is the actor of this process that bears the path, e.g. "run"; the newest
/// where several do. False for nobody.
template <class Self>
bool is_told_by(Self* self, const std::string& path) {
  const auto& who = self->current_sender();
  const auto known = self->runtime().registry.find(path);
  return who && known && known->handle() == who;
}

}  // namespace troupe
