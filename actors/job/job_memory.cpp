// Both directions, field by field.
#include "actors/job/job_memory.hpp"

#include <memory>

namespace troupe::train {

fbs::JobMemoryT to_message(const job_memory& memory) {
  fbs::JobMemoryT out;
  out.paused = memory.paused;
  out.pause_reason = memory.pause_reason;
  for (const auto& from : memory.settings) {
    auto& to = *out.settings.emplace_back(std::make_unique<fbs::SettingChangeT>());
    to.key = from.key;
    to.value = from.value;
    to.was = from.was;
    to.step = from.step;
  }
  return out;
}

job_memory memory_in(const fbs::JobMemoryT& m) {
  job_memory out{m.paused, m.pause_reason, {}};
  for (const auto& s : m.settings) out.settings.push_back({s->key, s->value, s->was, s->step});
  return out;
}

}  // namespace troupe::train
