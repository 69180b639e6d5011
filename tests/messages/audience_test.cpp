// Every message has an audience, and a message that carries another has that of what it carries.
#include <set>

#include <doctest/doctest.h>

#include "messages/actors.hpp"
#include "messages/audience.hpp"
#include "messages/registry.hpp"

using namespace troupe;

namespace {

msg<fbs::CallActor> carrying(const any_msg& m) {
  return make_msg<fbs::CallActor>({}, [&](auto& c) { c.message = encode(m); });
}

}  // namespace

TEST_CASE("audience: the table names every message once") {
  std::set<uint16_t> seen;
  for (const auto& e : all_audiences()) {
    CAPTURE(e.type);
    CHECK(find_message(e.type) != nullptr);
    CHECK(seen.insert(e.type).second);
  }
  for (const auto& m : all_messages()) {
    CAPTURE(m.name);
    CHECK(seen.contains(m.id));
  }
  CHECK(audience_of(uint16_t{0xffff}) == audience::nodes);
}

TEST_CASE("audience: what is answered by an Ack changes something, and is for no looker") {
  for (const auto& c : all_calls())
    if (c.response->name == "Ack") {
      CAPTURE(c.request->name);
      CHECK(audience_of(c.request->id) != audience::lookers);
    }
}

TEST_CASE("audience: a message that carries another") {
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::StatusRequest>()))) == audience::lookers);
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::Pause>()))) == audience::commanders);
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::Shutdown>()))) == audience::commanders);
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::TraceStop>()))) == audience::commanders);
  CHECK(audience_of(any_msg(carrying(carrying(make_msg<fbs::Pause>())))) == audience::commanders);
  CHECK(audience_of(any_msg(make_msg<fbs::CallActor>())) == audience::nodes);
  CHECK(carried_by(make_msg<fbs::Pause>()).type() == message_traits<fbs::Pause>::id);
}
