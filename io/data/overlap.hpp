// Whether two lists of data files share one: validation on data that is trained on measures
// nothing.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "io/base/result.hpp"

namespace troupe::io {

/// The first file of `some` and the file of `others` that is the same one (by whatever name), or
/// holds the same bytes; nothing where there is none. Empty files are no match. Errors: those of
/// reading.
result<std::optional<std::pair<std::filesystem::path, std::filesystem::path>>> shared_file(
    std::span<const std::filesystem::path> some, std::span<const std::filesystem::path> others);

}  // namespace troupe::io
