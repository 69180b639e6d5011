// The registry: every message by name and by id, with its schema, its comments, and its way to and
// from JSON. What actors say to each other with them is messages/contract.hpp's.
//
// All of it comes from two sources: the list in message_list.hpp and the binary schema that is
// embedded in the program (messages/schemas/troupe.fbs). The same text so drives the console's
// completion and help, the decoding of traces, the reference page and the check that two nodes
// speak the same language.
//
// RG-1  Every listed message has a table of its name in the embedded schema
//       (tests/messages/registry_test.cpp), and every request of a call is listed (contract_test).
// RG-2  JSON is strict (RFC 8259); numbers keep every bit (shortest form that reads back the same);
//       what JSON cannot say is a string: "nan", "inf", "-inf". A negative zero is a zero.
// RG-4  A number whose default is below zero is left out of JSON where it has this default: it says
//       that nothing was measured, or that there is none (as the schema's comment says).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <flatbuffers/vector.h>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"
#include "messages/any_msg.hpp"

namespace reflection {
struct Field;
struct Object;
struct Schema;
struct Type;
}  // namespace reflection

namespace troupe {

/// What is known of one field of a table.
struct field_info {
  std::string_view name;
  std::string type;    ///< as in the schema: "ulong", "[string]", "OpKind"
  std::string doc;     ///< its sentence
  std::string nested;  ///< the table or enum it is made of, else empty
};

/// What is known of one message type.
struct message_info {
  uint16_t id = 0;
  std::string_view name;    ///< "RunStep"
  std::string_view domain;  ///< "train"
  std::string full_name;    ///< "troupe.fbs.RunStep"
  std::string doc;          ///< its sentence
  const reflection::Object* table = nullptr;
  std::vector<field_info> fields;  ///< in the order of the schema, but deprecated ones
};

/// All messages, in the order of the list.
std::span<const message_info> all_messages();

/// A message by its id; nullptr for an unknown one.
const message_info* find_message(uint16_t id);

/// A message by "RunStep" or "troupe.fbs.RunStep"; nullptr for an unknown one.
const message_info* find_message(std::string_view name);

/// As above; the error not_found hints at the nearest name.
result<const message_info*> lookup_message(std::string_view name);

/// The fields of any table of the schema, also of one that is only part of others; empty for an
/// unknown one.
std::vector<field_info> table_fields(std::string_view name);

/// The embedded schema.
const reflection::Schema& schema();

/// The fields of one of its tables in the order of their ids, for walks over foreign tables:
/// without those that are deprecated, which no verifier looks at.
const std::vector<const reflection::Field*>& fields_in_order(const reflection::Object& table);

/// The table that a field, or each element of a list, is of.
const reflection::Object& table_of(const reflection::Type& type);

/// The lines of a comment in the schema.
using schema_comment = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

/// A comment as one line of text; empty for none.
std::string sentence_of(const schema_comment* lines);

/// A number two nodes must share to understand each other: over names, types, ids and defaults of
/// all tables and enums, the ids of all messages and the header's layout. Comments, calls and the
/// schema compiler's version do not change it.
uint64_t schema_hash();

/// The part of schema_hash() that depends on a schema.
uint64_t structural_hash(const reflection::Schema& of);

/// A message as one line of JSON (RG-2): {"step":7,"lr":0.0003}. Bytes of strings that are not
/// UTF-8 become U+FFFD.
std::string to_json(const any_msg& m);

/// JSON that is no such message: the message, what is wrong and where, its fields.
inline constexpr error_kind<std::string_view, std::string_view, std::string_view>
    message_json_wrong{"message_json_wrong", errc::bad_data, "{0}: {1}", "fields of {0}: {2}"};
inline constexpr error_kind<std::string_view> message_json_nul{"message_json_nul", errc::bad_data,
                                                               "{}: a NUL byte in JSON"};
inline constexpr error_kind<size_t, size_t> message_json_long{"message_json_long", errc::bad_data,
                                                              "{} bytes of JSON, at most {}"};

/// A message from JSON; what is refused is counted.
result<any_msg> from_json(std::string_view name, std::string_view json,
                          const message_context& context = {});

}  // namespace troupe
