// Whether files hold what they held, at a glance: by lengths, beginnings and ends. A change in the
// midst of a file that keeps its length is not seen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "io/base/result.hpp"

namespace troupe::io {

/// Of the files in their order, whatever they are called. Errors: those of reading.
result<uint64_t> edges_hash(std::span<const std::filesystem::path> files);

}  // namespace troupe::io
