// result<T>: a value or an error; what std::expected will be when our compilers have it.
// it.
//
// Use: `auto f = open(path); if (!f) return f.error();  use(*f);`  or TROUPE_TRY(file, open(path));
#pragma once

#include <cassert>
#include <utility>
#include <variant>

#include "io/base/error.hpp"

namespace troupe {

template <class T>
class [[nodiscard]] result {
 public:
  result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  result(troupe::error e)
      : state_(std::in_place_index<1>, std::move(e)) {}  // NOLINT: implicit by design

  explicit operator bool() const noexcept { return state_.index() == 0; }
  bool has_value() const noexcept { return state_.index() == 0; }

  T& operator*() & {
    assert(has_value());
    return std::get<0>(state_);
  }
  const T& operator*() const& {
    assert(has_value());
    return std::get<0>(state_);
  }
  T&& operator*() && {
    assert(has_value());
    return std::get<0>(std::move(state_));
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

  const troupe::error& error() const {
    assert(!has_value());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, troupe::error> state_;
};

/// Success without a value: `status s = f(); if (!s) return s.error();` A default-made status is
/// success.
template <>
class [[nodiscard]] result<void> {
 public:
  result() = default;
  result(troupe::error e) : error_(std::move(e)), ok_(false) {}  // NOLINT: implicit by design

  explicit operator bool() const noexcept { return ok_; }
  bool has_value() const noexcept { return ok_; }
  const troupe::error& error() const {
    assert(!ok_);
    return error_;
  }

 private:
  troupe::error error_;
  bool ok_ = true;
};

using status = result<void>;

}  // namespace troupe

/// Unwraps a result into a new variable or returns its error from the enclosing function.
#define TROUPE_TRY(var, expr)                     \
  auto var##_result = (expr);                     \
  if (!var##_result) return var##_result.error(); \
  auto var = std::move(*var##_result)

/// Returns the error of a status from the enclosing function, if it has one.
#define TROUPE_CHECK(expr)                                    \
  do {                                                        \
    if (auto check_ = (expr); !check_) return check_.error(); \
  } while (false)
