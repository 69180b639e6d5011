// How a system finds its runtime.
#include "actors/base/runtime.hpp"

#include <cassert>
#include <utility>

#include "actors/capture/flight_memory.hpp"
#include "messages/type_ids.hpp"

namespace troupe {

void runtime::set_clock(clock_relation now) noexcept {
  clock_offset_ns_ = now.offset_ns;
  clock_bound_ns_ = now.bound_ns;
  detail::note_clock(now);
}

runtime_config::runtime_config(std::shared_ptr<runtime> in) : own(std::move(in)) {
  register_messages(*this);
}

const std::shared_ptr<runtime>& shared_runtime_of(const caf::actor_system& system) {
  const auto* config = dynamic_cast<const runtime_config*>(&system.config());
  assert(config != nullptr && "a traced actor needs a system made with a runtime_config");
  return config->own;
}

}  // namespace troupe
