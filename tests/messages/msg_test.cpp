// msg<T> inside one process: shared, never copied, never verified again; made from natives and from
// builders.
#include "messages/msg.hpp"

#include <thread>

#include <doctest/doctest.h>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>

#include "messages/receive.hpp"
#include "messages/rejection.hpp"
#include "messages/schemas/troupe_generated.h"
#include "messages/type_ids.hpp"

using namespace troupe;

namespace {

message_context some_context() {
  message_context context;
  context.trace_high = 1;
  context.trace_low = 2;
  context.span = 3;
  context.parent = 4;
  context.sender = 5;
  context.now_ns = 6;
  context.epoch = 7;
  context.trace_flags = 1;
  return context;
}

bool aligned(const any_msg& m) {
  return reinterpret_cast<uintptr_t>(m.payload().data()) % 16 == 0;
}

struct test_system {
  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;

  test_system() {
    register_messages(config);
    system = std::make_unique<caf::actor_system>(config);
  }
};

}  // namespace

TEST_CASE("a message carries its header and its table") {
  auto m = make_msg<fbs::RunStep>(some_context(), [](auto& x) {
    x.step = 41;
    x.lr = 3e-4;
  });
  CHECK(m->step() == 41);
  CHECK(m->lr() == 3e-4);
  const auto& h = m.header();
  CHECK(h.type == 0x0306);
  CHECK(h.trace_high == 1);
  CHECK(h.trace_low == 2);
  CHECK(h.span == 3);
  CHECK(h.parent == 4);
  CHECK(h.sender == 5);
  CHECK(h.sent_ns == 6);
  CHECK(h.epoch == 7);
  CHECK(h.trace_flags == 1);
  CHECK(h.length == m.payload().size());
  CHECK(aligned(m));
  CHECK(m.unpack().step == 41);
  CHECK(to_string(m).find("RunStep") == 0);
}

TEST_CASE("payloads are 16-byte aligned at every size, copied or taken over") {
  for (size_t size : {0, 1, 7, 15, 16, 17, 1000, 16'000, 16'384, 20'001, 300'000}) {
    CAPTURE(size);
    std::vector<uint8_t> data(size, 0xab);
    auto small = make_msg<fbs::Bytes>({}, [&](auto& x) { x.data = data; });
    CHECK(aligned(small));
    const auto fill = [&](message_builder& b) { return fbs::CreateBytesDirect(b, &data); };
    auto taken = try_build_msg<fbs::Bytes>({}, fill);
    REQUIRE(taken);
    CHECK(aligned(*taken));
    CHECK((*taken)->data()->size() == size);
    auto again = try_build_msg<fbs::Bytes>({}, fill);
    REQUIRE(again);
    CHECK(aligned(*again));
    CHECK(*again == *taken);
    auto decoded = decode(encode(*taken));
    REQUIRE(decoded);
    CHECK(aligned(*decoded));
    CHECK(*decoded == *taken);
  }
}

TEST_CASE("a builder's memory becomes the message without a copy") {
  std::vector<uint8_t> data(100'000, 1);
  const uint8_t* at = nullptr;
  auto m = try_build_msg<fbs::Bytes>({}, [&](message_builder& b) {
    auto root = fbs::CreateBytesDirect(b, &data);
    at = b.GetCurrentBufferPointer();
    return root;
  });
  REQUIRE(m);
  auto* payload = m->payload().data();
  CHECK(payload < at);
  CHECK(at - payload < 64);
}

TEST_CASE("a payload beyond 1 MiB is an error that says so") {
  fbs::BytesT big;
  big.data.assign(max_message_bytes + 1, 0);
  auto made = try_make_msg<fbs::Bytes>({}, big);
  REQUIRE_FALSE(made);
  CHECK(made.error().code == errc::bad_data);
  CHECK_THROWS_AS(make_msg<fbs::Bytes>({}, big), std::length_error);
  auto small = make_msg<fbs::Ack>({}, [](auto& x) { x.text = "the builder is usable again"; });
  CHECK(small->text()->str() == "the builder is usable again");
}

TEST_CASE("a message made while another is being built does not disturb it") {
  msg<fbs::Ack> inner;
  auto outer = build_msg<fbs::Ack>({}, [&](auto& b) {
    auto text = b.CreateString("outer");
    inner = make_msg<fbs::Ack>({}, [](auto& x) { x.text = "inner"; });
    return fbs::CreateAck(b, text);
  });
  CHECK(outer->text()->str() == "outer");
  CHECK(inner->text()->str() == "inner");
}

TEST_CASE("cast tells types apart") {
  any_msg m = make_msg<fbs::Pause>();
  CHECK(cast<fbs::Pause>(m));
  CHECK_FALSE(cast<fbs::Resume>(m));
  CHECK_FALSE(cast<fbs::Resume>(any_msg{}));
}

TEST_CASE("readdress keeps the payload and changes the header") {
  auto m = make_msg<fbs::Ack>(some_context(), [](auto& x) { x.text = "hello"; });
  message_context other;
  other.epoch = 9;
  auto moved = cast<fbs::Ack>(readdress(m, other));
  REQUIRE(moved);
  CHECK(moved.epoch() == 9);
  CHECK(moved->text()->str() == "hello");
  CHECK(m.epoch() == 7);
}

TEST_CASE("in one process a message is never copied, encoded or verified") {
  test_system s;
  const uint8_t* seen = nullptr;
  auto echo = s.system->spawn([&seen](caf::event_based_actor*) -> caf::behavior {
    return {[&seen](const msg<fbs::Bytes>& m) {
      seen = m.payload().data();
      return m;
    }};
  });
  auto before = counts();
  auto m = make_msg<fbs::Bytes>(some_context(), [](auto& x) { x.data.assign(5000, 3); });
  auto content = caf::make_message(m);
  auto copy = content;
  CHECK(copy.get_as<msg<fbs::Bytes>>(0).payload().data() == m.payload().data());
  caf::scoped_actor self(*s.system);
  const uint8_t* back = nullptr;
  self->request(echo, std::chrono::minutes(5), m)
      .receive([&](const msg<fbs::Bytes>& reply) { back = reply.payload().data(); },
               [](const caf::error& e) { FAIL(render(from_caf(e))); });
  CHECK(seen == m.payload().data());
  CHECK(back == m.payload().data());
  CHECK(counts().verified == before.verified);
  CHECK(counts().encoded == before.encoded);
  CHECK(counts().decoded == before.decoded);
}

TEST_CASE("a message may be shared and dropped by many threads") {
  auto m = make_msg<fbs::Ack>({}, [](auto& x) { x.text = "shared"; });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([m] {
      for (int k = 0; k < 1000; ++k) {
        auto copy = m;
        CHECK(copy->text()->size() == 6);
      }
    });
  for (auto& t : threads) t.join();
  CHECK(m->text()->str() == "shared");
}
