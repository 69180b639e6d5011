// The services of the schemas and the typed handles say the same; every message has an audience,
// and one that carries another has that of what it carries.
#include "messages/contract.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <flatbuffers/reflection.h>
#include <caf/typed_actor.hpp>

#include "io/config/properties.hpp"
#include "messages/actors.hpp"
#include "messages/registry.hpp"
#include "tests/errors.hpp"

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
    {"peer", "a name, looked for among those of the members"},
    {"nodes", "names, looked for among those of the members"},
    {"actor", "a pattern over names"},
    {"child", "a name, looked for among those of a power budget"},
    {"budget", "a name, compared with that of the power budget"},
    {"device", "a pattern over names"},
    {"message", "a name out of a list"},
    {"level", "a word out of a list"},
    {"who", "words, not believed"},
    {"user", "words, not believed"},
    {"kind", "a name out of a list"},
    {"name", "of a field, looked for among those of a machine's profile"},
    {"word", "of a machine's profile, for a model to compare"},
    {"gpu_ids", "a sum, compared with those of other machines"},
    {"host", "a name, compared with those of other nodes"}};

/// The messages that have tables within, and which; of those each text must be harmless, too.
const std::map<std::string_view, std::set<std::string_view>> with_tables{{"Predict", {"profile"}}};

/// Texts and lists of them in a table that a person fills in, however deep.
void check_texts_within(const std::string& table, std::set<std::string>& seen) {
  if (!seen.insert(table).second) return;
  CAPTURE(table);
  for (const auto& f : table_fields(table)) {
    CAPTURE(f.name);
    if (f.type.find("string") != std::string::npos) CHECK(harmless.contains(f.name));
    if (!f.nested.empty()) check_texts_within(f.nested, seen);
  }
}

}  // namespace

namespace {

/// A call as a handle has it: what the compiler holds handlers to.
struct typed_call {
  uint16_t request = 0;  ///< 0: no message of the language, e.g. a tick
  uint16_t response = 0;
  size_t handles = 0, answer_handles = 0;
  bool handle_list = false, answer_handle_list = false;
};

template <class T>
void add_element(uint16_t& id, size_t& handles, bool& list) {
  if constexpr (std::is_base_of_v<any_msg, T>) id = T::type_id;
  if constexpr (std::is_same_v<T, caf::strong_actor_ptr>) ++handles;
  if constexpr (std::is_same_v<T, std::vector<caf::strong_actor_ptr>>) list = true;
}

template <class Signature>
struct signature;
template <class... In, class... Out>
struct signature<caf::typed_mpi<caf::detail::type_list<In...>, caf::output_tuple<Out...>>> {
  static typed_call read() {
    typed_call c;
    (add_element<std::decay_t<In>>(c.request, c.handles, c.handle_list), ...);
    (add_element<std::decay_t<Out>>(c.response, c.answer_handles, c.answer_handle_list), ...);
    return c;
  }
};

template <class List>
struct signatures_in;
template <class... Signatures>
struct signatures_in<caf::detail::type_list<Signatures...>> {
  static std::vector<typed_call> read() { return {signature<Signatures>::read()...}; }
};

struct typed_handle {
  std::string_view name, service;
  std::vector<typed_call> calls;
};

std::vector<typed_handle> all_handles() {
  return {
#define TROUPE_HANDLE(handle, service) \
  {#handle, service, signatures_in<handle::signatures>::read()},
      TROUPE_ACTORS(TROUPE_HANDLE)
#undef TROUPE_HANDLE
  };
}

/// "stage, stage" is two of them; "loader, stage..." is a list of both.
void check_handles(const std::vector<std::string>& said, size_t count, bool list) {
  const bool says_list = !said.empty() && said.back().ends_with("...");
  CHECK(says_list == list);
  if (!list) CHECK(said.size() == count);
  if (list) CHECK(count == 0);
}

}  // namespace

TEST_CASE("CON-1: every service is the contract of one handle, and the other way round") {
  std::set<std::string_view> services;
  for (const auto& h : all_handles()) {
    CAPTURE(h.name);
    CHECK(services.insert(h.service).second);
  }
  for (const auto& s : all_services()) {
    CAPTURE(s.name);
    CHECK((services.contains(s.name) || s.name == "Component"));
    CHECK(find_service(s.kind) == &s);
    CHECK(s.doc != "");
  }
  CHECK(services.size() + 1 == all_services().size());
  CHECK(service_of<caf::typed_actor<tell<fbs::Pause>>> == "");
  CHECK(find_service("nobody") == nullptr);
}

TEST_CASE("CON-1: what a handle takes and answers is what its service says") {
  for (const auto& h : all_handles()) {
    CAPTURE(h.name);
    std::set<uint16_t> taken;
    for (const auto& c : h.calls) {
      if (c.request == 0) continue;  // timers, from itself only
      CAPTURE(find_message(c.request)->name);
      taken.insert(c.request);
      const auto* said = find_call(h.service, c.request);
      REQUIRE(said != nullptr);
      CHECK((said->response == nullptr ? 0 : said->response->id) == c.response);
      check_handles(said->handles, c.handles, c.handle_list);
      check_handles(said->answer_handles, c.answer_handles, c.answer_handle_list);
    }
    for (const auto& s : all_services()) {
      if (s.name != h.service && (s.name != "Component" || h.name == "viewer_actor")) continue;
      for (const auto& c : s.calls) {
        CAPTURE(c.name);
        CHECK(taken.contains(c.request->id));
      }
    }
  }
}

TEST_CASE("CON-5: what is answered has a timeout, which a key of the configuration may replace") {
  size_t calls = 0;
  for (const auto& s : all_services())
    for (const auto& c : s.calls) {
      CAPTURE(s.name);
      CAPTURE(c.name);
      ++calls;
      REQUIRE(c.request != nullptr);
      CHECK(c.doc != "");
      CHECK((c.timeout_ms > 0) == (c.response != nullptr));
      if (c.response == nullptr) CHECK((c.timeout_key < 0 && !c.high_priority));
      CHECK(find_call(s.name, c.request->id) == &c);
    }
  CHECK(calls > 60);
  for (const auto& key : timeout_keys()) {
    CAPTURE(key);
    const auto* property = config::find_property(key);
    REQUIRE(property != nullptr);
    CHECK(property->kind == config::value_kind::integer);
    CHECK((key.ends_with("_s") || key.ends_with("_ms")));
  }
  CHECK(timeout_keys().size() == 7);
}

TEST_CASE("CON-5: without a job a call has the timeout that its key has by default") {
  const config::job usual;
  for (const auto& s : all_services())
    for (const auto& c : s.calls) {
      if (c.timeout_key < 0) continue;
      const auto& key = timeout_keys()[static_cast<size_t>(c.timeout_key)];
      CAPTURE(key);
      CAPTURE(c.name);
      const auto number = std::get<int64_t>(config::get(*config::find_property(key), usual));
      CHECK(c.timeout_ms == number * (key.ends_with("_s") ? 1000 : 1));
    }
}

TEST_CASE("contract: every attribute of the schemas has a word that is known") {
  const std::map<std::string_view, std::set<std::string_view>> words{
      {"from", {"reader", "operator", "node", "power"}},
      {"priority", {"high"}},
      {"epoch", {"any", "if_given", "not_older"}},
      {"on_death", {"without", "node_lost", "run_ended"}}};
  const auto check = [&](const reflection::KeyValue& a) {
    CAPTURE(a.key()->str());
    const auto known = words.find(a.key()->string_view());
    if (known != words.end()) CHECK(known->second.contains(a.value()->string_view()));
  };
  for (const auto* s : *schema().services()) {
    CAPTURE(s->name()->str());
    if (s->attributes() != nullptr)
      for (const auto* a : *s->attributes()) check(*a);
    CHECK((s->attributes() != nullptr) != s->name()->string_view().ends_with(".Component"));
    for (const auto* call : *s->calls()) {
      CAPTURE(call->name()->str());
      CHECK(call->attributes()->LookupByKey("from") != nullptr);
      for (const auto* a : *call->attributes()) check(*a);
    }
  }
}

TEST_CASE("CON-2: all calls that take a message say the same of who may send it") {
  for (const auto& s : all_services())
    for (const auto& c : s.calls) {
      CAPTURE(s.name);
      CAPTURE(c.name);
      CHECK(audience_of(c.request->id) == c.from);
    }
  CHECK(audience_of(message_traits<fbs::Ack>::id) == audience::node);
  CHECK(audience_of(message_traits<fbs::RunStep>::id) == audience::node);
  CHECK(audience_of(message_traits<fbs::StopTraining>::id) == audience::operator_);
  CHECK(audience_of(message_traits<fbs::TraceMore>::id) == audience::reader);
  CHECK(audience_of(uint16_t{0xffff}) == audience::node);
}

TEST_CASE("CON-6: what jobs say to their power budget is on no line with what persons say") {
  CHECK(stricter_of(audience::reader, audience::operator_) == audience::operator_);
  CHECK(stricter_of(audience::node, audience::reader) == audience::node);
  CHECK(stricter_of(audience::power, audience::power) == audience::power);
  for (const auto other : {audience::reader, audience::operator_, audience::node}) {
    CHECK(stricter_of(audience::power, other) == audience::node);
    CHECK(stricter_of(other, audience::power) == audience::node);
  }
  const auto report = message_traits<fbs::PowerReport>::id,
             grant = message_traits<fbs::PowerGrant>::id;
  CHECK(audience_of(report) == audience::power);
  CHECK_FALSE(is_question(report));
  CHECK(to_string(audience::power) == "power");
  CHECK(audience_of(grant) == audience::node);
  CHECK(answers_power(grant));
  for (const auto& m : all_messages()) {
    CAPTURE(m.name);
    CHECK(answers_power(m.id) == (m.id == grant));
    CHECK((audience_of(m.id) == audience::power) == (m.id == report));
  }
}

TEST_CASE("contract: what is answered by an Ack changes something, and is for no looker") {
  for (const auto& s : all_services())
    for (const auto& c : s.calls)
      if (c.response != nullptr && c.response->name == "Ack") {
        CAPTURE(c.request->name);
        CHECK(c.from != audience::reader);
      }
}

TEST_CASE("CON-3: what only asks is answered, changes nothing, and brings nobody a handle") {
  size_t questions = 0;
  for (const auto& s : all_services())
    for (const auto& c : s.calls) {
      if (!is_question(c.request->id)) continue;
      CAPTURE(c.request->name);
      ++questions;
      CHECK(c.from == audience::reader);
      REQUIRE(c.response != nullptr);
      CHECK(c.response->name != "Ack");
      CHECK(c.handles.empty());
      CHECK(c.answer_handles.empty());
    }
  CHECK(questions >= 5);
  CHECK_FALSE(is_question(uint16_t{0xffff}));
}

TEST_CASE("contract: a message that carries another") {
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::StatusRequest>()))) == audience::reader);
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::FindingsRequest>()))) == audience::reader);
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::SparesRequest>()))) == audience::reader);
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::TraceStart>()))) == audience::operator_);
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::RunCheckup>()))) == audience::operator_);
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::Pause>()))) == audience::operator_);
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::Shutdown>()))) == audience::node);
  CHECK(audience_of(any_msg(carrying(make_msg<fbs::TraceStop>()))) == audience::operator_);
  CHECK(audience_of(any_msg(carrying(carrying(make_msg<fbs::Pause>())))) == audience::node);
  CHECK(audience_of(any_msg(make_msg<fbs::CallActor>())) == audience::node);
  CHECK(carried_by(make_msg<fbs::Pause>()).type() == message_traits<fbs::Pause>::id);
}

TEST_CASE("contract: no text of a person's message names a file (CON-4)") {
  for (const auto& m : all_messages()) {
    // No person sends what nodes say to each other, nor what jobs say to their power budget.
    if (const auto from = audience_of(m.id); from == audience::node || from == audience::power)
      continue;
    for (const auto& f : m.fields) {
      CAPTURE(m.name);
      CAPTURE(f.name);
      if (f.type == "string") CHECK(harmless.contains(f.name));
      // Nothing nested that is not looked into, so no text that nobody sees; CallActor is judged by
      // what it carries.
      const auto may_have = with_tables.find(m.name);
      if (may_have != with_tables.end() && may_have->second.contains(f.name)) {
        std::set<std::string> seen;
        check_texts_within(f.nested, seen);
        CHECK(seen.size() >= 2);
        continue;
      }
      CHECK((f.nested.empty() && (f.type.front() != '[' || m.name == "CallActor")));
      CHECK(f.doc.find("directory") == std::string::npos);
      CHECK(f.doc.find("folder") == std::string::npos);
    }
  }
}

TEST_CASE("contract: nobody has a node's message sent, whoever he is (CON-4)") {
  for (const any_msg& m :
       {any_msg(make_msg<fbs::ExportModel>()), any_msg(make_msg<fbs::CommitCheckpoint>()),
        any_msg(make_msg<fbs::AbandonCheckpoint>()), any_msg(make_msg<fbs::OpenFolder>()),
        any_msg(make_msg<fbs::BuildStage>()), any_msg(make_msg<fbs::OpenLoader>()),
        any_msg(make_msg<fbs::AttachLoader>()), any_msg(make_msg<fbs::SaveCheckpoint>()),
        any_msg(make_msg<fbs::LoadCheckpoint>()), any_msg(make_msg<fbs::CopyCheckpoint>()),
        any_msg(make_msg<fbs::RunEnded>()), any_msg(make_msg<fbs::PowerReport>()),
        any_msg(carrying(make_msg<fbs::StatusRequest>()))}) {
    CAPTURE(find_message(m.type())->name);
    const auto allowed = may_be_carried(m);
    REQUIRE(!allowed);
    CHECK(allowed.error().code == errc::permission);
    CHECK(mentions(allowed.error(), find_message(m.type())->name));
    CHECK(audience_of(any_msg(carrying(m))) == audience::node);
  }
  CHECK(may_be_carried(make_msg<fbs::StatusRequest>()));
  CHECK(may_be_carried(make_msg<fbs::SetValue>()));
}
