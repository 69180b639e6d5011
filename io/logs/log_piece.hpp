// What a log wrote since it was looked at last.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::io {

struct log_piece {
  std::string bytes = {};
  bool gap = false;  ///< it does not go on where the last piece ended
  uint64_t passed_over_bytes = 0;
  bool operator==(const log_piece&) const = default;
};

}  // namespace troupe::io
