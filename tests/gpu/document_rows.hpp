// Rows of tokens with several documents in each, and where those begin and end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/ops.hpp"
#include "io/data/document_bounds.hpp"

namespace troupe::gpu::testing {

/// Arrays of the documents of rows of `seq` tokens, which `end_of_text` parts.
class document_rows {
 public:
  document_rows(std::span<const int32_t> tokens, int64_t seq, int32_t end_of_text)
      : first_(tokens.size()), end_(tokens.size()) {
    const auto row = static_cast<size_t>(seq);
    for (size_t at = 0; at < tokens.size(); at += row)
      io::find_documents(tokens.subspan(at, row), end_of_text, &first_[at], &end_[at]);
  }

  /// From a token on, the first of a row.
  row_documents from(size_t token = 0) const { return {&first_[token], &end_[token]}; }

 private:
  std::vector<int32_t> first_, end_;
};

}  // namespace troupe::gpu::testing
