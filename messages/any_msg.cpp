// Memory, sealing and checking of messages; the only code that looks at foreign bytes before they
// are messages.
#include "messages/any_msg.hpp"

#include <cassert>
#include <cstring>
#include <new>

#include <fmt/format.h>
#include <isa-l/crc.h>

#include "messages/block_pool.hpp"
#include "messages/builder.hpp"
#include "messages/message_list.hpp"
#include "messages/rejection.hpp"

namespace troupe {

static_assert(alignof(std::max_align_t) >= 16, "AM-3: malloc aligns to 16 bytes");

namespace {

// Below this a copy into a block of the right size is cheaper than giving the thread's builder
// memory away.
constexpr uint32_t copy_below_bytes = 2 * 1024;

// For the short buffers of builders, which are whole multiples of 16 bytes (B-1): beats memcpy,
// which the compiler makes a `rep movs` with a start-up time as long as the copy.
void copy_whole(uint8_t* to, const uint8_t* from, size_t size) noexcept {
  assert(size % 16 == 0);
  for (size_t i = 0; i < size; i += 16) std::memcpy(to + i, from + i, 16);
}

void stamp(message_header& header, uint16_t type, uint32_t length, const message_context& context) {
  header.trace_flags = context.trace_flags;
  header.type = type;
  header.length = length;
  header.epoch = context.epoch;
  header.trace_high = context.trace_high;
  header.trace_low = context.trace_low;
  header.span = context.span;
  header.parent = context.parent;
  header.sender = context.sender;
  header.sent_ns = context.now_ns;
}

error refuse(reject reason, uint16_t type, std::string text) {
  note_rejection(reason, type, text);
  return {errc::bad_data, fmt::format("message rejected ({}): {}", to_string(reason), text)};
}

error out_of_memory() {
  return {errc::no_memory, "no memory for a message"};
}

}  // namespace

namespace detail {

message_block* allocate_block(uint32_t length) noexcept {
  auto bytes = sizeof(message_block) + length;
  auto* memory = take_memory(bytes);
  return memory == nullptr ? nullptr : new (memory) message_block(bytes);
}

void free_block(message_block* block) noexcept {
  auto bytes = block->capacity;
  give_memory(reinterpret_cast<uint8_t*>(block) - block->base_offset, bytes);
}

uint32_t checksum(const void* bytes, size_t size, uint32_t begun) noexcept {
  // isa-l takes a mutable pointer but only reads; sizes here are at most max_message_bytes.
  auto* data = const_cast<unsigned char*>(static_cast<const unsigned char*>(bytes));
  return crc32_iscsi(data, static_cast<int>(size), begun);
}

message_header sealed(message_header header) noexcept {
  header.checksum = 0;
  header.checksum = checksum(&header, sizeof(header), 0);
  return header;
}

std::vector<uint8_t> wire_image(const message_header& header, std::span<const uint8_t> payload) {
  auto trailer = checksum(payload.data(), payload.size(), header.checksum);
  std::vector<uint8_t> out(sizeof(header) + payload.size() + trailer_bytes);
  std::memcpy(out.data(), &header, sizeof(header));
  if (!payload.empty()) std::memcpy(out.data() + sizeof(header), payload.data(), payload.size());
  std::memcpy(out.data() + sizeof(header) + payload.size(), &trailer, trailer_bytes);
  return out;
}

status check_header(const message_header& header, uint16_t expected) {
  if (header.form != message_form)  // H-2
    return refuse(
        reject::form, 0,
        fmt::format("unsupported form {:#04x}, expected {:#04x}", header.form, message_form));
  if (sealed(header).checksum != header.checksum)  // H-3
    return refuse(reject::checksum, 0, "the header's checksum does not match");
  if (header.length > max_message_bytes)  // H-4
    return refuse(reject::oversize, header.type,
                  fmt::format("{} bytes, at most {}", header.length, max_message_bytes));
  if (expected != 0 ? header.type != expected : !known_type(header.type))
    return refuse(reject::type, header.type, fmt::format("expected type {:#06x}", expected));
  return {};
}

status check_payload(message_block& block, uint32_t sum, uint32_t trailer) {
  auto& header = block.header;
  if (sum != trailer)  // H-3
    return refuse(reject::checksum, header.type, "the payload's checksum does not match");
  if (!verify_payload(header.type, block.payload(), header.length))  // AM-2
    return refuse(reject::verify, header.type, "the content does not verify");
  header.checksum = 0;
  count_decoded();
  return {};
}

result<any_msg> adopt(std::span<const uint8_t> payload, uint16_t type,
                      const message_context& context) {
  if (payload.size() > max_message_bytes)
    return refuse(reject::oversize, type,
                  fmt::format("{} bytes, at most {}", payload.size(), max_message_bytes));
  auto length = static_cast<uint32_t>(payload.size());
  auto* block = allocate_block(length);
  if (block == nullptr) return out_of_memory();
  any_msg out(block);
  std::memcpy(block->payload(), payload.data(), length);
  if (!verify_payload(type, block->payload(), length))
    return refuse(reject::verify, type, "the content does not verify");
  stamp(block->header, type, length, context);
  return out;
}

any_msg take(message_builder& builder, uint16_t type, const message_context& context) {
  auto length = builder.GetSize();
  message_block* block = nullptr;
  if (length > max_message_bytes) {
    builder.restart();
    return {};
  }
  if (length < copy_below_bytes) {
    block = allocate_block(length);
    if (block != nullptr) copy_whole(block->payload(), builder.GetBufferPointer(), length);
    builder.restart();
    if (block == nullptr) return {};
  } else {
    size_t capacity = 0;
    size_t offset = 0;
    auto* memory = builder.release(sizeof(message_block), capacity, offset);  // B-2
    block = new (memory + offset) message_block(capacity);
    block->base_offset = static_cast<uint32_t>(offset);
  }
  stamp(block->header, type, length, context);
  return any_msg(block);
}

error take_error(size_t length) {
  if (length <= max_message_bytes) return out_of_memory();
  return {errc::bad_data,
          fmt::format("a message of {} bytes is beyond the {} a message may have", length,
                      max_message_bytes),
          "send a handle to the data, or send it in parts"};
}

uint32_t received_mark(int64_t now_ns) noexcept {
  const auto units = static_cast<uint32_t>(static_cast<uint64_t>(now_ns) >> 10);
  return units != 0 ? units : 1;
}

bool known_type(uint16_t type) noexcept {
  switch (type) {
#define TROUPE_CASE(domain, table, number) case number:
    TROUPE_MESSAGES(TROUPE_CASE)
#undef TROUPE_CASE
    return true;
    default:
      return false;
  }
}

}  // namespace detail

bool any_msg::equals(const any_msg& other) const noexcept {
  if (block_ == other.block_) return true;
  if (block_ == nullptr || other.block_ == nullptr) return false;
  if (std::memcmp(&block_->header, &other.block_->header, sizeof(message_header)) != 0)
    return false;
  return std::memcmp(block_->payload(), other.block_->payload(), block_->header.length) == 0;
}

int64_t any_msg::ago(int64_t now_ns) const noexcept {
  const uint32_t units = detail::received_mark(now_ns) - block_->received;  // both go round
  constexpr uint32_t behind = 1u << 20;  // a second: whose clock is a little behind the network's
  return units > UINT32_MAX - behind ? 0 : static_cast<int64_t>(uint64_t{units} << 10);
}

std::string to_string(const any_msg& m) {
  if (!m) return "no message";
  std::string_view name = "?";
  switch (m.type()) {
#define TROUPE_CASE(domain, table, number) \
  case number:                             \
    name = #table;                         \
    break;
    TROUPE_MESSAGES(TROUPE_CASE)
#undef TROUPE_CASE
    default:
      break;
  }
  return fmt::format("{}#{:04x} {} B epoch {}", name, m.type(), m.header().length, m.epoch());
}

std::vector<uint8_t> encode(const any_msg& m) {
  if (!m) return {};
  detail::count_encoded();
  return detail::wire_image(detail::sealed(m.header()), m.payload());
}

result<any_msg> decode(std::span<const uint8_t> bytes, uint16_t expected) {
  message_header header;
  if (bytes.size() < sizeof(header))
    return refuse(reject::truncated, 0, fmt::format("invalid header: {} bytes", bytes.size()));
  std::memcpy(&header, bytes.data(), sizeof(header));
  TROUPE_CHECK(detail::check_header(header, expected));
  auto rest = bytes.size() - sizeof(header);
  if (rest != header.length + trailer_bytes)
    return refuse(reject::truncated, header.type,
                  fmt::format("{} bytes after the header, which says {}", rest, header.length));
  auto* block = detail::allocate_block(header.length);
  if (block == nullptr) return out_of_memory();
  any_msg out(block);
  block->header = header;
  uint32_t trailer = 0;
  std::memcpy(block->payload(), bytes.data() + sizeof(header), header.length);
  std::memcpy(&trailer, bytes.data() + sizeof(header) + header.length, trailer_bytes);
  auto sum = detail::checksum(block->payload(), header.length, header.checksum);
  TROUPE_CHECK(detail::check_payload(*block, sum, trailer));
  return out;
}

any_msg readdress(const any_msg& m, const message_context& context) {
  if (!m) return {};
  auto* block = detail::allocate_block(m.header().length);
  if (block == nullptr) throw std::bad_alloc();
  stamp(block->header, m.type(), m.header().length, context);
  std::memcpy(block->payload(), m.payload().data(), m.header().length);
  return any_msg(block);
}

}  // namespace troupe
