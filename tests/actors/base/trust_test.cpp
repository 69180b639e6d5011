// The book of peers: how many it remembers, and for how long.
#include "actors/base/trust.hpp"

#include <doctest/doctest.h>
#include <caf/node_id.hpp>
#include <caf/optional.hpp>

using namespace troupe;

namespace {

caf::node_id process_of(uint32_t number) {
  return *caf::make_node_id(number, std::string(40, 'a'));
}

}  // namespace

TEST_CASE("trust: 65,536 processes are remembered for a minute, and further ones refused (TRU-1)") {
  constexpr uint32_t most = 65'536;
  constexpr int64_t start_ns = 1'000'000'000'000, second_ns = 1'000'000'000;
  constexpr int64_t forgotten_ns = start_ns + peer_memory_ns;
  peer_book peers;
  const peer guest{"alice", tls::role::reader}, other{"bob", tls::role::reader};
  for (uint32_t i = 0; i < most; ++i) {
    REQUIRE(peers.bind(process_of(i), guest, start_ns));
    peers.release(process_of(i), start_ns + i);  // each is forgotten after the one before
  }
  CHECK_FALSE(peers.bind(process_of(0), other, forgotten_ns - 1));
  CHECK_FALSE(peers.bind(process_of(most), guest, forgotten_ns - 1));
  CHECK_FALSE(peers.bind(process_of(most), guest, forgotten_ns + most));  // it has just been looked
  CHECK(peers.bind(process_of(most), guest, forgotten_ns + second_ns));
  CHECK(peers.bind(process_of(1), other, forgotten_ns + second_ns));
  peers.release(process_of(most), forgotten_ns + second_ns);
  peers.release(process_of(1), forgotten_ns + second_ns);
}
