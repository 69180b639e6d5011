// The one translation unit in which CAF instantiates its handling of every message type.
#include "messages/type_ids.hpp"

#include <typeindex>
#include <unordered_set>

#include <caf/actor_system_config.hpp>
#include <caf/message.hpp>

#include "messages/errors.hpp"

namespace troupe {

void register_messages(caf::actor_system_config& config) {
  config.add_message_types<caf::id_block::troupe_messages>();
  config.add_error_category(error_category, render_caf);
}

caf::message wrap(const any_msg& m) {
  switch (m.type()) {
#define TROUPE_CASE(domain, table, number) \
  case number:                             \
    return caf::make_message(msg<fbs::table>(m));
    TROUPE_MESSAGES(TROUPE_CASE)
#undef TROUPE_CASE
    default:
      return {};
  }
}

any_msg unwrap(const caf::message& content) {
  static const std::unordered_set<std::type_index> ours = {
#define TROUPE_TYPE(domain, table, number) typeid(msg<fbs::table>),
      TROUPE_MESSAGES(TROUPE_TYPE)
#undef TROUPE_TYPE
  };
  if (content.empty()) return {};
  auto [number, type] = content.type(0);
  if (number != 0 || type == nullptr || ours.count(*type) == 0) return {};
  // Every msg<T> is an any_msg and nothing more (static_assert below).
  return *static_cast<const any_msg*>(content.get(0));
}

static_assert(sizeof(msg<fbs::Ack>) == sizeof(any_msg));

}  // namespace troupe
