// What begins as a peer does, against every other beginning and OpenSSL's own.
#include "actors/cluster/client_hello.hpp"

#include <string>

#include <doctest/doctest.h>

#include "tests/client_hello.hpp"

using namespace troupe::cluster;

namespace {

std::string record_of(size_t length) {
  return std::string("\x16\x03\x01", 3) + static_cast<char>(length >> 8) +
         static_cast<char>(length & 0xff) + '\x01';
}

}  // namespace

TEST_CASE("client hello: OpenSSL's own is wanted whole, whatever part of it has come (ADM-1)") {
  const auto hello = troupe::client_hello();
  REQUIRE(hello.size() > first_bytes);
  for (size_t n = 1; n < first_bytes; ++n) {
    const auto seen = look_at_hello(std::string_view(hello).substr(0, n));
    CHECK_FALSE(seen.noise);
    CHECK(seen.wanted_bytes == first_bytes);
  }
  const auto seen = look_at_hello(std::string_view(hello).substr(0, first_bytes));
  CHECK_FALSE(seen.noise);
  CHECK(seen.wanted_bytes == hello.size());
}

TEST_CASE("client hello: each of the first bytes decides (ADM-1)") {
  const auto good = record_of(512);
  for (const size_t at : {0, 1, 2, 5})
    for (int byte = 0; byte < 256; ++byte) {
      auto first = good;
      first[at] = static_cast<char>(byte);
      const bool version = at == 2 && byte <= 4;
      CAPTURE(at);
      CAPTURE(byte);
      CHECK(look_at_hello(first).noise == (first != good && !version));
    }
}

TEST_CASE("limits: a ClientHello beyond a record's length is not waited for (ADM-1)") {
  for (size_t length = 0; length < 1 << 16; ++length) {
    const auto seen = look_at_hello(record_of(length));
    CAPTURE(length);
    CHECK(seen.noise == (length < 44 || length > 1 << 14));
    CHECK(seen.wanted_bytes == (seen.noise ? 0 : length + 5));
  }
}
