// What can go wrong, in one list, and how a person is told.
//
// Every fallible function across a module border returns result<T> (result.hpp); the error in it
// says what happened (code), where and to what (message), and what to do about it (hint).
// Exceptions of libraries are caught at the border and become one of these. Asserts are for bugs
// only.
//
// Failures that a caller or a test tells apart from others of their code are of a declared kind
// (error_kind.hpp). Nobody compares texts; they may be reworded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

/// The families of failures, by what their receiver can do. Values travel in messages: append only.
enum class errc : uint8_t {
  none = 0,
  usage,             ///< wrong command line (exit 64)
  bad_data,          ///< foreign bytes that do not verify: a file, a message (exit 65)
  not_found,         ///< a named thing does not exist (exit 66)
  unavailable,       ///< a peer or a node is down or refuses us (exit 69)
  version_mismatch,  ///< the peer speaks other schemas or another epoch (exit 69)
  bug,               ///< an invariant of ours is broken (exit 70)
  no_memory,         ///< an allocation or a budget is exhausted (exit 70)
  io,                ///< the operating system refused a file or socket operation (exit 74)
  timeout,           ///< no answer within the stated time; may be retried (exit 75)
  cancelled,         ///< a person or a shutdown stopped it (exit 130)
  permission,        ///< not allowed: certificate, role, file mode (exit 77)
  bad_config,        ///< the configuration is impossible (exit 78)
  training,          ///< training itself failed, e.g. a loss that is not finite (exit 1)
};

/// The stable lower-case name of a code, e.g. "bad_config".
std::string_view to_string(errc code) noexcept;

/// The sysexits(3) value a process ends with when this error ends it.
int exit_code(errc code) noexcept;

template <class... A>
struct error_kind;

/// One failure, ready to be shown. `message` is a sentence without a full stop; `hint` may be
/// empty; `kind` is the name of its error_kind, or what the interface that failed calls it
/// ("ENOSPC", "cudaErrorNoDevice"), or empty.
struct error {
  errc code = errc::bug;
  std::string message;
  std::string hint;
  std::string kind;

  error() = default;
  error(errc c, std::string text, std::string remedy = {}, std::string_view name = {})
      : code(c), message(std::move(text)), hint(std::move(remedy)), kind(name) {}

  bool operator==(const error&) const = default;

  /// Whether it was made by that kind, here or in another process.
  template <class... A>
  bool is(const error_kind<A...>& k) const {
    return kind == k.name;
  }

  /// The same failure with "context: " in front of its message.
  error within(std::string_view context) const;

  /// The error of the last failed system call: code io (not_found, permission, no_memory where
  /// errno says so), message "what: strerror", kind errno's name ("ENOSPC").
  static error system(std::string_view what, int errno_value);
};

/// "message" or "message\nhint: remedy".
std::string render(const error& e);

}  // namespace troupe
