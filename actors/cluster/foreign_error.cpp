// The beginning of an error, as CAF 0.17.6 writes it.
#include "actors/cluster/foreign_error.hpp"

#include <cstdint>
#include <string>
#include <string_view>

#include <caf/atom.hpp>
#include <caf/error.hpp>

namespace troupe::cluster {

bool is_error_of_words(caf::binary_deserializer& source) {
  uint8_t code = 0;
  caf::atom_value category{};
  uint16_t number = 0;
  std::string types;
  if (source(code, category) || source.begin_object(number, types) || number != 0) return false;
  constexpr std::string_view none = "@<>", word = "+@str";
  while (types.ends_with(word)) types.erase(types.size() - word.size());
  return types == none;
}

}  // namespace troupe::cluster
