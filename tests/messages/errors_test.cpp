// Errors keep code, message and hint through CAF; CAF's own become ours by meaning; foreign
// nonsense becomes a bug.
#include "messages/errors.hpp"

#include <doctest/doctest.h>
#include <caf/all.hpp>

#include "messages/msg.hpp"
#include "messages/schemas/common_generated.h"
#include "messages/type_ids.hpp"
#include "tests/errors.hpp"

using namespace troupe;

TEST_CASE("every error of ours survives CAF unchanged") {
  for (uint8_t code = 1; code <= static_cast<uint8_t>(errc::training); ++code) {
    const error e(static_cast<errc>(code), "what happened", "what to do", "a_kind");
    CHECK(from_caf(to_caf(e)) == e);
  }
  CHECK_FALSE(to_caf(error{errc::none, {}}));
  CHECK(from_caf(caf::none).code == errc::none);
}

TEST_CASE("an error keeps its kind in the tables that carry one, and needs none") {
  const error e(errc::io, "what happened", "what to do", "a_kind");
  fbs::FailureT carried;
  put_error(e, carried);
  const auto failure = make_msg<fbs::Failure>({}, carried);
  CHECK(error_in(*failure) == e);
  CHECK(error_in(*make_msg<fbs::Failure>()) == error(errc::none, ""));
  const auto of_an_older_peer = caf::make_message(e.message, e.hint);
  CHECK(from_caf(caf::error(static_cast<uint8_t>(e.code), error_category, of_an_older_peer)) ==
        error(e.code, e.message, e.hint));
}

TEST_CASE("what a peer's error says is made printable before anybody shows it (ER-2)") {
  const auto got = from_caf(to_caf({errc::bad_data, "no\x1b[2J\nforged", "a\rb"}));
  CHECK(got.message == "no\\u001b[2J\\nforged");
  CHECK(got.hint == "a\\rb");
  CHECK(from_caf(to_caf({errc::bad_data, std::string(100'000, 'x')})).message.size() == 4096);
}

TEST_CASE("CAF's own errors become ours by meaning") {
  struct row {
    caf::error from;
    errc to;
  };
  const row table[] = {
      {caf::sec::request_timeout, errc::timeout},
      {caf::sec::connection_timeout, errc::timeout},
      {caf::sec::request_receiver_down, errc::unavailable},
      {caf::sec::cannot_connect_to_node, errc::unavailable},
      {caf::sec::disconnect_during_handshake, errc::unavailable},
      {caf::sec::unexpected_message, errc::version_mismatch},
      {caf::sec::cannot_open_port, errc::io},
      {caf::sec::end_of_stream, errc::bad_data},
      {caf::sec::runtime_error, errc::bug},
      {caf::exit_reason::user_shutdown, errc::cancelled},
      {caf::exit_reason::remote_link_unreachable, errc::unavailable},
      {caf::exit_reason::unhandled_exception, errc::bug},
  };
  for (const auto& r : table) {
    auto e = from_caf(r.from);
    CAPTURE(e.message);
    CHECK(e.code == r.to);
    CHECK(e.message != "");
  }
  CHECK(from_caf(caf::sec::request_timeout).hint != "");
}

TEST_CASE("ER-1: an error nobody could have made becomes a bug, not a crash") {
  CHECK(from_caf(caf::error(200, error_category)).code == errc::bug);
  CHECK(from_caf(caf::error(3, error_category)).code == static_cast<errc>(3));
  CHECK(mentions(from_caf(caf::error(3, error_category)), 3));
  CHECK(mentions(from_caf(caf::error(3, error_category, caf::make_message(1, 2, 3))), 3));
  CHECK(from_caf(caf::error(1, caf::atom("strange"))).code == errc::bug);
}

TEST_CASE("a handler's error reaches the caller, CAF renders it readably") {
  caf::actor_system_config config;
  register_messages(config);
  caf::actor_system system(config);
  auto refusing = system.spawn([](caf::event_based_actor*) -> caf::behavior {
    return {[](int) -> caf::result<int> {
      return to_caf({errc::bad_config, "two is too many", "try one"});
    }};
  });
  caf::scoped_actor self(system);
  caf::error got;
  self->request(refusing, std::chrono::minutes(5), 2)
      .receive([](int) { FAIL("answered"); }, [&](const caf::error& e) { got = e; });
  CHECK(from_caf(got).code == errc::bad_config);
  CHECK(from_caf(got).hint == "try one");
  CHECK(system.render(got) == "bad_config: two is too many (hint: try one)");
}
