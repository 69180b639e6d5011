// docs/messages.md: every message of the language, as the schemas tell it.
//
// Invariants
//   MSP-1  Only its head is written by hand: actors and calls come from the contracts
//          (messages/contract.hpp), tables and fields from the registry.
//   MSP-2  docs/messages.md is what messages_markdown() says.
#pragma once

#include <string>

namespace troupe::apps {

/// docs/messages.md.
std::string messages_markdown();

}  // namespace troupe::apps
