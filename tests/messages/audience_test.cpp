// Every message has an audience, and a message that carries another has that of what it carries.
#include <map>
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

/// The text that persons may put into messages, and why none of it opens, makes or removes a file
/// of their choosing.
const std::map<std::string_view, std::string_view> harmless{
    {"reason", "words; of a black box letters and digits go into the file's name"},
    {"key", "a name out of a list"},
    {"value", "a number: what can be set while a run goes on has no text"},
    {"node", "a pattern over names"},
    {"actor", "a pattern over names"},
    {"device", "a pattern over names"},
    {"message", "a name out of a list"},
    {"level", "a word out of a list"},
    {"who", "words, not believed"},
    {"user", "words, not believed"}};

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
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::Shutdown>()))) == audience::nodes);
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::TraceStop>()))) == audience::commanders);
  CHECK(audience_of(any_msg(carrying(carrying(make_msg<fbs::Pause>())))) == audience::nodes);
  CHECK(audience_of(any_msg(make_msg<fbs::CallActor>())) == audience::nodes);
  CHECK(carried_by(make_msg<fbs::Pause>()).type() == message_traits<fbs::Pause>::id);
}

TEST_CASE("audience: no text of a person's message names a file (AUD-3)") {
  for (const auto& m : all_messages()) {
    if (audience_of(m.id) == audience::nodes) continue;
    for (const auto& f : m.fields) {
      CAPTURE(m.name);
      CAPTURE(f.name);
      if (f.type == "string") CHECK(harmless.contains(f.name));
      // Nothing nested, so no text that the line above does not see; CallActor is judged by what it
      // carries.
      CHECK((f.nested.empty() && (f.type.front() != '[' || m.name == "CallActor")));
      CHECK(f.doc.find("directory") == std::string::npos);
      CHECK(f.doc.find("folder") == std::string::npos);
    }
  }
}

TEST_CASE("audience: nobody has a node's message sent, whoever he is (AUD-3)") {
  for (const any_msg& m :
       {any_msg(make_msg<fbs::ExportModel>()), any_msg(make_msg<fbs::CommitCheckpoint>()),
        any_msg(make_msg<fbs::AbandonCheckpoint>()), any_msg(make_msg<fbs::OpenArchive>()),
        any_msg(make_msg<fbs::BuildStage>()), any_msg(make_msg<fbs::OpenLoader>()),
        any_msg(make_msg<fbs::AttachLoader>()), any_msg(make_msg<fbs::SaveCheckpoint>()),
        any_msg(make_msg<fbs::LoadCheckpoint>()), any_msg(make_msg<fbs::CopyCheckpoint>()),
        any_msg(make_msg<fbs::RunEnded>()), any_msg(carrying(make_msg<fbs::StatusRequest>()))}) {
    CAPTURE(find_message(m.type())->name);
    const auto allowed = may_be_carried(m);
    REQUIRE(!allowed);
    CHECK(allowed.error().code == errc::permission);
    CHECK(allowed.error().message.starts_with(std::string(find_message(m.type())->name)));
    CHECK(audience_of(any_msg(carrying(m))) == audience::nodes);
  }
  CHECK(may_be_carried(make_msg<fbs::StatusRequest>()));
  CHECK(may_be_carried(make_msg<fbs::SetValue>()));
}
