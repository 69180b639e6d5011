// Rows that hold several documents: which keys a query sees, and where a token stands in its
// document (row_documents of gpu/ops.hpp).
//
// Included by kernels that are compiled once per instruction set; what is in here is theirs.
#pragma once

#include "gpu/host/kernels/vec.hpp"
#include "gpu/ops.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {

/// Where token `i` of [B,T] stands: in its row, or in its document.
TROUPE_INLINE int64_t position_in(const row_documents& documents, int64_t i, int64_t seq) {
  return i % seq - (documents.first != nullptr ? documents.first[i] : 0);
}

/// Which keys query t of a row sees: [first(t), t]. first() falls nowhere along a row.
struct visibility {
  int64_t window, seq;
  const int32_t* document_first;  ///< of the row; null: it is one document
  const int32_t* document_end;

  /// Of a row of the arguments of either direction.
  template <class Args>
  static visibility of_row(const Args& a, int64_t b) {
    if (a.documents.first == nullptr) return {a.window, a.seq, nullptr, nullptr};
    return {a.window, a.seq, a.documents.first + b * a.seq, a.documents.end + b * a.seq};
  }

  TROUPE_INLINE int64_t first(int64_t t) const {
    const int64_t document = document_first != nullptr ? document_first[t] : 0;
    const int64_t in_window = window > 0 ? t - window + 1 : 0;
    return document > in_window ? document : in_window;
  }
  /// One behind the last query that sees key u, which may lie behind the row: then none does.
  TROUPE_INLINE int64_t end(int64_t u) const {
    const int64_t document = document_end != nullptr && u < seq ? document_end[u] : seq;
    return window > 0 && u + window < document ? u + window : document;
  }
  /// Whether any of queries [q0, q1) sees any of keys [k0, k1).
  TROUPE_INLINE bool meets(int64_t q0, int64_t q1, int64_t k0, int64_t k1) const {
    return k0 < q1 && k1 > first(q0);
  }
};

}  // namespace troupe::gpu::host::TROUPE_VARIANT
