// The one translation unit in which CAF instantiates its handling of every message type.
#include "messages/type_ids.hpp"

#include <caf/actor_system_config.hpp>

#include "messages/errors.hpp"

namespace troupe {

void register_messages(caf::actor_system_config& config) {
  config.add_message_types<caf::id_block::troupe_messages>();
  config.add_error_category(error_category, render_caf);
}

}  // namespace troupe
