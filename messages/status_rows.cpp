// A walk over the tables of messages by the embedded schema.
#include "messages/status_rows.hpp"

#include <array>
#include <cmath>

#include <flatbuffers/reflection.h>
#include <nlohmann/json.hpp>

#include "messages/message_rows.hpp"
#include "messages/registry.hpp"

namespace troupe {

namespace {

using reflection::BaseType;

/// Units that stand at the end of a name.
struct ending {
  std::string_view text, unit;
};
constexpr std::array endings{ending{"bytes_per_s", "bytes/s"},
                             ending{"_bytes", "bytes"},
                             ending{"_ms", "ms"},
                             ending{"_s", "s"},
                             ending{"_w", "W"},
                             ending{"_c", "C"},
                             ending{"_j", "J"},
                             ending{"_percent", "%"}};

std::string_view unit_of(const reflection::Field& field) {
  const auto* all = field.attributes();
  const auto* said = all != nullptr ? all->LookupByKey("unit") : nullptr;
  if (said != nullptr) return said->value()->string_view();
  for (const auto& e : endings)
    if (field.name()->string_view().ends_with(e.text)) return e.unit;
  return {};
}

status_value::table rows_of(const flatbuffers::Table& t, const reflection::Object& type);

status_value integer(BaseType base, int64_t x) {
  if (base == BaseType::Bool) return {x != 0};
  if (base == BaseType::ULong) return {static_cast<uint64_t>(x)};  // STA-3
  return {x};
}

std::string_view name_in(const reflection::Type& type, int64_t x) {
  const auto* e = schema().enums()->Get(static_cast<flatbuffers::uoffset_t>(type.index()));
  for (const auto* v : *e->values())
    if (v->value() == x) return v->name()->string_view();
  return {};
}

status_value scalar(const flatbuffers::Table& t, const reflection::Field& field) {
  const auto& type = *field.type();
  const auto base = type.base_type();
  if (base == BaseType::Float || base == BaseType::Double) {
    const auto x = flatbuffers::GetAnyFieldF(t, field);
    const bool known = field.default_real() == 0 || x != field.default_real();
    return known ? status_value{x} : status_value{};
  }
  const auto x = flatbuffers::GetAnyFieldI(t, field);
  if (type.index() >= 0) return {std::string(name_in(type, x))};
  const bool known = field.default_integer() == 0 || x != field.default_integer();
  return known ? integer(base, x) : status_value{};
}

status_value element(const flatbuffers::VectorOfAny& v, const reflection::Type& type, size_t i) {
  const auto base = type.element();
  if (base == BaseType::Obj)
    return {rows_of(*flatbuffers::GetAnyVectorElemPointer<const flatbuffers::Table>(&v, i),
                    table_of(type))};
  if (base == BaseType::String)
    return {flatbuffers::GetAnyVectorElemPointer<const flatbuffers::String>(&v, i)->str()};
  if (base == BaseType::Float || base == BaseType::Double)
    return {flatbuffers::GetAnyVectorElemF(&v, base, i)};
  return integer(base, flatbuffers::GetAnyVectorElemI(&v, base, i));
}

status_value::table rows_of(const flatbuffers::Table& t, const reflection::Object& type) {
  status_value::table out;
  for (const auto* field : fields_in_order(type)) {
    const auto base = field->type()->base_type();
    const bool there = t.GetAddressOf(field->offset()) != nullptr;
    status_row row{field->name()->string_view(), unit_of(*field), {}};
    if (base == BaseType::Vector) {  // one without elements is not packed
      status_value::list all;
      const auto* v = there ? flatbuffers::GetFieldAnyV(t, *field) : nullptr;
      for (size_t i = 0; v != nullptr && i < v->size(); ++i)
        all.push_back(element(*v, *field->type(), i));
      row.value = {std::move(all)};
    } else if (base == BaseType::String) {
      row.value = {there ? flatbuffers::GetFieldS(t, *field)->str() : std::string()};
    } else if (base == BaseType::Obj) {
      if (!there) continue;
      row.value = {rows_of(*flatbuffers::GetFieldT(t, *field), table_of(*field->type()))};
    } else {
      row.value = scalar(t, *field);
    }
    out.push_back(std::move(row));
  }
  return out;
}

nlohmann::ordered_json json_of(const status_value& value);

nlohmann::ordered_json json_of(const status_value::table& rows) {
  auto out = nlohmann::ordered_json::object();
  for (const auto& row : rows) out[std::string(row.name)] = json_of(row.value);
  return out;
}

nlohmann::ordered_json json_of(const status_value& value) {
  return std::visit(
      [](const auto& x) -> nlohmann::ordered_json {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<T, status_value::table>) {
          return json_of(x);
        } else if constexpr (std::is_same_v<T, status_value::list>) {
          auto out = nlohmann::ordered_json::array();
          for (const auto& one : x) out.push_back(json_of(one));
          return out;
        } else {
          return x;  // of a number that is not finite JSON has none: it becomes null
        }
      },
      value.what);
}

}  // namespace

std::vector<status_row> status_rows(const fbs::StatusValuesT& values) {
  static const auto& kinds = *schema().objects()->LookupByKey("troupe.fbs.StatusValues");
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fbs::StatusValues::Pack(builder, &values));
  auto all = rows_of(*flatbuffers::GetAnyRoot(builder.GetBufferPointer()), kinds);
  return all.empty() ? status_value::table{}
                     : std::get<status_value::table>(std::move(all.front().value.what));
}

std::vector<status_row> message_rows(const any_msg& m) {
  const auto* info = m ? find_message(m.type()) : nullptr;
  if (info == nullptr || info->table == nullptr) return {};
  return rows_of(*flatbuffers::GetAnyRoot(m.payload().data()), *info->table);
}

std::string to_json(const std::vector<status_row>& rows) {
  return json_of(rows).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace troupe
