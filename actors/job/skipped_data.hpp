// Training data that is passed over: counted in tokens where it is kept, since a run may go on with
// another sequence length, and in rows where batches are made of it.
//
// Pure.
//
// Invariants
//   SKD-1  A row that has any token of a part is passed over whole.
//   SKD-2  Whoever goes on from the place that tokens_after() gives has the rows behind those of
//     the steps before, none twice and none less.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/job/train_state.hpp"
#include "io/data/row_skips.hpp"
#include "messages/schemas/data_generated.h"

namespace troupe::train {

using skipped_parts = std::vector<checkpoint::skipped_tokens>;

/// The rows of so many tokens each (SKD-1).
io::row_skips rows_of(std::span<const checkpoint::skipped_tokens> parts, int64_t seq_len);

/// The place behind `rows` more rows, from the place `tokens` on (SKD-2).
uint64_t tokens_after(uint64_t tokens, uint64_t rows, int64_t seq_len,
                      std::span<const checkpoint::skipped_tokens> parts);

/// Tokens before a place that no step has trained on.
uint64_t skipped_before(uint64_t tokens, std::span<const checkpoint::skipped_tokens> parts);

/// The parts, and tokens `first` to `end` - 1: in order, and what meets as one.
skipped_parts with_part(skipped_parts parts, uint64_t first, uint64_t end);

/// Both directions; a message without any has none.
std::vector<std::unique_ptr<fbs::SkippedTokensT>> to_message(
    std::span<const checkpoint::skipped_tokens> parts);
skipped_parts skipped_in(const std::vector<std::unique_ptr<fbs::SkippedTokensT>>& parts);

}  // namespace troupe::train
