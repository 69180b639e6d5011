// Every array's place is known from two counts, which are held against the length first.
#include "io/data/megatron_index.hpp"

#include <array>
#include <cstring>
#include <optional>

#include <fmt/format.h>

namespace troupe::io {

namespace {

constexpr std::string_view index_magic("MMIDIDX\0\0", 9);
constexpr size_t index_header_bytes = 9 + 8 + 1 + 8 + 8;

template <class T>
T at(std::span<const std::byte> bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::optional<token_type> type_of(uint8_t code) {
  constexpr std::array<std::optional<token_type>, 9> types{
      std::nullopt,    token_type::u8, token_type::i8, token_type::i16, token_type::i32,
      token_type::i64, std::nullopt,   std::nullopt,   token_type::u16};
  return code < types.size() ? types[code] : std::nullopt;
}

}  // namespace

result<megatron_index> parse_megatron_index(std::span<const std::byte> bytes,
                                            std::string_view name) {
  const auto bad = [&](std::string what) {
    return error{errc::bad_data, fmt::format("{}: {}", name, what),
                 "it is made by Megatron's tools/preprocess_data.py"};
  };
  if (bytes.size() < index_header_bytes ||
      std::memcmp(bytes.data(), index_magic.data(), index_magic.size()) != 0)
    return bad("not an index of Megatron's");
  if (const auto version = at<uint64_t>(bytes, 9); version != 1)
    return bad(fmt::format("version {}, expected 1", version));
  const auto code = at<uint8_t>(bytes, 17);
  const auto type = type_of(code);
  if (!type) return bad(fmt::format("type {}, expected one of whole numbers (1 to 5, 8)", code));
  const auto sequences = at<uint64_t>(bytes, 18), documents = at<uint64_t>(bytes, 26);
  const uint64_t room = bytes.size() - index_header_bytes;  // MGX-2
  if (sequences > room / 12 || documents > (room - 12 * sequences) / 8 || documents == 0)
    return bad(fmt::format("{} sequences and {} documents do not fit into {} bytes", sequences,
                           documents, bytes.size()));
  if (room - 12 * sequences - 8 * documents != 0)
    return bad("bytes behind its documents (a dataset with pictures is unsupported)");
  megatron_index out;
  out.type = *type;
  const auto width = static_cast<uint64_t>(bytes_of(*type));
  const uint64_t pointers = index_header_bytes + 4 * sequences, firsts = pointers + 8 * sequences;
  std::vector<uint64_t> ends(sequences + 1);
  for (uint64_t i = 0; i < sequences; ++i) {
    const auto size = at<int32_t>(bytes, index_header_bytes + 4 * i);
    const auto pointer = at<int64_t>(bytes, pointers + 8 * i);
    if (size < 0) return bad(fmt::format("sequence {} has {} tokens", i, size));
    if (pointer < 0 || static_cast<uint64_t>(pointer) != ends[i] * width)
      return bad(fmt::format("sequence {} begins at byte {}, expected {}", i, pointer,
                             ends[i] * width));  // MGX-1
    ends[i + 1] = ends[i] + static_cast<uint64_t>(size);
  }
  out.tokens = ends.back();
  int64_t before = 0;
  for (uint64_t i = 0; i < documents; ++i) {
    const auto first = at<int64_t>(bytes, firsts + 8 * i);
    if (first < before || static_cast<uint64_t>(first) > sequences || (i == 0 && first != 0))
      return bad(fmt::format("document {} begins with sequence {}", i, first));
    before = first;
    if (i > 0) out.document_ends.push_back(ends[static_cast<size_t>(first)]);
  }
  if (static_cast<uint64_t>(before) != sequences)
    return bad(fmt::format("its documents have {} sequences of {}", before, sequences));
  return out;
}

}  // namespace troupe::io
