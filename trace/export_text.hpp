// How an export leaves: as pieces of text into a sink, so that a trace of gigabytes needs no second
// copy of itself.
#pragma once

#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "io/base/result.hpp"

namespace troupe::trace {

/// Takes the next piece of an export. Errors end the export.
using text_sink = std::function<status(std::string_view)>;

/// Collects small pieces to large ones for a sink; remembers its first error.
class text_out {
 public:
  explicit text_out(text_sink sink) : sink_(std::move(sink)) {}

  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
    if (buffer_.size() >= piece_bytes) flush();
  }

  void write(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= piece_bytes) flush();
  }

  /// Everything has been written, or why not.
  status finish() {
    flush();
    return outcome_;
  }

  bool broken() const noexcept { return !outcome_; }

 private:
  static constexpr size_t piece_bytes = 1u << 18;

  void flush() {
    if (outcome_ && !buffer_.empty()) outcome_ = sink_(buffer_);
    buffer_.clear();
  }

  text_sink sink_;
  std::string buffer_;
  status outcome_;
};

}  // namespace troupe::trace
