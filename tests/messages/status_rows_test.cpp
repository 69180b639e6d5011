// What actors say of themselves: every kind comes back whole as rows and as JSON, with units; no
// number loses a bit; what is not known is said so; what older programs wrote still opens.
#include "messages/status_rows.hpp"

#include <functional>
#include <limits>
#include <set>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "messages/contract.hpp"
#include "messages/msg.hpp"
#include "messages/registry.hpp"
#include "messages/schemas/control_generated.h"
#include "tests/messages/enum_names.hpp"

using namespace troupe;
using nlohmann::json;

namespace {

/// A value for every field, each integer as large as it can be.
json filled(const field_info& field);

json filled(std::string_view table) {
  json out = json::object();
  for (const auto& f : table_fields(table)) out[std::string(f.name)] = filled(f);
  return out;
}

json filled(const field_info& field) {
  const bool list = field.type.front() == '[';
  const auto type = list ? field.type.substr(1, field.type.size() - 2) : field.type;
  json one;
  if (!field.nested.empty()) {
    const auto names = enum_names(field.nested);
    one = names.empty() ? filled(field.nested) : json(names.back());
  } else if (type == "string") {
    one = "text";
  } else if (type == "bool") {
    one = true;
  } else if (type == "double") {
    one = 0.1;
  } else if (type == "float") {
    one = static_cast<double>(0.1F);
  } else if (type == "ushort") {
    one = std::numeric_limits<uint16_t>::max();
  } else if (type == "short") {
    one = std::numeric_limits<int16_t>::max();
  } else if (type == "uint") {
    one = std::numeric_limits<uint32_t>::max();
  } else if (type == "long") {
    one = std::numeric_limits<int64_t>::max();
  } else {
    REQUIRE_MESSAGE(type == "ulong", type);
    one = std::numeric_limits<uint64_t>::max();
  }
  return list ? json::array({one, one}) : one;
}

/// The values of one kind, by way of the wire.
fbs::StatusValuesT of_kind(std::string_view kind, const json& values) {
  const auto made = from_json("Status", json{{"values", {{kind, values}}}}.dump());
  REQUIRE(made);
  const auto sent = decode(encode(*made), made->type());
  REQUIRE(sent);
  return *cast<fbs::Status>(*sent).unpack().values;
}

/// The kind that a Status shows where an actor has set values by their type.
template <class T>
std::string kind_shown(std::unique_ptr<T> fbs::StatusValuesT::*) {
  const auto said = make_msg<fbs::Status>({}, [](fbs::StatusT& s) {
    s.values = std::make_unique<fbs::StatusValuesT>();
    values_of<T>(*s.values);
  });
  std::string shown;
  const auto kinds = json::parse(to_json(said))["values"];
  for (const auto& [kind, values] : kinds.items())
    if (!values.is_null()) shown += kind;
  return shown;
}

bool only_numbers_something(std::string_view name) {
  return name.ends_with("step") || name.ends_with("rank") || name.ends_with("number") ||
         name.ends_with("_chunk") || name == "saving" || name == "rule" || name == "promised" ||
         name.starts_with("epoch");
}

void check_units(const status_value::table& rows) {
  for (const auto& row : rows) {
    CAPTURE(row.name);
    const std::function<void(const status_value&)> look = [&](const status_value& v) {
      if (const auto* inner = std::get_if<status_value::table>(&v.what)) return check_units(*inner);
      if (const auto* list = std::get_if<status_value::list>(&v.what)) {
        for (const auto& one : *list) look(one);
        return;
      }
      const bool number = v.what.index() >= 2 && v.what.index() <= 4;
      if (number) CHECK((row.unit != "") != only_numbers_something(row.name));
    };
    look(row.value);
  }
}

const status_row* find(const std::vector<status_row>& rows, std::string_view name) {
  for (const auto& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace

TEST_CASE("STA-1: every kind of actor has a table of values, under its name") {
  std::set<std::string> kinds;
  for (const auto& f : table_fields("StatusValues")) kinds.insert(std::string(f.name));
  std::set<std::string> shown;
  std::apply([&](auto... of) { (shown.insert(kind_shown(of)), ...); }, detail::status_kinds);
  CHECK(shown.size() == kinds.size());
  for (const auto& kind : kinds) {
    CAPTURE(kind);
    CHECK(shown.contains(kind));
  }
  for (const auto& service : all_services()) {
    if (service.name == "Component" || service.name == "Viewer")
      continue;  // no actors with a stats
    CAPTURE(service.kind);
    CHECK(kinds.erase(service.kind) == 1);
    CHECK_FALSE(table_fields(service.name + "Status").empty());
  }
  CHECK(kinds == std::set<std::string>{"certificates"});  // understands nothing but Component
}

TEST_CASE("STA-2, STA-3: each kind comes back whole: every value with its unit, every bit of it") {
  for (const auto& kind : table_fields("StatusValues")) {
    CAPTURE(kind.name);
    const auto wanted = filled(kind.nested);
    const auto rows = status_rows(of_kind(kind.name, wanted));
    CHECK(rows.size() == wanted.size());
    CHECK(json::parse(to_json(rows)).dump() == wanted.dump());  // equal numbers may differ in kind
    check_units(rows);
  }
}

TEST_CASE("status: units stand in the row, from the name or beside the field") {
  fbs::StatusValuesT v;
  values_of<fbs::RunStatusT>(v).step = 7;
  const auto run = status_rows(v);
  for (const auto& [name, unit] : {std::pair("checkpoint_wait_ms", "ms"),
                                   {"steps", "steps"},
                                   {"step", ""},
                                   {"loss", "nats"}}) {
    REQUIRE(find(run, name) != nullptr);
    CHECK(find(run, name)->unit == unit);
  }
  CHECK(std::get<uint64_t>(find(run, "step")->value.what) == 7);
  fbs::StatusValuesT copies;
  values_of<fbs::ReplicatorStatusT>(copies);
  CHECK(find(status_rows(copies), "bytes_per_s")->unit == "bytes/s");
  CHECK(find(status_rows(copies), "total_bytes")->unit == "bytes");
  fbs::StatusValuesT meter;
  values_of<fbs::MeterStatusT>(meter).power_w = 812.5;
  CHECK(find(status_rows(meter), "power_w")->unit == "W");
  CHECK(find(status_rows(meter), "temperature_c")->unit == "C");
}

TEST_CASE("status: what is not known is null, and lists without elements are lists") {
  fbs::StatusValuesT v;
  values_of<fbs::ReplicatorStatusT>(v).durable_step = 4;
  auto j = json::parse(to_json(status_rows(v)));
  CHECK(j["step"].is_null());
  CHECK(j["durable_step"] == 4);
  CHECK(j["total_bytes"] == 0);
  fbs::StatusValuesT run;
  values_of<fbs::RunStatusT>(run).loss = std::numeric_limits<double>::quiet_NaN();
  j = json::parse(to_json(status_rows(run)));
  CHECK(j["loss"].is_null());
  CHECK(j["saving"] == json::array());
  fbs::StatusValuesT meter;
  values_of<fbs::MeterStatusT>(meter).power_w = 3;
  j = json::parse(to_json(status_rows(meter)));
  CHECK(j["power_w"] == 3.0);
  CHECK(j["temperature_c"].is_null());
  CHECK(status_rows({}).empty());
  CHECK(to_json(status_rows({})) == "{}");
}

TEST_CASE("status: a text that is not UTF-8 still becomes valid JSON") {
  fbs::StatusValuesT v;
  values_of<fbs::GatewayStatusT>(v).audit_log = "\xff\xfe \"quoted\"";
  CHECK(
      json::parse(to_json(status_rows(v)))["audit_log"].get<std::string>().ends_with("\"quoted\""));
}

TEST_CASE("status: what programs wrote whose details were JSON text still opens") {
  const auto made = try_build_msg<fbs::Status>({}, [](message_builder& b) {
    const auto actor = b.CreateString("run"), state = b.CreateString("training"),
               detail = b.CreateString(R"({"step":7})");
    const auto start = b.StartTable();
    b.AddOffset(4, actor);
    b.AddOffset(6, state);
    b.AddOffset(8, detail);
    b.AddElement<int64_t>(10, 5, 0);
    return flatbuffers::Offset<fbs::Status>(b.EndTable(start));
  });
  REQUIRE(made);
  const auto back = decode(encode(*made), made->type());
  REQUIRE(back);
  const auto s = cast<fbs::Status>(*back).unpack();
  CHECK(s.actor == "run");
  CHECK(s.state == "training");
  CHECK(s.since_ns == 5);
  CHECK_FALSE(s.values);
  CHECK(json::parse(to_json(*back))["since_ns"] == 5);
}
