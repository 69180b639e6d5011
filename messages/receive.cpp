// Counting what receive.hpp refuses.
#include "messages/receive.hpp"

#include <caf/actor_system.hpp>

#include "messages/rejection.hpp"

namespace troupe {

error refuse_unhandled(caf::actor_system& system, const caf::type_erased_tuple& content) {
  if (content.empty()) {
    note_rejection(reject::undecodable, 0, "an empty message");
    return undecodable_message();
  }
  std::string types;
  for (size_t i = 0; i < content.size() && i < 4; ++i) {
    if (i > 0) types += ", ";
    types += system.types().portable_name(content.type(i));
  }
  note_rejection(reject::unexpected, 0, types);
  return no_handler(types);
}

}  // namespace troupe
