// How messages enter and leave CAF's binary format.
#include "messages/msg.hpp"

#include <caf/deserializer.hpp>
#include <caf/error.hpp>
#include <caf/sec.hpp>
#include <caf/serializer.hpp>

#include "messages/errors.hpp"
#include "messages/rejection.hpp"

namespace troupe::detail {

caf::error save(caf::serializer& sink, const any_msg& m) {
  if (!m) return caf::sec::invalid_argument;
  auto payload = m.payload();
  auto header = sealed(m.header(), payload.data());
  if (auto failed = sink.apply_raw(sizeof(header), &header)) return failed;
  count_encoded();
  // apply_raw takes a mutable pointer for both directions; a serializer only reads.
  return sink.apply_raw(payload.size(), const_cast<uint8_t*>(payload.data()));
}

caf::error load(caf::deserializer& source, uint16_t expected, any_msg& out) {
  message_header header;
  if (auto failed = source.apply_raw(sizeof(header), &header)) {
    note_rejection(reject::truncated, expected, "the message ends within its header");
    return failed;
  }
  if (auto good = check_header(header, expected); !good) return to_caf(good.error());
  auto* block = allocate_block(header.length);  // H-4: length is bounded by now
  if (block == nullptr) return to_caf({errc::no_memory, "no memory for a message"});
  any_msg loaded(block);
  block->header = header;
  if (auto failed = source.apply_raw(header.length, block->payload())) {
    note_rejection(reject::truncated, expected, "the message ends within its payload");
    return failed;
  }
  if (auto good = check_payload(*block); !good) return to_caf(good.error());
  block->header.checksum = 0;
  count_decoded();
  out = std::move(loaded);
  return caf::none;
}

}  // namespace troupe::detail
