// Which of several regular expressions is the first that a line fits, in time linear in the line.
//
// Why RE2 and no engine that goes back: expressions come from a configuration and lines from
// whoever writes to a log; together they must not be able to hold up who reads it.
//
// Invariants
//   LPT-1  What may be one of the expressions is bounded in length, and what all of them become
//     together: a byte of a line costs at most a step for each of `max_steps`.
//   LPT-2  A line is bytes: no text makes a search fail, UTF-8 or none.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe::io {

inline constexpr error_kind<std::string> bad_pattern{
    "bad_pattern", errc::bad_config, "is no regular expression of RE2: {}",
    "https://github.com/google/re2/wiki/Syntax lists what is; a single-quoted TOML string keeps "
    "every backslash"};
inline constexpr error_kind<size_t, size_t> pattern_too_long{
    "pattern_too_long", errc::bad_config, "has {} bytes, at most {} are expected"};
inline constexpr error_kind<size_t, size_t> patterns_too_large{
    "patterns_too_large", errc::bad_config,
    "takes {} steps a byte, with those before it; at most {}",
    "counted repetitions of classes are large, and so are classes of Unicode"};

class line_patterns {
 public:
  /// Bytes of one expression.
  static constexpr size_t max_pattern_bytes = 512;
  /// Instructions of RE2 that all of them together become.
  static constexpr size_t max_steps = 8192;

  /// Whether an expression may be one of them. Errors: as of make.
  static status check(const std::string& pattern);

  /// None of them: no line fits.
  line_patterns();
  /// Errors of the first that may not be: bad_pattern, pattern_too_long, patterns_too_large.
  static result<line_patterns> make(const std::vector<std::string>& patterns);
  line_patterns(line_patterns&&) noexcept;
  line_patterns& operator=(line_patterns&&) noexcept;
  ~line_patterns();

  /// The first of them, in the order of make, of which something is in the line.
  std::optional<size_t> first_fit(std::string_view line) const;
  /// Where in the line begins what fits one of them.
  std::optional<size_t> begin_of_fit(size_t pattern, std::string_view line) const;

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::io
