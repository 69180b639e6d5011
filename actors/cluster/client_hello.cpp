// The first bytes against the grammar of client_hello.hpp.
#include "actors/cluster/client_hello.hpp"

namespace troupe::cluster {

namespace {

constexpr unsigned char handshake_record = 0x16, major_version = 0x03, last_minor = 0x04,
                        client_hello = 0x01;
constexpr size_t record_head_bytes = 5;
/// The message's head, version, random, an empty session, one cipher suite, one compression.
constexpr size_t least_bytes = 4 + 2 + 32 + 1 + 4 + 1;

}  // namespace

hello_look look_at_hello(std::string_view first) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(first[i]); };
  const size_t n = first.size();
  const auto begins = (n < 1 || at(0) == handshake_record) && (n < 2 || at(1) == major_version) &&
                      (n < 3 || at(2) <= last_minor) && (n < first_bytes || at(5) == client_hello);
  if (!begins) return {true, 0};
  if (n < first_bytes) return {false, first_bytes};
  const size_t length = size_t{at(3)} << 8 | at(4);
  if (length < least_bytes || length + record_head_bytes > max_hello_bytes) return {true, 0};
  return {false, length + record_head_bytes};
}

}  // namespace troupe::cluster
