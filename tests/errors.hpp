// How tests look at errors: by kind and facts, never by the English around them (tests/house).
//
// e == unknown_key("steps") where every fact of it is known; is_error(e, kind, facts...) where some
// are. What fails is shown with its kind and its text.
#pragma once

#include <cctype>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/base/error_kind.hpp"
#include "io/base/result.hpp"

namespace troupe {

/// How doctest shows an error.
inline doctest::String toString(const error& e) {
  return fmt::format("{} {}: {}", to_string(e.code), e.kind, render(e)).c_str();
}

/// What was asked of an error, with the error for who reads a failed CHECK.
struct seen_error {
  bool as_asked;
  error seen;

  explicit operator bool() const { return as_asked; }
  bool operator!() const { return !as_asked; }
};

inline doctest::String toString(const seen_error& s) {
  return toString(s.seen);
}

/// The error in an unpacked message that carries one (RunEnded, AdmissionFailed, Failure).
template <class Carrier>
error error_of(const Carrier& c) {
  return {static_cast<errc>(c.code), c.message, c.hint, c.kind};
}

/// Whether the message or the hint has the fact as a word of its own: a path, a name, a number.
template <class Fact>
bool mentions(const error& e, const Fact& fact) {
  std::string word;
  if constexpr (requires { fact.native(); })
    word = fact.native();
  else
    word = fmt::format("{}", fact);
  const auto text = " " + render(e) + " ";
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (size_t at = text.find(word, 1); at != std::string::npos; at = text.find(word, at + 1))
    if (word.empty() || ((!letter(word.front()) || !letter(text[at - 1])) &&
                         (!letter(word.back()) || !letter(text[at + word.size()]))))
      return true;
  return false;
}

/// Whether an error is of the kind of that name and has the facts.
template <class... Facts>
seen_error is_error(const error& e, std::string_view kind, const Facts&... facts) {
  return {e.kind == kind && (mentions(e, facts) && ...), e};
}

template <class... A, class... Facts>
seen_error is_error(const error& e, const error_kind<A...>& kind, const Facts&... facts) {
  return is_error(e, kind.name, facts...);
}

/// The same of what should have failed.
template <class T, class Kind, class... Facts>
seen_error is_error(const result<T>& r, const Kind& kind, const Facts&... facts) {
  return r ? seen_error{false, {errc::none, "no error"}} : is_error(r.error(), kind, facts...);
}

}  // namespace troupe
