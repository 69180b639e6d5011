// The header in front of every message: who sent it, in which epoch, as part of which trace, and
// what follows.
//
// H-1  Fixed size, little-endian, no padding: the bytes in memory are the bytes on the wire.
// H-2  `form` is the version of this layout; bytes of another form are refused before anything else
//      is read.
// H-3  On the wire and on disk stands: header, payload, trailer. `checksum` is CRC-32C over the
//      header with the checksum zeroed; the trailer is CRC-32C over the payload, begun with the
//      header's checksum. So a header is trusted before its length is, and the payload is summed in
//      the same pass that copies it. In memory `checksum` is 0.
// H-4  `length` is at most max_message_bytes; it is checked before anything is allocated for it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace troupe {

/// The largest payload of a message, in bytes (design: tensors never travel in messages).
inline constexpr uint32_t max_message_bytes = 1u << 20;

/// The version of the header's layout. 0xf in the high half marks the byte as ours.
inline constexpr uint8_t message_form = 0xf1;

/// The size of the checksum behind a payload, in bytes.
inline constexpr size_t trailer_bytes = 4;

/// The header of a message. 64 bytes.
struct message_header {
  uint8_t form = message_form;  ///< layout version
  uint8_t trace_flags = 0;      ///< W3C trace flags; bit 0: sampled
  uint16_t type = 0;            ///< message type (message_list.hpp)
  uint32_t length = 0;          ///< payload, bytes
  uint32_t checksum = 0;        ///< CRC-32C of the header, on the wire only
  uint32_t epoch = 0;           ///< the cluster's epoch the sender lived in
  uint64_t trace_high = 0;      ///< trace id, upper half; 0/0 means no trace
  uint64_t trace_low = 0;       ///< trace id, lower half
  uint64_t span = 0;            ///< the span this message opens
  uint64_t parent = 0;          ///< the span of the message that caused it, 0: none
  uint64_t sender = 0;          ///< the sending actor's id, unique in the cluster
  int64_t sent_ns = 0;          ///< sender's clock at sending, nanoseconds; 0: not told
};

static_assert(std::endian::native == std::endian::little, "H-1: the wire is little-endian");
static_assert(sizeof(message_header) == 64, "H-1");
static_assert(offsetof(message_header, length) == 4 && offsetof(message_header, checksum) == 8 &&
                  offsetof(message_header, trace_high) == 16 &&
                  offsetof(message_header, sent_ns) == 56,
              "H-1");
static_assert(std::is_trivially_copyable_v<message_header>);
static_assert(std::has_unique_object_representations_v<message_header>, "H-1: no padding");

/// What a sender stamps on its messages. A default one means: no trace, epoch 0, nobody, no time.
struct message_context {
  uint64_t trace_high = 0;  ///< trace id, upper half
  uint64_t trace_low = 0;   ///< trace id, lower half
  uint64_t span = 0;        ///< the span the message opens
  uint64_t parent = 0;      ///< the span that caused it
  uint64_t sender = 0;      ///< the sending actor's id
  int64_t now_ns = 0;       ///< the actor clock, nanoseconds
  uint32_t epoch = 0;       ///< the epoch the sender lives in
  uint8_t trace_flags = 0;  ///< W3C trace flags

  /// The context of a message caused by one with this header: same trace, a new span under it.
  static message_context caused_by(const message_header& cause, uint64_t new_span) {
    message_context out;
    out.trace_high = cause.trace_high;
    out.trace_low = cause.trace_low;
    out.span = new_span;
    out.parent = cause.span;
    out.epoch = cause.epoch;
    out.trace_flags = cause.trace_flags;
    return out;
  }
};

}  // namespace troupe
