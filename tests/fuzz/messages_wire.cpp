// Fuzzes everything through which foreign bytes become messages: the wire form, CAF's deserializer,
// and JSON. What is accepted must unpack, print, and read back as the same message.
//
// The first byte chooses the entry point, the second the message type. tests/messages/fuzz_test.cpp
// runs the same function from CTest with any compiler.
#include <cstring>
#include <vector>

#include <spdlog/spdlog.h>
#include <caf/binary_deserializer.hpp>
#include <caf/error.hpp>

#include "messages/inspect.hpp"
#include "messages/registry.hpp"
#include "messages/schemas/troupe_generated.h"
#include "messages/status_rows.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

namespace {

template <class T>
void unpack(const any_msg& m) {
  auto native = cast<T>(m).unpack();
  auto again = try_make_msg<T>(message_context{}, native);
  // Repacking may grow past the limit (a shared string is written out each time), but never fails
  // otherwise.
  must(again || again.error().code == errc::bad_data, "an unpacked message packs again");
}

void use(const any_msg& m) {
  switch (m.type()) {
#define TROUPE_CASE(domain, table, number) \
  case number:                             \
    unpack<fbs::table>(m);                 \
    break;
    TROUPE_MESSAGES(TROUPE_CASE)
#undef TROUPE_CASE
    default:
      must(false, "an accepted message is of a known type");
  }
  if (const auto status = cast<fbs::Status>(m); status && status->values() != nullptr)
    must(to_json(status_rows(*status.unpack().values)).starts_with('{'), "a status has rows");
  auto text = to_json(m);
  auto back = from_json(find_message(m.type())->name, text);
  bool large = text.size() > max_message_bytes / 4;
  must(back || large, "what we print as JSON we can read");
  if (back) must(to_json(*back) == text, "JSON keeps the message");
  auto sent = decode(encode(m), m.type());
  must(sent && *sent == m, "what we encode we can decode");
}

std::vector<uint8_t> forged(const uint8_t* payload, size_t size, uint16_t type) {
  message_header header;
  header.type = type;
  header.length = static_cast<uint32_t>(size);
  return detail::wire_image(detail::sealed(header), {payload, size});
}

// The bytes with the checksums their header calls for, where they are long enough to have any.
std::vector<uint8_t> resealed(const uint8_t* data, size_t size) {
  std::vector<uint8_t> out(data, data + size);
  message_header header;
  if (size < sizeof(header)) return out;
  std::memcpy(&header, data, sizeof(header));
  header = detail::sealed(header);
  std::memcpy(out.data(), &header, sizeof(header));
  if (header.length > max_message_bytes) return out;
  auto end = sizeof(header) + header.length;
  if (end + trailer_bytes > size) return out;
  auto trailer = detail::checksum(data + sizeof(header), header.length, header.checksum);
  std::memcpy(out.data() + end, &trailer, trailer_bytes);
  return out;
}

void through_caf(const uint8_t* data, size_t size) {
  caf::binary_deserializer source(nullptr, reinterpret_cast<const char*>(data), size);
  msg<fbs::Assign> m;
  if (!inspect(source, m)) use(m);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = [] {
    spdlog::set_level(spdlog::level::off);
    return true;
  }();
  if (!quiet || size < 2) return 0;
  auto selector = data[0] % 6;
  const auto& info = all_messages()[data[1] % all_messages().size()];
  data += 2;
  size -= 2;
  if (selector == 0) {  // the wire, as it comes
    if (auto m = decode({data, size})) use(*m);
  } else if (selector == 1) {  // the wire with an honest header and checksum: reaches the verifier
    if (size > max_message_bytes) return 0;
    if (auto m = decode(forged(data, size, info.id), info.id)) use(*m);
  } else if (selector == 2) {  // JSON
    std::string_view text(reinterpret_cast<const char*>(data), size);
    if (auto m = from_json(info.name, text)) use(*m);
  } else if (selector == 3) {  // CAF's deserializer
    through_caf(data, size);
  } else {  // both ways in with honest checksums: reaches every later check
    auto bytes = resealed(data, size);
    if (selector == 4)
      through_caf(bytes.data(), bytes.size());
    else if (auto m = decode(bytes))
      use(*m);
  }
  return 0;
}
