// The names of an enum's values, by the embedded schema.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <flatbuffers/reflection.h>

#include "messages/registry.hpp"

namespace troupe {

/// In their order; empty for an unknown enum.
inline std::vector<std::string> enum_names(std::string_view name) {
  std::vector<std::string> out;
  const auto* found = schema().enums()->LookupByKey(("troupe.fbs." + std::string(name)).c_str());
  if (found == nullptr) return out;
  for (const auto* value : *found->values()) out.push_back(value->name()->str());
  return out;
}

}  // namespace troupe
