// The registry agrees with the list and the schemas: names, ids, comments, calls, CAF's types; and
// the schema hash notices what matters and nothing else.
#include "messages/registry.hpp"

#include <set>

#include <doctest/doctest.h>
#include <flatbuffers/idl.h>
#include <flatbuffers/reflection.h>
#include <caf/message.hpp>

#include "messages/receive.hpp"
#include "messages/schemas/troupe_generated.h"
#include "messages/type_ids.hpp"

using namespace troupe;

TEST_CASE("RG-1: every message is a table of the schema, by name and by id") {
  std::set<uint16_t> ids;
  for (const auto& info : all_messages()) {
    CAPTURE(info.name);
    CHECK(info.table != nullptr);
    CHECK(ids.insert(info.id).second);
    CHECK(info.id > 0xff);
    CHECK(find_message(info.id) == &info);
    CHECK(find_message(info.name) == &info);
    CHECK(find_message(info.full_name) == &info);
    CHECK(detail::known_type(info.id));
    auto file = info.table->declaration_file()->string_view();
    CHECK(file == "//messages/schemas/" + std::string(info.domain) + ".fbs");
  }
  CHECK(find_message(uint16_t{0}) == nullptr);
  CHECK(find_message("Nothing") == nullptr);
}

TEST_CASE("every table, field and enum value of the schema has its sentence") {
  for (const auto* table : *schema().objects()) {
    CAPTURE(table->name()->str());
    CHECK(table->documentation() != nullptr);
    for (const auto* field : *table->fields()) {
      CAPTURE(field->name()->str());
      CHECK(field->documentation() != nullptr);
    }
  }
  for (const auto* e : *schema().enums())
    for (const auto* value : *e->values()) {
      CAPTURE(value->name()->str());
      CHECK(value->documentation() != nullptr);
    }
}

TEST_CASE("the schema keeps to the kinds of types that JSON and the hash handle") {
  for (const auto* table : *schema().objects()) {
    CAPTURE(table->name()->str());
    CHECK_FALSE(table->is_struct());
    for (const auto* field : *table->fields()) {
      CHECK(field->type()->base_type() != reflection::Union);
      CHECK(field->type()->base_type() != reflection::Array);
      bool scalar = field->type()->base_type() <= reflection::Double;
      CHECK_FALSE((scalar && field->optional()));
    }
  }
  for (const auto* e : *schema().enums()) CHECK_FALSE(e->is_union());
}

TEST_CASE("fields are described in the order of the schema") {
  const auto* info = find_message("Failure");
  REQUIRE(info != nullptr);
  REQUIRE(info->fields.size() == 4);
  CHECK(info->fields[0].name == "code");
  CHECK(info->fields[0].type == "ubyte");
  CHECK(info->fields[1].name == "message");
  CHECK(info->fields[1].type == "string");
  CHECK(info->fields[2].doc == "What to do about it, may be empty.");
  CHECK(info->doc.find("The answer of a call that failed") == 0);
  bool found = false;
  for (const auto& field : table_fields("Assign"))
    if (field.name == "ranks") {
      found = true;
      CHECK(field.type == "[RankAssignment]");
      CHECK(field.nested == "RankAssignment");
    }
  CHECK(found);
  CHECK(table_fields("RankAssignment").size() == 1);  // what is deprecated is no field
  CHECK(table_fields("Nothing").empty());
}

TEST_CASE("an unknown name is answered with the nearest one") {
  auto found = lookup_message("RunStpe");
  REQUIRE_FALSE(found);
  CHECK(found.error().code == errc::not_found);
  CHECK(found.error().hint == "did you mean RunStep?");
  REQUIRE(lookup_message("RunStep"));
}

TEST_CASE("every message type goes into CAF content and out again, sharing its block") {
  for (const auto& info : all_messages()) {
    CAPTURE(info.name);
    auto m = from_json(info.name, "{}");
    REQUIRE(m);
    auto content = wrap(*m);
    REQUIRE(content.size() == 1);
    auto back = unwrap(content);
    REQUIRE(back);
    CHECK(back.type() == info.id);
    CHECK(back.payload().data() == m->payload().data());
  }
  auto pause = wrap(*from_json("Pause", "{}"));
  CHECK(pause.match_elements<msg<fbs::Pause>>());
  CHECK_FALSE(unwrap(caf::make_message(42)));
  CHECK_FALSE(unwrap(caf::message{}));
  CHECK(wrap(any_msg{}).empty());
}

namespace {

uint64_t hash_of(const char* text) {
  flatbuffers::IDLOptions options;
  options.binary_schema_comments = true;
  flatbuffers::Parser parser(options);
  REQUIRE(parser.Parse(text));
  parser.Serialize();
  return structural_hash(*reflection::GetSchema(parser.builder_.GetBufferPointer()));
}

}  // namespace

TEST_CASE("the schema hash changes with the structure and only with it") {
  auto base = hash_of("enum E:ubyte{a,b} table T{x:int; y:[T]; z:E;} table U{s:string;}");
  struct row {
    const char* what;
    bool same;
    const char* text;
  };
  for (const auto& r : {
           row{"comments", true,
               "/// e\nenum E:ubyte{\n/// a\na,b}\n/// t\ntable T{\n/// x\nx:int; y:[T]; z:E;}\n"
               "table U{s:string;}"},
           row{"order of tables", true,
               "enum E:ubyte{a,b} table U{s:string;} table T{x:int; y:[T]; z:E;}"},
           row{"services", true,
               "enum E:ubyte{a,b} table T{x:int; y:[T]; z:E;} table U{s:string;} "
               "rpc_service S{F(T):U;}"},
           row{"a type", false,
               "enum E:ubyte{a,b} table T{x:uint; y:[T]; z:E;} table U{s:string;}"},
           row{"a name", false, "enum E:ubyte{a,b} table T{w:int; y:[T]; z:E;} table U{s:string;}"},
           row{"a default", false,
               "enum E:ubyte{a,b} table T{x:int=1; y:[T]; z:E;} table U{s:string;}"},
           row{"an element", false,
               "enum E:ubyte{a,b} table T{x:int; y:[U]; z:E;} table U{s:string;}"},
           row{"order of fields", false,
               "enum E:ubyte{a,b} table T{y:[T]; x:int; z:E;} table U{s:string;}"},
           row{"a new field", false,
               "enum E:ubyte{a,b} table T{x:int; y:[T]; z:E; n:int;} table U{s:string;}"},
           row{"an enum value", false,
               "enum E:ubyte{a,b,c} table T{x:int; y:[T]; z:E;} table U{s:string;}"},
           row{"enum order", false,
               "enum E:ubyte{b,a} table T{x:int; y:[T]; z:E;} table U{s:string;}"},
       }) {
    INFO(r.what);
    CHECK((hash_of(r.text) == base) == r.same);
  }
  CHECK(schema_hash() != 0);
  CHECK(schema_hash() == schema_hash());
}
