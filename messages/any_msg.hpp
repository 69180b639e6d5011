// any_msg: a message of whatever type: header and FlatBuffer in one immutable, ref-counted block.
//
//   block = control (16 bytes) | message_header (64) | payload (16-byte aligned, `length` bytes)
//
// Header and payload lie together as on the wire, so that sending is one copy into the socket's
// buffer, and a copy of an any_msg is one pointer and one atomic increment.
//
// AM-1  A block never changes once an any_msg exists for it; so it may be read by any thread
//       without a lock.
// AM-2  The payload of a block has passed the verifier of its type, or was made by this process's
//       builders.
// AM-3  The payload starts at a multiple of 16 bytes.
// AM-4  A payload from elsewhere expands to a bounded size when unpacked (expansion.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/base/result.hpp"
#include "messages/header.hpp"

namespace troupe {

class message_builder;

namespace detail {

/// The start of a message's memory. `base_offset` bytes before it lies what malloc returned.
struct alignas(16) message_block {
  std::atomic<uint32_t> references{1};
  uint32_t base_offset = 0;
  uint64_t reserved = 0;
  message_header header;

  uint8_t* payload() { return reinterpret_cast<uint8_t*>(this + 1); }
  const uint8_t* payload() const { return reinterpret_cast<const uint8_t*>(this + 1); }
};
static_assert(sizeof(message_block) == 80 && sizeof(message_block) % 16 == 0, "AM-3");
static_assert(offsetof(message_block, header) + sizeof(message_header) == sizeof(message_block));

/// A block with room for `length` payload bytes, not yet filled; nullptr where memory is exhausted.
message_block* allocate_block(uint32_t length) noexcept;
void free_block(message_block* block) noexcept;

}  // namespace detail

/// A shared, immutable message of any type. A default-made one is empty: `if (m)`.
class any_msg {
 public:
  any_msg() noexcept = default;
  /// Takes over one reference.
  explicit any_msg(detail::message_block* block) noexcept : block_(block) {}
  any_msg(const any_msg& other) noexcept : block_(other.block_) {
    if (block_ != nullptr) block_->references.fetch_add(1, std::memory_order_relaxed);
  }
  any_msg(any_msg&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  any_msg& operator=(any_msg other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~any_msg() {
    if (block_ != nullptr && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
      detail::free_block(block_);
  }

  explicit operator bool() const noexcept { return block_ != nullptr; }

  /// The header. The message must not be empty.
  const message_header& header() const noexcept { return block_->header; }
  /// The message type's id, 0 when empty.
  uint16_t type() const noexcept { return block_ != nullptr ? block_->header.type : 0; }
  /// The epoch its sender lived in. The message must not be empty.
  uint32_t epoch() const noexcept { return block_->header.epoch; }
  /// The FlatBuffer: 16-byte aligned, valid as long as this message or a copy of it lives.
  std::span<const uint8_t> payload() const& noexcept {
    if (block_ == nullptr) return {};
    return {block_->payload(), block_->header.length};
  }
  std::span<const uint8_t> payload() const&& = delete;

  /// True where both are the same block or hold the same header and payload.
  friend bool operator==(const any_msg& a, const any_msg& b) noexcept { return a.equals(b); }

 private:
  bool equals(const any_msg& other) const noexcept;

  detail::message_block* block_ = nullptr;
};

/// Short text: "RunStep#0306 96 B epoch 3", or "no message".
std::string to_string(const any_msg& m);

/// The message as it stands on the wire and on disk: header with checksum (H-3), payload.
std::vector<uint8_t> encode(const any_msg& m);

/// Reads what encode() wrote, from anywhere. All of `bytes` must be one message. A refusal is
/// counted, logged, and returned as bad_data. `expected` is the type id wanted, 0 for any known
/// one.
result<any_msg> decode(std::span<const uint8_t> bytes, uint16_t expected = 0);

/// The same payload under another header, e.g. to pass a message on in a new epoch. Copies the
/// payload.
any_msg readdress(const any_msg& m, const message_context& context);

namespace detail {

/// The wire form of a header: with its checksum over header and payload.
message_header sealed(const message_header& header, const uint8_t* payload) noexcept;

/// Checks a foreign header before anything is allocated for it (H-2, H-4): form, length, type.
/// Counts a refusal.
status check_header(const message_header& header, uint16_t expected);

/// Checks a foreign payload that has been read into a block: checksum, then the verifier. Counts a
/// refusal.
status check_payload(const message_block& block);

/// Runs the verifier of a message type; false for an unknown type. Counted.
bool verify_payload(uint16_t type, const uint8_t* bytes, size_t size) noexcept;

/// True where the id is in the list of messages.
bool known_type(uint16_t type) noexcept;

/// A copy of a finished FlatBuffer as a message; it is verified like a foreign one. Counts a
/// refusal.
result<any_msg> adopt(std::span<const uint8_t> payload, uint16_t type,
                      const message_context& context);

/// Finished FlatBuffer -> message. `steal`: take the builder's memory over; else copy when that is
/// cheaper.
result<any_msg> take(message_builder& builder, uint16_t type, const message_context& context,
                     bool steal);

}  // namespace detail

}  // namespace troupe
