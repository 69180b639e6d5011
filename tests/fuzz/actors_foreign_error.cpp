// Any bytes as the error by which a peer's actor ends: what is let through CAF reads to its end, or
// refuses, and it has nothing but text beside its numbers.
#include <cstddef>
#include <cstdint>
#include <string>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/error.hpp>
#include <caf/message.hpp>

#include "actors/cluster/foreign_error.hpp"
#include "tests/fuzz/must.hpp"

namespace {

/// CAF reads messages in a system only. It is never ended: fuzzers end by exit().
caf::actor_system& reading_system() {
  static auto* const config = new caf::actor_system_config;
  static auto* const system = new caf::actor_system(config->set("scheduler.max-threads", 1));
  return *system;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* const bytes = reinterpret_cast<const char*>(data);
  caf::binary_deserializer look(reading_system(), bytes, size);
  if (!troupe::cluster::is_error_of_words(look)) return 0;
  caf::binary_deserializer source(reading_system(), bytes, size);
  caf::error e;
  if (source(e) || !e) return 0;
  for (size_t i = 0; i < e.context().size(); ++i)
    troupe::must(e.context().match_element<std::string>(i), "an error that passes is of text");
  return 0;
}
