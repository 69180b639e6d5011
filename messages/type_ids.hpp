// CAF's type ids of all messages, in one block, from the list in message_list.hpp.
//
// A target with CAF types of its own chains its block: CAF_BEGIN_TYPE_ID_BLOCK(mine,
// caf::id_block::troupe_messages::end) and registers it with
// config.add_message_types<caf::id_block::mine>().
//
// CAF 0.17.6 sends the *name* of a type, not this number: names are stable across versions, numbers
// need not be.
#pragma once

#include <caf/type_id.hpp>

#include "messages/inspect.hpp"
#include "messages/message_list.hpp"

CAF_BEGIN_TYPE_ID_BLOCK(troupe_messages, first_custom_type_id)
#define TROUPE_CAF_ID(domain, table, number) \
  CAF_ADD_TYPE_ID(troupe_messages, (troupe::msg<troupe::fbs::table>))
TROUPE_MESSAGES(TROUPE_CAF_ID)
#undef TROUPE_CAF_ID
CAF_END_TYPE_ID_BLOCK(troupe_messages)

namespace troupe {

/// Tells CAF all message types and the category of our errors. Every actor system needs it before
/// it starts.
void register_messages(caf::actor_system_config& config);

/// A message of any type as CAF content that its handlers match: what a console sends.
caf::message wrap(const any_msg& m);

/// The message in CAF content, empty where the first element is none: what a tracer reads.
any_msg unwrap(const caf::message& content);

}  // namespace troupe
