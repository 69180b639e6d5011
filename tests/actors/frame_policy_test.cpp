// Every kind of frame from every kind of peer, and what becomes of it.
#include <doctest/doctest.h>

#include "actors/cluster/frame_policy.hpp"
#include "actors/cluster/ingress.hpp"

using namespace troupe::cluster;

namespace {

frame_header header(uint8_t operation, uint32_t bytes = 100, uint64_t source = 5) {
  frame_header h;
  h.operation = operation;
  h.payload_bytes = bytes;
  h.source_actor = source;
  h.dest_actor = 9;
  return h;
}

/// All that a payload can have for it.
frame_payload good() {
  return {true, true, true, true, true, false};
}

frame_policy greeted(bool accepted, bool guest) {
  frame_policy p(accepted, guest);
  p.judge(header(accepted ? frame_header::client_handshake : frame_header::server_handshake),
          good());
  REQUIRE((p.greeted() || (guest && !accepted)));
  return p;
}

}  // namespace

TEST_CASE("frames: nothing passes before a handshake, whoever speaks") {
  for (const bool guest : {false, true}) {
    const frame_policy p(true, guest);
    for (uint8_t o = 0; o < 10; ++o) {
      CAPTURE(int{o});
      CHECK(p.judge(header(o)) ==
            (o == frame_header::client_handshake ? frame_verdict::pass : frame_verdict::garbage));
    }
    CHECK(p.judge(header(frame_header::client_handshake, 0)) == frame_verdict::garbage);
    CHECK(p.judge(header(frame_header::client_handshake, 1u << 20)) == frame_verdict::garbage);
  }
  CHECK(frame_policy(false, false).judge(header(frame_header::server_handshake)) ==
        frame_verdict::pass);
  CHECK(frame_policy(false, false).judge(header(frame_header::client_handshake)) ==
        frame_verdict::garbage);
}

TEST_CASE("frames: a length is not believed beyond the largest message") {
  const auto p = greeted(true, false);
  CHECK(p.judge(header(frame_header::direct_message, frame_policy::max_payload_bytes)) ==
        frame_verdict::pass);
  CHECK(p.judge(header(frame_header::direct_message, frame_policy::max_payload_bytes + 1)) ==
        frame_verdict::garbage);
}

TEST_CASE("frames: a node says what it likes, a guest only what its tools need") {
  const auto node = greeted(true, false), guest = greeted(true, true);
  for (uint8_t o = frame_header::direct_message; o <= frame_header::heartbeat; ++o) {
    CAPTURE(int{o});
    CHECK(node.judge(header(o)) == frame_verdict::pass);
    CHECK(guest.judge(header(o)) ==
          (o == frame_header::routed_message ? frame_verdict::impostor : frame_verdict::pass));
  }
  CHECK(guest.judge(header(frame_header::direct_message, 100, 0)) == frame_verdict::impostor);
  auto named = header(frame_header::direct_message);
  named.named_receiver = true;
  CHECK(guest.judge(named) == frame_verdict::drop);
  auto answer = header(frame_header::direct_message);
  answer.response = true;
  CHECK(guest.judge(answer) == frame_verdict::drop);
  CHECK(frame_policy(false, true).judge(header(frame_header::server_handshake)) ==
        frame_verdict::impostor);
}

TEST_CASE("frames: a guest's payload must be its own, and of our language") {
  auto guest = greeted(true, true);
  const auto said = header(frame_header::direct_message);
  CHECK(guest.judge(said, good()) == frame_verdict::pass);
  auto p = good();
  p.of_ours = false;
  CHECK(guest.judge(said, p) == frame_verdict::refuse);
  p.of_services = true;
  CHECK(guest.judge(said, p) == frame_verdict::drop);
  for (auto kind : {frame_header::monitor_message, frame_header::down_message}) {
    CHECK(guest.judge(header(kind), good()) == frame_verdict::pass);
    p = good();
    p.source_is_peer = false;
    CHECK(guest.judge(header(kind), p) == frame_verdict::impostor);
    p = good();
    p.for_us = false;
    CHECK(guest.judge(header(kind), p) == frame_verdict::impostor);
  }
  p = good();
  p.name_is_free = false;
  frame_policy fresh(true, true);
  CHECK(fresh.judge(header(frame_header::client_handshake), p) == frame_verdict::impostor);
  CHECK(!fresh.greeted());
}

TEST_CASE("ingress: an address is logged once a minute, all together at a bounded rate") {
  refusal_log_policy log;
  const int64_t second = 1'000'000'000;
  CHECK(log.line(turned_away::not_tls, "a", 0) == 0u);
  CHECK(!log.line(turned_away::not_tls, "a", second));
  CHECK(!log.line(turned_away::not_tls, "a", 59 * second));
  CHECK(log.line(turned_away::hung_up, "a", 59 * second) == 2u);
  CHECK(log.line(turned_away::not_tls, "a", 60 * second) == 0u);
  size_t lines = 0;
  for (int i = 0; i < 1'000; ++i)
    lines += log.line(turned_away::not_tls, std::to_string(i), 130 * second).has_value();
  CHECK(lines == refusal_log_policy::lines_per_minute);
  CHECK(log.line(turned_away::not_tls, "z", 190 * second) == 970u);
}
