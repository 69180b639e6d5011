// Messages over a real loopback connection between two actor systems: good ones arrive verified
// once; hostile and unknown ones are refused and counted, and neither the receiver nor the
// connection suffers.
#include <chrono>
#include <cstring>

#include <doctest/doctest.h>
#include <caf/all.hpp>
#include <caf/io/middleman.hpp>

#include "messages/receive.hpp"
#include "messages/rejection.hpp"
#include "messages/schemas/troupe_generated.h"
#include "messages/type_ids.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace std::chrono_literals;

namespace hostile {

/// Bytes that travel under whatever type name the sender's system registers for them: a peer that
/// lies.
struct raw_content {
  std::vector<uint8_t> bytes;
};
struct stranger {
  int32_t value = 0;
};

caf::error inspect(caf::serializer& sink, const raw_content& x) {
  return sink.apply_raw(x.bytes.size(), const_cast<uint8_t*>(x.bytes.data()));
}
caf::error inspect(caf::deserializer&, raw_content&) {
  return caf::none;
}
std::string to_string(const raw_content&) {
  return "raw";
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, stranger& x) {
  return f(x.value);
}

}  // namespace hostile

CAF_BEGIN_TYPE_ID_BLOCK(hostile_types, caf::id_block::troupe_messages::end)
CAF_ADD_TYPE_ID(hostile_types, (hostile::raw_content))
CAF_ADD_TYPE_ID(hostile_types, (hostile::stranger))
CAF_END_TYPE_ID_BLOCK(hostile_types)

using hostile::raw_content;
using hostile::stranger;

namespace {

struct receiver_state {
  uint64_t good = 0;
};

caf::behavior receiver(caf::stateful_actor<receiver_state>* self) {
  guard_mailbox(self);
  return {
      [self](const msg<fbs::Ack>& m) {
        ++self->state.good;
        return m;
      },
      [self](caf::get_atom) { return self->state.good; },
  };
}

/// Two systems joined by a loopback connection; `remote` is the receiver as the sender sees it.
struct pair_of_systems {
  caf::actor_system_config receiving_config;
  caf::actor_system_config sending_config;
  std::unique_ptr<caf::actor_system> receiving;
  std::unique_ptr<caf::actor_system> sending;
  caf::actor local;
  caf::actor remote;

  explicit pair_of_systems(bool lying) {
    for (auto* config : {&receiving_config, &sending_config}) {
      config->set("scheduler.max-threads", 2);
      config->load<caf::io::middleman>();
    }
    register_messages(receiving_config);
    if (lying) {
      sending_config.add_message_type<raw_content>("troupe::msg<troupe::fbs::Ack>");
      sending_config.add_message_type<stranger>("a.stranger");
    } else {
      register_messages(sending_config);
    }
    receiving = std::make_unique<caf::actor_system>(receiving_config);
    sending = std::make_unique<caf::actor_system>(sending_config);
    local = receiving->spawn(receiver);
    auto port = receiving->middleman().publish(local, 0, "127.0.0.1");
    REQUIRE(port);
    auto handle = sending->middleman().remote_actor("127.0.0.1", *port);
    REQUIRE(handle);
    remote = *handle;
  }

  ~pair_of_systems() {
    remote = nullptr;
    caf::anon_send_exit(local, caf::exit_reason::user_shutdown);
    local = nullptr;
  }

  /// What the receiver says it has handled, asked over the connection: an answer proves that both
  /// live.
  uint64_t handled() {
    caf::scoped_actor self(*sending);
    uint64_t out = ~uint64_t{0};
    self->request(remote, 10s, caf::get_atom::value)
        .receive([&](uint64_t n) { out = n; },
                 [](const caf::error& e) { FAIL("no answer: " << render(from_caf(e))); });
    return out;
  }
};

}  // namespace

TEST_CASE("a message over loopback is verified exactly once and equal") {
  pair_of_systems s(false);
  message_context context;
  context.epoch = 4;
  context.trace_high = 0x1234;
  auto m = make_msg<fbs::Ack>(context, [](auto& x) { x.text = "over the wire"; });
  auto before = counts();
  caf::scoped_actor self(*s.sending);
  bool answered = false;
  self->request(s.remote, 10s, m)
      .receive(
          [&](const msg<fbs::Ack>& reply) {
            answered = true;
            CHECK(reply == m);
            CHECK(reply.header().trace_high == 0x1234);
            CHECK(reinterpret_cast<uintptr_t>(reply.payload().data()) % 16 == 0);
          },
          [](const caf::error& e) { FAIL(render(from_caf(e))); });
  CHECK(answered);
  CHECK(counts().verified == before.verified + 2);  // once there, once back
  CHECK(counts().decoded == before.decoded + 2);
  CHECK(counts().all_rejected() == before.all_rejected());
}

TEST_CASE("an error crosses the connection with its message and hint") {
  pair_of_systems s(false);
  caf::scoped_actor self(*s.sending);
  error got;
  self->request(s.remote, 10s, make_msg<fbs::Pause>())
      .receive([](const caf::message&) { FAIL("answered"); },
               [&](const caf::error& e) { got = from_caf(e); });
  CHECK(is_error(got, no_handler));
}

TEST_CASE("hostile messages over loopback are counted, receiver and connection go on") {
  pair_of_systems s(true);
  auto wire = encode(make_msg<fbs::Ack>({}, [](auto& x) { x.text = "good"; }));
  message_header honest;
  std::memcpy(&honest, wire.data(), sizeof(honest));
  std::span<const uint8_t> payload(wire.data() + sizeof(honest), honest.length);
  auto with = [&](auto lie) {
    auto header = honest;
    lie(header);
    return raw_content{detail::wire_image(detail::sealed(header), payload)};
  };
  auto flipped = wire;
  flipped[wire.size() - 5] ^= 0x80;
  std::vector<uint8_t> bad(payload.size(), 0xff);
  struct row {
    const char* what;
    reject reason;
    raw_content content;
  };
  const row table[] = {
      {"nothing", reject::truncated, {}},
      {"half a header", reject::truncated, {{wire.begin(), wire.begin() + 30}}},
      {"half a payload", reject::truncated, {{wire.begin(), wire.end() - 12}}},
      {"4 GiB", reject::oversize, with([](auto& h) { h.length = 0xffffffff; })},
      {"another layout", reject::form, with([](auto& h) { h.form = 0; })},
      {"another type", reject::type, with([](auto& h) { ++h.type; })},
      {"a flipped bit", reject::checksum, {flipped}},
      {"no trailer", reject::truncated, {{wire.begin(), wire.end() - 4}}},
      {"another table's content",
       reject::verify,
       {detail::wire_image(detail::sealed(honest), bad)}},
  };
  caf::scoped_actor self(*s.sending);
  for (const auto& r : table) {
    INFO(r.what);
    auto before = counts();
    error got;
    self->request(s.remote, 10s, r.content)
        .receive([](const caf::message&) { FAIL("answered"); },
                 [&](const caf::error& e) { got = from_caf(e); });
    CHECK(got == undecodable_message());
    CHECK(counts().of(r.reason) == before.of(r.reason) + 1);
    CHECK(counts().of(reject::undecodable) == before.of(reject::undecodable) + 1);
    CHECK(s.handled() == 0);
  }
  self->send(s.remote, raw_content{wire});
  CHECK(s.handled() == 1);
}

TEST_CASE("a type the receiver does not know is counted, receiver and connection go on") {
  pair_of_systems s(true);
  auto before = counts();
  caf::scoped_actor self(*s.sending);
  self->send(s.remote, stranger{7});
  CHECK(s.handled() == 0);
  CHECK(counts().all_rejected() == before.all_rejected() + 1);
  CHECK(counts().of(reject::undecodable) == before.of(reject::undecodable) + 1);
}
