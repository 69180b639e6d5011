// The FlatBuffers verifier of every message type, chosen by the id in the header.
#include <flatbuffers/flatbuffers.h>

#include "messages/any_msg.hpp"
#include "messages/expansion.hpp"
#include "messages/message_list.hpp"
#include "messages/rejection.hpp"
#include "messages/schemas/troupe_generated.h"

namespace troupe::detail {

namespace {

// No schema nests deeper than a few tables. A shared sub-table is counted each time it is met, so
// the second bound is what keeps a small hostile buffer from costing much time.
constexpr uint32_t max_depth = 16;
constexpr uint32_t max_tables = 1u << 16;

template <class T>
bool verifies(const uint8_t* bytes, size_t size) {
  flatbuffers::Verifier verifier(bytes, size, max_depth, max_tables);
  return verifier.VerifyBuffer<T>(nullptr) &&
         expands_within_bounds(message_traits<T>::id, bytes);  // AM-4
}

}  // namespace

bool verify_payload(uint16_t type, const uint8_t* bytes, size_t size) noexcept {
  count_verified();
  switch (type) {
#define TROUPE_CASE(domain, table, number) \
  case number:                             \
    return verifies<fbs::table>(bytes, size);
    TROUPE_MESSAGES(TROUPE_CASE)
#undef TROUPE_CASE
    default:
      return false;
  }
}

}  // namespace troupe::detail
