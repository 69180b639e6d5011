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
  return {true, true, true, true, true, false, false, false};
}

constexpr uint64_t pacer = 9, report = 70;

/// A link that this process made to a power budget, which one of its actors has asked something.
frame_policy to_budget() {
  frame_policy p(false, true, true);
  CHECK(p.judge(header(frame_header::server_handshake)) == frame_verdict::pass);
  CHECK(p.judge(header(frame_header::server_handshake), good()) == frame_verdict::pass);
  REQUIRE(p.greeted());
  p.asked(pacer, report);
  return p;
}

frame_header answer_to(uint64_t actor, uint64_t request) {
  auto h = header(frame_header::direct_message);
  h.response = true;
  h.dest_actor = actor;
  h.request = request;
  return h;
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
    p = good();
    p.of_error = kind == frame_header::down_message;
    CHECK(guest.judge(header(kind), p) == frame_verdict::pass);
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

TEST_CASE("frames: the end of a guest's actor is heard by an error of words alone (FRM-2)") {
  const auto ends = header(frame_header::down_message);
  CHECK(greeted(true, false).judge(ends, good()) == frame_verdict::pass);  // a node's
  for (auto p : {greeted(true, true), to_budget()}) {
    auto payload = good();
    CHECK(p.judge(ends, payload) == frame_verdict::refuse);
    payload.of_error = true;
    CHECK(p.judge(ends, payload) == frame_verdict::pass);
    payload.readable = false;
    CHECK(p.judge(ends, payload) == frame_verdict::garbage);
  }
}

TEST_CASE("frames: a guest listens nowhere but a power budget where it is looked for (FRM-3)") {
  CHECK(frame_policy(false, true, true).answers());
  for (const auto& p : {frame_policy(false, true), frame_policy(true, true, true),
                        frame_policy(true, true), frame_policy(false, false)})
    CHECK_FALSE(p.answers());
  auto job = frame_policy(true, true, true);  // at the budget: it asks, and never answers
  CHECK(job.judge(header(frame_header::client_handshake), good()) == frame_verdict::pass);
  job.asked(pacer, report);
  CHECK(job.judge(answer_to(pacer, report)) == frame_verdict::drop);
  CHECK(job.judge(header(frame_header::direct_message), good()) == frame_verdict::pass);
}

TEST_CASE("frames: a power budget answers what it was asked, once (FRM-4)") {
  auto p = to_budget();
  CHECK(p.judge(answer_to(pacer, report + 1)) == frame_verdict::drop);
  CHECK(p.judge(answer_to(pacer + 1, report)) == frame_verdict::drop);
  const auto answer = answer_to(pacer, report);
  CHECK(p.judge(answer) == frame_verdict::pass);
  CHECK(p.judge(answer, good()) == frame_verdict::pass);
  CHECK(p.judge(answer) == frame_verdict::drop);
  auto named = answer_to(pacer, report + 1);
  p.asked(pacer, report + 1);
  named.named_receiver = true;
  CHECK(p.judge(named) == frame_verdict::drop);
  named.named_receiver = false;
  CHECK(p.judge(named) == frame_verdict::pass);
}

TEST_CASE("frames: a power budget answers with a message of ours alone, or with words (FRM-4)") {
  auto p = to_budget();
  const auto answer = answer_to(pacer, report);
  auto nameless = answer;
  nameless.source_actor = 0;
  auto payload = good();
  payload.has_handles = true;
  CHECK(p.judge(answer, payload) == frame_verdict::refuse);
  CHECK(p.judge(nameless, good()) == frame_verdict::refuse);
  payload = good();
  payload.of_ours = false;
  CHECK(p.judge(answer, payload) == frame_verdict::refuse);
  payload.of_error = true;
  payload.readable = false;
  CHECK(p.judge(answer, payload) == frame_verdict::refuse);
  CHECK(p.judge(nameless) == frame_verdict::pass);  // what was refused answers nothing
  payload.readable = true;  // the refusal of an actor that is not there any more has no name
  CHECK(p.judge(nameless, payload) == frame_verdict::pass);
  CHECK(p.judge(nameless) == frame_verdict::drop);
}

TEST_CASE("frames: a power budget says nothing unasked, and watches only what is its own (FRM-4)") {
  auto p = to_budget();
  const auto said = header(frame_header::direct_message);
  CHECK(p.judge(said) == frame_verdict::pass);  // its payload is looked at
  CHECK(p.judge(said, good()) == frame_verdict::refuse);
  auto payload = good();
  payload.of_error = true;
  CHECK(p.judge(said, payload) == frame_verdict::refuse);
  payload = good();
  payload.of_services = true;
  CHECK(p.judge(said, payload) == frame_verdict::drop);
  CHECK(p.judge(header(frame_header::direct_message, 100, 0)) == frame_verdict::impostor);
  CHECK(p.judge(header(frame_header::routed_message)) == frame_verdict::impostor);
  CHECK(p.judge(header(frame_header::client_handshake)) == frame_verdict::garbage);
  CHECK(p.judge(header(frame_header::heartbeat, 0)) == frame_verdict::pass);
  for (auto kind : {frame_header::monitor_message, frame_header::down_message}) {
    payload = good();
    payload.of_error = kind == frame_header::down_message;
    CHECK(p.judge(header(kind), payload) == frame_verdict::pass);
    payload.source_is_peer = false;
    CHECK(p.judge(header(kind), payload) == frame_verdict::impostor);
  }
}

TEST_CASE("frames: of questions without an answer the newest are remembered (FRM-4)") {
  auto p = to_budget();
  for (uint64_t i = 1; i <= frame_policy::remembered_questions; ++i) p.asked(pacer, report + i);
  CHECK(p.judge(answer_to(pacer, report)) == frame_verdict::drop);
  for (uint64_t i = 1; i <= frame_policy::remembered_questions; ++i)
    CHECK(p.judge(answer_to(pacer, report + i)) == frame_verdict::pass);
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
