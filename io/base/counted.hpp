// How many of a thing, as people say it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

/// "1 node", "0 nodes", "3 launches" (of "launch", "launches").
inline std::string counted(uint64_t count, std::string_view one, std::string_view many = {}) {
  auto out = std::to_string(count) + " ";
  if (count == 1 || many.empty())
    out += one;
  else
    out += many;
  if (count != 1 && many.empty()) out += 's';
  return out;
}

}  // namespace troupe
