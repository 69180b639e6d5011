// Failures that somebody tells apart from others of their code. A kind is declared in the header of
// the module that returns it, and has its text there:
//
//   inline constexpr error_kind<std::string_view, uint64_t> file_ends{
//       "file_ends", errc::bad_data, "{} ends at byte {}"};
//   ... return file_ends(name, offset);
//   ... if (e.is(file_ends))
//
// Apart from error.hpp, since nvcc's front end cannot read fmt.
#pragma once

#include <string_view>

#include <fmt/core.h>

#include "io/base/error.hpp"

namespace troupe {

/// A failure that is told apart by its name and made of facts: `return unknown_key(key, near);`
///
/// Its hint may name the facts by their numbers, {0} the first. Names travel in messages, between
/// versions too: they stay.
template <class... A>
struct error_kind {
  std::string_view name;  ///< snake_case, that of the variable
  errc code;
  fmt::format_string<const A&...> text;
  fmt::format_string<const A&...> hint = "";

  error operator()(const A&... facts) const {
    const auto all = fmt::make_format_args(facts...);
    return {code, fmt::vformat(text, all), fmt::vformat(hint, all), name};
  }
};

}  // namespace troupe
