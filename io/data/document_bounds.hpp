// Where the documents of a window of tokens begin and end.
//
// Why here: whoever lays windows out for training says it with them, since no stage behind the
// first sees tokens. A document is what stands up to and including an end-of-text token, as
// Megatron (--reset-attention-mask) and TorchTitan have it; what a window begins in the midst of is
// a document from there on, since what stood before is not in the window.
#pragma once

#include <cstdint>
#include <span>

namespace troupe::io {

/// For each token of a window the first token of its document and one behind its last, counted from
/// the window's begin; `first` and `end` have the room of `tokens`. A window has 2^31 - 1 tokens at
/// most.
void find_documents(std::span<const int32_t> tokens, int32_t end_of_text, int32_t* first,
                    int32_t* end);

/// Of what find_documents says, the pairs of tokens that lie in one document: for each token its
/// document's length, added up. What attention that is reset has to do grows with them.
uint64_t document_pairs(std::span<const int32_t> first, std::span<const int32_t> end);

}  // namespace troupe::io
