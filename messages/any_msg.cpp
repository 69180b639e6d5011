// Memory, sealing and checking of messages; the only code that looks at foreign bytes before they
// are messages.
#include "messages/any_msg.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include <fmt/format.h>
#include <isa-l/crc.h>

#include "messages/builder.hpp"
#include "messages/message_list.hpp"
#include "messages/rejection.hpp"

namespace troupe {

static_assert(alignof(std::max_align_t) >= 16, "AM-3: malloc aligns to 16 bytes");

namespace {

// Below this a copy into a block of the right size is cheaper than giving the thread's builder
// memory away.
constexpr uint32_t copy_below_bytes = 16 * 1024;

uint32_t crc32c(const void* bytes, size_t size, uint32_t seed) noexcept {
  // isa-l takes a mutable pointer but only reads; sizes here are at most max_message_bytes.
  auto* data = const_cast<unsigned char*>(static_cast<const unsigned char*>(bytes));
  return crc32_iscsi(data, static_cast<int>(size), seed);
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
  auto* memory = std::malloc(sizeof(message_block) + length);
  return memory == nullptr ? nullptr : new (memory) message_block;
}

void free_block(message_block* block) noexcept {
  std::free(reinterpret_cast<uint8_t*>(block) - block->base_offset);
}

message_header sealed(const message_header& header, const uint8_t* payload) noexcept {
  auto out = header;
  out.checksum = 0;
  auto crc = crc32c(&out, sizeof(out), 0);
  out.checksum = crc32c(payload, out.length, crc);  // H-3
  return out;
}

status check_header(const message_header& header, uint16_t expected) {
  if (header.form != message_form)  // H-2
    return refuse(reject::form, 0,
                  fmt::format("form {:#04x}, ours is {:#04x}", header.form, message_form));
  if (header.length > max_message_bytes)  // H-4
    return refuse(reject::oversize, header.type,
                  fmt::format("{} bytes, at most {}", header.length, max_message_bytes));
  if (expected != 0 ? header.type != expected : !known_type(header.type))
    return refuse(reject::type, header.type, fmt::format("expected type {:#06x}", expected));
  return {};
}

status check_payload(const message_block& block) {
  const auto& header = block.header;
  if (sealed(header, block.payload()).checksum != header.checksum)
    return refuse(reject::checksum, header.type, "the checksum does not match");
  if (!verify_payload(header.type, block.payload(), header.length))  // AM-2
    return refuse(reject::verify, header.type, "the content does not verify");
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

result<any_msg> take(message_builder& builder, uint16_t type, const message_context& context,
                     bool steal) {
  auto length = builder.GetSize();
  if (length > max_message_bytes) {
    builder.restart();
    return error{errc::bad_data,
                 fmt::format("a message of {} bytes is beyond the {} a message may have", length,
                             max_message_bytes),
                 "send a handle to the data, or send it in parts"};
  }
  message_block* block = nullptr;
  if (!steal && length < copy_below_bytes) {
    block = allocate_block(length);
    if (block == nullptr) return out_of_memory();
    std::memcpy(block->payload(), builder.GetBufferPointer(), length);
    builder.restart();
  } else {
    builder.Pad(sizeof(message_block));  // B-2
    size_t capacity = 0;
    size_t offset = 0;
    auto* memory = builder.ReleaseRaw(capacity, offset);
    builder.restart();
    block = new (memory + offset) message_block;
    block->base_offset = static_cast<uint32_t>(offset);
  }
  stamp(block->header, type, length, context);
  return any_msg(block);
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
  auto payload = m.payload();
  auto header = detail::sealed(m.header(), payload.data());
  std::vector<uint8_t> out(sizeof(header) + payload.size());
  std::memcpy(out.data(), &header, sizeof(header));
  std::memcpy(out.data() + sizeof(header), payload.data(), payload.size());
  detail::count_encoded();
  return out;
}

result<any_msg> decode(std::span<const uint8_t> bytes, uint16_t expected) {
  message_header header;
  if (bytes.size() < sizeof(header))
    return refuse(reject::truncated, 0, fmt::format("{} bytes are no header", bytes.size()));
  std::memcpy(&header, bytes.data(), sizeof(header));
  TROUPE_CHECK(detail::check_header(header, expected));
  if (bytes.size() - sizeof(header) != header.length)
    return refuse(reject::truncated, header.type,
                  fmt::format("{} bytes of payload, the header says {}",
                              bytes.size() - sizeof(header), header.length));
  auto* block = detail::allocate_block(header.length);
  if (block == nullptr) return out_of_memory();
  any_msg out(block);
  block->header = header;
  std::memcpy(block->payload(), bytes.data() + sizeof(header), header.length);
  TROUPE_CHECK(detail::check_payload(*block));
  block->header.checksum = 0;
  detail::count_decoded();
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
