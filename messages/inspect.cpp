// How messages enter and leave CAF's binary format.
#include "messages/inspect.hpp"

#include <algorithm>
#include <chrono>

#include <caf/deserializer.hpp>
#include <caf/error.hpp>
#include <caf/sec.hpp>
#include <caf/serializer.hpp>

#include "messages/errors.hpp"
#include "messages/rejection.hpp"

namespace troupe::detail {

caf::error save(caf::serializer& sink, const any_msg& m) {
  if (!m) return caf::sec::invalid_argument;
  auto header = sealed(m.header());
  if (auto failed = sink.apply_raw(sizeof(header), &header)) return failed;
  auto payload = m.payload();
  auto sum = header.checksum;
  for (size_t at = 0; at < payload.size(); at += copy_bytes) {
    auto piece = payload.subspan(at, std::min(copy_bytes, payload.size() - at));
    sum = checksum(piece.data(), piece.size(), sum);
    // apply_raw takes a mutable pointer for both directions; a serializer only reads.
    if (auto failed = sink.apply_raw(piece.size(), const_cast<uint8_t*>(piece.data())))
      return failed;
  }
  count_encoded();
  return sink.apply_raw(trailer_bytes, &sum);
}

caf::error load(caf::deserializer& source, uint16_t expected, any_msg& out) {
  auto truncated = [&](caf::error failed, const char* where) {
    note_rejection(reject::truncated, expected, where);
    return failed;
  };
  message_header header;
  if (auto failed = source.apply_raw(sizeof(header), &header))
    return truncated(std::move(failed), "the message ends within its header");
  if (auto good = check_header(header, expected); !good) return to_caf(good.error());
  auto* block = allocate_block(header.length);  // H-4: length is bounded by now
  if (block == nullptr) return to_caf({errc::no_memory, "no memory for a message"});
  any_msg loaded(block);
  block->header = header;
  auto sum = header.checksum;
  for (size_t at = 0; at < header.length; at += copy_bytes) {
    auto size = std::min<size_t>(copy_bytes, header.length - at);
    if (auto failed = source.apply_raw(size, block->payload() + at))
      return truncated(std::move(failed), "the message ends within its payload");
    sum = checksum(block->payload() + at, size, sum);
  }
  uint32_t trailer = 0;
  if (auto failed = source.apply_raw(trailer_bytes, &trailer))
    return truncated(std::move(failed), "the message ends within its trailer");
  if (auto good = check_payload(*block, sum, trailer); !good) return to_caf(good.error());
  using namespace std::chrono;
  block->received =
      received_mark(duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
  out = std::move(loaded);
  return caf::none;
}

}  // namespace troupe::detail
