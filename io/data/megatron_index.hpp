// Megatron-LM's indexed dataset: NAME.idx beside NAME.bin, which holds tokens and nothing else.
//
//   magic "MMIDIDX\0\0", u64 version (1), u8 type, u64 sequences, u64 documents,
//   i32 sizes[sequences]         tokens of each
//   i64 pointers[sequences]      where each begins in the .bin, bytes
//   i64 documents[documents]     the first sequence of each, and at last the number of sequences
//   (i8 modes[sequences]         of datasets with pictures: unsupported)
//
// Everything is little-endian. The tokens are read as Megatron's GPT dataset reads them, one
// document behind the other.
//
// Invariants
//   MGX-1  Of an index that was read, the sequences lie one behind the other, from the .bin's first
//     byte to its last.
//   MGX-2  No length in it is believed before it is held against the file's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "io/base/result.hpp"
#include "io/data/token_file.hpp"

namespace troupe::io {

struct megatron_index {
  token_type type = token_type::u16;
  uint64_t tokens = 0;
  /// Where documents end, in tokens; the last is `tokens`.
  std::vector<uint64_t> document_ends;
};

/// Reads an index's bytes; `name` is what errors call it. Errors: bad_data.
result<megatron_index> parse_megatron_index(std::span<const std::byte> bytes,
                                            std::string_view name);

}  // namespace troupe::io
