// gzip: files that others compressed, inflated up to a limit.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "io/base/result.hpp"

namespace troupe::io {

/// Whether bytes begin as gzip does.
bool is_gzip(std::string_view bytes) noexcept;

/// The content of gzip's bytes (RFC 1952), one member or several, at most `max_bytes` of it.
/// Errors: bad_data where it is no gzip, is damaged or cut, or holds more; `name` is what errors
/// call it.
result<std::string> inflate_gzip(std::string_view bytes, size_t max_bytes, std::string_view name);

/// A file whole, inflated where it is gzip's; neither it nor its content is longer than
/// `max_bytes`.
result<std::string> read_maybe_gzip(const std::filesystem::path& path, size_t max_bytes);

}  // namespace troupe::io
