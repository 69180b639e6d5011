// Messages to JSON and back, by the embedded schema.
//
// Reading is flatbuffers::Parser's. Writing is ours: FlatBuffers 2.0.8 prints doubles with 12 fixed
// decimals, so that a learning rate of 1e-13 reads back as 0, and prints nan and inf bare, which is
// no JSON.
#include <cmath>
#include <mutex>

#include <flatbuffers/idl.h>
#include <flatbuffers/reflection.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "messages/registry.hpp"
#include "messages/rejection.hpp"
#include "messages/schemas/troupe_bfbs_generated.h"

namespace troupe {

namespace {

// A payload of max_message_bytes is at most about four times as long in decimal.
constexpr size_t max_json_bytes = size_t{8} << 20;

class json_writer {
 public:
  std::string take() && { return std::move(out_); }

  void table(const flatbuffers::Table& t, const reflection::Object& type) {
    out_ += '{';
    bool first = true;
    for (const auto* field : fields_in_order(type)) {
      if (!has_value(t, *field)) continue;
      if (!first) out_ += ',';
      first = false;
      string(field->name()->string_view());
      out_ += ':';
      value(t, *field);
    }
    out_ += '}';
  }

 private:
  static bool has_value(const flatbuffers::Table& t, const reflection::Field& field) {
    const bool scalar = field.type()->base_type() <= reflection::Double && !field.optional();
    return scalar ? is_told(t, field) : t.GetAddressOf(field.offset()) != nullptr;
  }

  /// RG-4.
  static bool is_told(const flatbuffers::Table& t, const reflection::Field& field) {
    if (field.default_real() < 0)
      return flatbuffers::GetAnyFieldF(t, field) != field.default_real();
    return field.default_integer() >= 0 ||
           flatbuffers::GetAnyFieldI(t, field) != field.default_integer();
  }

  void string(std::string_view text) {
    out_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  void real(double x, bool single) {  // RG-2
    if (std::isnan(x)) {
      out_ += "\"nan\"";
    } else if (std::isinf(x)) {
      out_ += x > 0 ? "\"inf\"" : "\"-inf\"";
    } else if (single) {
      fmt::format_to(std::back_inserter(out_), "{}", static_cast<float>(x) + 0.0f);
    } else {
      // -0 + 0 is 0: FlatBuffers takes -0 for the default and does not store it; nor do we.
      fmt::format_to(std::back_inserter(out_), "{}", x + 0.0);
    }
  }

  void integer(int64_t x, reflection::BaseType base, const reflection::Type& type) {
    if (type.index() >= 0) {
      const auto* e = schema().enums()->Get(static_cast<flatbuffers::uoffset_t>(type.index()));
      for (const auto* v : *e->values())
        if (v->value() == x) return string(v->name()->string_view());
    }
    if (base == reflection::Bool)
      out_ += x != 0 ? "true" : "false";
    else if (base == reflection::ULong)
      fmt::format_to(std::back_inserter(out_), "{}", static_cast<uint64_t>(x));
    else
      fmt::format_to(std::back_inserter(out_), "{}", x);
  }

  void value(const flatbuffers::Table& t, const reflection::Field& field) {
    const auto& type = *field.type();
    auto base = type.base_type();
    if (base == reflection::Float || base == reflection::Double)
      real(flatbuffers::GetAnyFieldF(t, field), base == reflection::Float);
    else if (base <= reflection::ULong)
      integer(flatbuffers::GetAnyFieldI(t, field), base, type);
    else if (base == reflection::String)
      string(flatbuffers::GetFieldS(t, field)->string_view());
    else if (base == reflection::Obj)
      table(*flatbuffers::GetFieldT(t, field), table_of(type));
    else
      vector(*flatbuffers::GetFieldAnyV(t, field), type);
  }

  void vector(const flatbuffers::VectorOfAny& v, const reflection::Type& type) {
    auto element = type.element();
    out_ += '[';
    for (size_t i = 0; i < v.size(); ++i) {
      if (i > 0) out_ += ',';
      if (element == reflection::Float || element == reflection::Double)
        real(flatbuffers::GetAnyVectorElemF(&v, element, i), element == reflection::Float);
      else if (element <= reflection::ULong)
        integer(flatbuffers::GetAnyVectorElemI(&v, element, i), element, type);
      else if (element == reflection::String)
        string(
            flatbuffers::GetAnyVectorElemPointer<const flatbuffers::String>(&v, i)->string_view());
      else
        table(*flatbuffers::GetAnyVectorElemPointer<const flatbuffers::Table>(&v, i),
              table_of(type));
    }
    out_ += ']';
  }

  std::string out_;
};

// A Parser is one thread's at a time, and costs a millisecond to fill: there is one, behind a lock.
struct json_reader {
  std::mutex mutex;
  flatbuffers::Parser parser;
  bool usable;

  json_reader() : parser(options()) {
    usable = parser.Deserialize(fbs::AckBinarySchema::data(), fbs::AckBinarySchema::size());
  }

  static flatbuffers::IDLOptions options() {
    flatbuffers::IDLOptions out;
    out.strict_json = true;
    return out;
  }
};

error refuse_json(uint16_t type, error why) {
  note_rejection(reject::json, type, why.message);
  return why;
}

// The parser says "1: 7: error: text"; one line of JSON has no use for the line.
std::string where(std::string_view parser_error) {
  while (!parser_error.empty() && parser_error.back() == '\n') parser_error.remove_suffix(1);
  auto cut = parser_error.find(": error: ");
  if (cut == std::string_view::npos) return std::string(parser_error);
  auto position = parser_error.substr(0, cut);
  auto colon = position.rfind(": ");
  if (colon != std::string_view::npos) position.remove_prefix(colon + 2);
  return fmt::format("column {}: {}", position, parser_error.substr(cut + 9));
}

std::string field_names(const message_info& info) {
  std::string out;
  for (const auto& field : info.fields) {
    if (!out.empty()) out += ", ";
    out += field.name;
  }
  return out;
}

}  // namespace

std::string to_json(const any_msg& m) {
  const auto* info = m ? find_message(m.type()) : nullptr;
  if (info == nullptr || info->table == nullptr) return "null";
  json_writer writer;
  writer.table(*flatbuffers::GetAnyRoot(m.payload().data()), *info->table);
  return std::move(writer).take();
}

result<any_msg> from_json(std::string_view name, std::string_view json,
                          const message_context& context) {
  TROUPE_TRY(info, lookup_message(name));
  if (json.size() > max_json_bytes)
    return refuse_json(info->id, message_json_long(json.size(), max_json_bytes));
  if (json.find('\0') != std::string_view::npos)
    return refuse_json(info->id, message_json_nul(info->name));
  static json_reader reader;
  std::lock_guard lock(reader.mutex);
  auto& parser = reader.parser;
  if (!reader.usable || !parser.SetRootType(info->full_name.c_str()))
    return error{errc::bug, fmt::format("the embedded schema has no {}", info->name)};
  if (!parser.ParseJson(std::string(json).c_str()))
    return refuse_json(info->id,
                       message_json_wrong(info->name, where(parser.error_), field_names(*info)));
  std::span<const uint8_t> payload(parser.builder_.GetBufferPointer(), parser.builder_.GetSize());
  return detail::adopt(payload, info->id, context);
}

}  // namespace troupe
