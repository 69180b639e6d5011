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

/// The start of a message's memory. `base_offset` bytes before it begins what the pool gave.
struct alignas(16) message_block {
  explicit message_block(size_t all_bytes) noexcept : capacity(static_cast<uint32_t>(all_bytes)) {}

  std::atomic<uint32_t> references{1};
  uint32_t base_offset = 0;
  uint32_t capacity = 0;  ///< of the whole memory, as it was asked for
  uint32_t received = 0;  ///< received_mark() of when it came into this process, 0: made here
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
    // The last owner need not write: nobody else can reach the count any more.
    if (block_ != nullptr && (block_->references.load(std::memory_order_acquire) == 1 ||
                              block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1))
      detail::free_block(block_);
  }

  explicit operator bool() const noexcept { return block_ != nullptr; }

  /// The header. The message must not be empty.
  const message_header& header() const noexcept { return block_->header; }
  /// The message type's id, 0 when empty.
  uint16_t type() const noexcept { return block_ != nullptr ? block_->header.type : 0; }
  /// The epoch its sender lived in. The message must not be empty.
  uint32_t epoch() const noexcept { return block_->header.epoch; }
  /// How long ago it came into this process from a network; less than nothing: it was made here.
  /// `now_ns` of steady_clock; to about a microsecond, up to an hour. It must not be empty.
  int64_t received_ago_ns(int64_t now_ns) const noexcept {
    return block_->received == 0 ? -1 : ago(now_ns);
  }
  /// The FlatBuffer: 16-byte aligned, valid as long as this message or a copy of it lives.
  std::span<const uint8_t> payload() const& noexcept {
    if (block_ == nullptr) return {};
    return {block_->payload(), block_->header.length};
  }
  std::span<const uint8_t> payload() const&& = delete;

  /// True where both are the same block or hold the same header and payload.
  friend bool operator==(const any_msg& a, const any_msg& b) noexcept { return a.equals(b); }

 protected:
  /// The FlatBuffer's first byte. The message must not be empty.
  const uint8_t* data() const noexcept { return block_->payload(); }

 private:
  bool equals(const any_msg& other) const noexcept;
  int64_t ago(int64_t now_ns) const noexcept;

  detail::message_block* block_ = nullptr;
};

/// Short text: "RunStep#0306 96 B epoch 3", or "no message".
std::string to_string(const any_msg& m);

/// The message as it stands on the wire and on disk (H-3).
std::vector<uint8_t> encode(const any_msg& m);

/// Reads what encode() wrote, from anywhere. All of `bytes` must be one message. A refusal is
/// counted, logged, and returned as bad_data. `expected` is the type id wanted, 0 for any known
/// one.
result<any_msg> decode(std::span<const uint8_t> bytes, uint16_t expected = 0);

/// The same payload under another header, e.g. to pass a message on in a new epoch. Copies the
/// payload.
any_msg readdress(const any_msg& m, const message_context& context);

namespace detail {

/// The wire form of a header: with its checksum (H-3).
message_header sealed(message_header header) noexcept;

/// The CRC-32C of more bytes, begun with what stands before them (H-3).
uint32_t checksum(const void* bytes, size_t size, uint32_t begun) noexcept;

/// How much of a payload is copied and summed at a time, in bytes: what the first-level cache
/// holds.
inline constexpr size_t copy_bytes = 8192;

/// Header, payload and trailer as they stand on the wire, whatever the header says.
std::vector<uint8_t> wire_image(const message_header& header, std::span<const uint8_t> payload);

/// Checks a foreign header before anything is allocated for it: form, checksum, length, type
/// (H-2, H-3, H-4). Counts a refusal.
status check_header(const message_header& header, uint16_t expected);

/// Checks a foreign payload that has been read into a block: its checksum against the trailer, then
/// the verifier. Counts a refusal. The block's header leaves its wire form.
status check_payload(message_block& block, uint32_t sum, uint32_t trailer);

/// Runs the verifier of a message type; false for an unknown type. Counted.
bool verify_payload(uint16_t type, const uint8_t* bytes, size_t size) noexcept;

/// A moment of steady_clock in the room of 32 bits, in units of 1024 ns; never 0.
uint32_t received_mark(int64_t now_ns) noexcept;

/// True where the id is in the list of messages.
bool known_type(uint16_t type) noexcept;

/// A copy of a finished FlatBuffer as a message; it is verified like a foreign one. Counts a
/// refusal.
result<any_msg> adopt(std::span<const uint8_t> payload, uint16_t type,
                      const message_context& context);

/// Finished FlatBuffer -> message; the builder is restarted. Takes the builder's memory over, or
/// copies where that is cheaper. Empty where it cannot be one: take_error says why.
any_msg take(message_builder& builder, uint16_t type, const message_context& context);

/// Why take() made no message of a payload of this size.
error take_error(size_t length);

}  // namespace detail

}  // namespace troupe
