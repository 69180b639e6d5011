// One number for "do we speak the same language": FNV-1a over a canonical text of the schemas'
// structure.
//
// Not over the embedded bytes: those also hold comments and change with the schema compiler's
// version, and neither keeps two nodes from understanding each other.
#include <algorithm>
#include <string>
#include <vector>

#include <flatbuffers/reflection.h>
#include <fmt/format.h>

#include "messages/message_list.hpp"
#include "messages/registry.hpp"

namespace troupe {

namespace {

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

// Names instead of indices: an index changes when an unrelated table is added.
std::string type_text(const reflection::Schema& of, const reflection::Type& type) {
  auto text = fmt::format("{}/{}/{}", static_cast<int>(type.base_type()),
                          static_cast<int>(type.element()), type.fixed_length());
  if (type.index() < 0) return text;
  auto index = static_cast<flatbuffers::uoffset_t>(type.index());
  auto base = type.base_type() == reflection::Vector || type.base_type() == reflection::Array
                  ? type.element()
                  : type.base_type();
  const auto* name =
      base == reflection::Obj ? of.objects()->Get(index)->name() : of.enums()->Get(index)->name();
  return text + "/" + name->str();
}

std::string table_text(const reflection::Schema& of, const reflection::Object& table) {
  std::vector<std::string> lines;
  for (const auto* f : *table.fields())
    lines.push_back(fmt::format("{:05} {} {} {} {} {}{}{}\n", f->id(), f->name()->string_view(),
                                type_text(of, *f->type()), f->default_integer(), f->default_real(),
                                f->deprecated(), f->required(), f->optional()));
  std::sort(lines.begin(), lines.end());
  std::string out = fmt::format("table {} {}\n", table.name()->string_view(), table.is_struct());
  for (const auto& line : lines) out += line;
  return out;
}

std::string enum_text(const reflection::Enum& e) {
  std::string out = fmt::format("enum {} {} {}\n", e.name()->string_view(), e.is_union(),
                                static_cast<int>(e.underlying_type()->base_type()));
  for (const auto* v : *e.values())
    out += fmt::format("{} {}\n", v->name()->string_view(), v->value());
  return out;
}

}  // namespace

uint64_t structural_hash(const reflection::Schema& of) {
  std::vector<std::string> parts;
  for (const auto* table : *of.objects()) parts.push_back(table_text(of, *table));
  for (const auto* e : *of.enums()) parts.push_back(enum_text(*e));
  std::sort(parts.begin(), parts.end());
  std::string all;
  for (const auto& part : parts) all += part;
  return fnv1a(all);
}

uint64_t schema_hash() {
  static const auto hash = [] {
    auto text = fmt::format("header {} {}\n", message_form, sizeof(message_header));
#define TROUPE_LINE(domain, table, number) text += fmt::format("{} {}\n", #table, number);
    TROUPE_MESSAGES(TROUPE_LINE)
#undef TROUPE_LINE
    return fnv1a(text) ^ structural_hash(schema());
  }();
  return hash;
}

}  // namespace troupe
