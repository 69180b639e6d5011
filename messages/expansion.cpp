// The bounded walk behind expansion.hpp.
#include "messages/expansion.hpp"

#include <unordered_map>

#include <flatbuffers/reflection.h>

#include "messages/registry.hpp"

namespace troupe::detail {

namespace {

// Only a list of references can multiply; a plain field adds its own size once. A table that
// contains itself is a suspect too, hence the depth.
bool multiplies(const reflection::Object& table, int depth = 0) {
  if (depth > 8) return true;
  for (const auto* field : fields_in_order(table)) {
    const auto& type = *field->type();
    if (type.base_type() == reflection::Vector &&
        (type.element() == reflection::String || type.element() == reflection::Obj))
      return true;
    if (type.base_type() == reflection::Obj && multiplies(table_of(type), depth + 1)) return true;
  }
  return false;
}

class walk {
 public:
  bool table(const flatbuffers::Table& t, const reflection::Object& type) {
    if (!spend(sizeof(flatbuffers::soffset_t) + 8 * type.fields()->size())) return false;
    for (const auto* field : fields_in_order(type))
      if (!value(t, *field)) return false;
    return true;
  }

 private:
  bool spend(size_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }

  bool value(const flatbuffers::Table& t, const reflection::Field& field) {
    const auto& type = *field.type();
    if (type.base_type() < reflection::String || t.GetAddressOf(field.offset()) == nullptr)
      return true;
    if (type.base_type() == reflection::String)
      return spend(flatbuffers::GetFieldS(t, field)->size());
    if (type.base_type() == reflection::Obj)
      return table(*flatbuffers::GetFieldT(t, field), table_of(type));
    return vector(*flatbuffers::GetFieldAnyV(t, field), type);
  }

  bool vector(const flatbuffers::VectorOfAny& v, const reflection::Type& type) {
    auto element = type.element();
    if (!spend(v.size() * flatbuffers::GetTypeSize(element))) return false;
    if (element < reflection::String) return true;
    for (size_t i = 0; i < v.size(); ++i) {
      bool fits =
          element == reflection::String
              ? spend(
                    flatbuffers::GetAnyVectorElemPointer<const flatbuffers::String>(&v, i)->size())
              : table(*flatbuffers::GetAnyVectorElemPointer<const flatbuffers::Table>(&v, i),
                      table_of(type));
      if (!fits) return false;
    }
    return true;
  }

  size_t left_ = max_expanded_bytes;
};

}  // namespace

bool expands_within_bounds(uint16_t type, const uint8_t* payload) {
  static const auto suspects = [] {
    std::unordered_map<uint16_t, const reflection::Object*> out;
    for (const auto& info : all_messages())
      if (info.table != nullptr && multiplies(*info.table)) out.emplace(info.id, info.table);
    return out;
  }();
  auto found = suspects.find(type);
  if (found == suspects.end()) return true;
  return walk().table(*flatbuffers::GetAnyRoot(payload), *found->second);
}

}  // namespace troupe::detail
