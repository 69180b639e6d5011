// The strings of a message's tables, which may be absent.
#pragma once

#include <string>

#include <flatbuffers/flatbuffers.h>

namespace troupe {

/// What a string of a table says; empty where the field is absent.
inline std::string text_of(const flatbuffers::String* s) {
  return s != nullptr ? s->str() : std::string();
}

}  // namespace troupe
