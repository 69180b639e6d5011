// Foreign text on one line of a terminal or a log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

/// The text with control characters, quotes, backslashes and what is no UTF-8 escaped as C does,
/// cut to `most` characters with "..." at the end.
std::string one_line(std::string_view text, size_t most = 80);

}  // namespace troupe
