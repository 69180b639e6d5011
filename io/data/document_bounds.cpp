// One walk from border to border.
#include "io/data/document_bounds.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <numeric>

namespace troupe::io {

void find_documents(std::span<const int32_t> tokens, int32_t end_of_text, int32_t* first,
                    int32_t* end) {
  for (auto at = tokens.begin(); at != tokens.end();) {
    const auto last = std::find(at, tokens.end(), end_of_text);
    const auto next = last == tokens.end() ? last : last + 1;
    const auto begin = at - tokens.begin();
    std::fill(first + begin, first + (next - tokens.begin()), static_cast<int32_t>(begin));
    std::fill(end + begin, end + (next - tokens.begin()),
              static_cast<int32_t>(next - tokens.begin()));
    at = next;
  }
}

uint64_t document_pairs(std::span<const int32_t> first, std::span<const int32_t> end) {
  assert(first.size() == end.size());
  return std::transform_reduce(
      first.begin(), first.end(), end.begin(), uint64_t{0}, std::plus<>(),
      [](int32_t from, int32_t to) { return static_cast<uint64_t>(int64_t{to} - from); });
}

}  // namespace troupe::io
