// The registry's tables, built once from the list of messages and the embedded schema.
#include "messages/registry.hpp"

#include <algorithm>
#include <unordered_map>

#include <flatbuffers/reflection.h>
#include <fmt/format.h>

#include "io/base/text.hpp"
#include "messages/message_list.hpp"
#include "messages/schemas/troupe_bfbs_generated.h"

namespace troupe {

namespace {

constexpr std::string_view name_space = "troupe.fbs.";

std::string_view local_name(std::string_view full) {
  return full.starts_with(name_space) ? full.substr(name_space.size()) : full;
}

std::string full_name(std::string_view name) {
  return name.starts_with(name_space) ? std::string(name) : fmt::format("{}{}", name_space, name);
}

const char* scalar_name(reflection::BaseType type) {
  static constexpr const char* names[] = {"none",  "utype",  "bool",   "byte",  "ubyte",
                                          "short", "ushort", "int",    "uint",  "long",
                                          "ulong", "float",  "double", "string"};
  return type <= reflection::String ? names[type] : "?";
}

// The table or enum behind a type or behind the elements of a vector, else "".
std::string_view nested_name(const reflection::Type& type) {
  if (type.index() < 0) return {};
  auto base = type.base_type() == reflection::Vector ? type.element() : type.base_type();
  auto index = static_cast<flatbuffers::uoffset_t>(type.index());
  const auto* name = base == reflection::Obj ? schema().objects()->Get(index)->name()
                                             : schema().enums()->Get(index)->name();
  return local_name({name->c_str(), name->size()});
}

field_info describe(const reflection::Field& field) {
  field_info out;
  const auto& type = *field.type();
  out.name = field.name()->string_view();
  out.doc = sentence_of(field.documentation());
  out.nested = nested_name(type);
  bool list = type.base_type() == reflection::Vector;
  auto base = list ? type.element() : type.base_type();
  auto name = out.nested.empty() ? std::string(scalar_name(base)) : out.nested;
  out.type = list ? fmt::format("[{}]", name) : name;
  return out;
}

std::vector<field_info> fields_of(const reflection::Object& table) {
  std::vector<field_info> out;
  for (const auto* field : fields_in_order(table)) out.push_back(describe(*field));
  return out;
}

std::vector<message_info> make_messages() {
  std::vector<message_info> out;
#define TROUPE_INFO(domain_name, table_name, number) \
  {                                                  \
    message_info info;                               \
    info.id = number;                                \
    info.name = #table_name;                         \
    info.domain = #domain_name;                      \
    info.full_name = full_name(#table_name);         \
    out.push_back(std::move(info));                  \
  }
  TROUPE_MESSAGES(TROUPE_INFO)
#undef TROUPE_INFO
  for (auto& info : out) {
    info.table = schema().objects()->LookupByKey(info.full_name.c_str());
    if (info.table == nullptr) continue;  // RG-1: a test's business
    info.doc = sentence_of(info.table->documentation());
    info.fields = fields_of(*info.table);
  }
  return out;
}

}  // namespace

const reflection::Schema& schema() {
  static const auto& embedded = *reflection::GetSchema(fbs::AckBinarySchema::data());
  return embedded;
}

const std::vector<const reflection::Field*>& fields_in_order(const reflection::Object& table) {
  static const auto all = [] {
    std::unordered_map<const reflection::Object*, std::vector<const reflection::Field*>> out;
    for (const auto* object : *schema().objects()) {
      auto& list = out[object];  // the binary schema has them by name
      for (const auto* field : *object->fields())
        if (!field->deprecated()) list.push_back(field);
      std::sort(list.begin(), list.end(),
                [](const auto* a, const auto* b) { return a->id() < b->id(); });
    }
    return out;
  }();
  return all.at(&table);
}

const reflection::Object& table_of(const reflection::Type& type) {
  return *schema().objects()->Get(static_cast<flatbuffers::uoffset_t>(type.index()));
}

std::string sentence_of(const schema_comment* lines) {
  std::string out;
  if (lines == nullptr) return out;
  for (const auto* line : *lines) {
    std::string_view text(line->c_str(), line->size());
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    if (!out.empty()) out += ' ';
    out += text;
  }
  return out;
}

std::span<const message_info> all_messages() {
  static const auto all = make_messages();
  return all;
}

const message_info* find_message(uint16_t id) {
  static const auto by_id = [] {
    std::unordered_map<uint16_t, const message_info*> out;
    for (const auto& info : all_messages()) out.emplace(info.id, &info);
    return out;
  }();
  auto found = by_id.find(id);
  return found == by_id.end() ? nullptr : found->second;
}

const message_info* find_message(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const message_info*> out;
    for (const auto& info : all_messages()) out.emplace(info.name, &info);
    return out;
  }();
  auto found = by_name.find(local_name(name));
  return found == by_name.end() ? nullptr : found->second;
}

result<const message_info*> lookup_message(std::string_view name) {
  if (const auto* found = find_message(name)) return found;
  const auto& all = all_messages();
  auto nearest = std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return edit_distance(a.name, name) < edit_distance(b.name, name);
  });
  return error{errc::not_found, fmt::format("no message is named \"{}\"", name.substr(0, 80)),
               fmt::format("did you mean {}?", nearest->name)};
}

std::vector<field_info> table_fields(std::string_view name) {
  const auto* table = schema().objects()->LookupByKey(full_name(name).c_str());
  return table == nullptr ? std::vector<field_info>{} : fields_of(*table);
}

}  // namespace troupe
