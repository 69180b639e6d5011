// A few expressions, one after the other.
#include "io/logs/secrets.hpp"

#include <array>

#include <re2/re2.h>

namespace troupe::io {

namespace {

struct mask {
  RE2 looks;
  const char* becomes;
  mask(const char* pattern, const char* text) : looks(pattern, bytewise()), becomes(text) {}

  /// A byte that is no UTF-8 must not end what is masked.
  static RE2::Options bytewise() {
    RE2::Options out(RE2::Latin1);
    out.set_log_errors(false);
    out.set_case_sensitive(false);
    return out;
  }
};

#define WORDS                                                                                    \
  "(?:pass(?:word|wd|phrase)|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential" \
  "|authorization)[\\w-]*"

}  // namespace

std::string without_secrets(std::string_view line) {
  static const std::array<mask, 5> masks{{
      {"(" WORDS "[\"']?\\s*[=:]\\s*[\"']?(?:(?:bearer|basic)\\s+)?)[^\\s\"',;&]+", "\\1***"},
      {"(--?" WORDS "\\s+)[^\\s]+", "\\1***"},
      {"\\b(bearer|basic)\\s+[\\w.~+/=-]{8,}", "\\1 ***"},
      {"(://)[^\\s/@]+@", "\\1***@"},
      {"[a-z0-9+/]{40,}={0,2}|[a-z0-9+]{32,}={0,2}", "***"},
  }};
  std::string out(line);
  for (const auto& m : masks) RE2::GlobalReplace(&out, m.looks, m.becomes);
  return out;
}

#undef WORDS

}  // namespace troupe::io
