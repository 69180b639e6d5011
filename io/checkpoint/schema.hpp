// The checkpoint schema's generated code and what both readers of it share: verified roots, and the
// enumerations of the file against ours. For the sources of this folder alone.
#pragma once

#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include <flatbuffers/flatbuffers.h>

#include "io/checkpoint/checkpoint_generated.h"
#include "io/checkpoint/format.hpp"

namespace troupe::io::checkpoint {

/// Foreign bytes as a verified root, or null. `copy` keeps them where they are not aligned.
template <class Root>
const Root* verified_root(std::span<const std::byte> bytes, const char* identifier,
                          std::vector<uint64_t>& copy) {
  if (bytes.size() < 16 || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE) return nullptr;
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (reinterpret_cast<uintptr_t>(data) % alignof(uint64_t) != 0) {
    copy.resize((bytes.size() + 7) / 8);
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    data = reinterpret_cast<const uint8_t*>(copy.data());
  }
  constexpr flatbuffers::uoffset_t max_depth = 8;
  // A table takes 8 bytes at least; whoever refers to one twice too often is refused.
  const auto max_tables = static_cast<flatbuffers::uoffset_t>(bytes.size() / 8);
  flatbuffers::Verifier verifier(data, bytes.size(), max_depth, max_tables);
  if (!verifier.VerifyBuffer<Root>(identifier)) return nullptr;
  return flatbuffers::GetRoot<Root>(data);
}

inline rank_grid layout_of(const fbs::Layout& l) noexcept {
  return {static_cast<int>(l.data_ranks()), 1, static_cast<int>(l.pipeline_ranks())};
}

inline flatbuffers::Offset<fbs::Layout> encode(flatbuffers::FlatBufferBuilder& b,
                                               const rank_grid& ranks) {
  return fbs::CreateLayout(b, static_cast<uint32_t>(ranks.data),
                           static_cast<uint32_t>(ranks.pipeline));
}

/// The element types a checkpoint holds, by the schema's value.
inline std::optional<tensor_dtype> type_of(fbs::Dtype type) noexcept {
  switch (type) {
    case fbs::Dtype::f32:
      return tensor_dtype::f32;
    case fbs::Dtype::bf16:
      return tensor_dtype::bf16;
    case fbs::Dtype::f16:
      return tensor_dtype::f16;
  }
  return std::nullopt;
}

inline std::optional<fbs::Dtype> type_of(tensor_dtype type) noexcept {
  switch (type) {
    case tensor_dtype::f32:
      return fbs::Dtype::f32;
    case tensor_dtype::bf16:
      return fbs::Dtype::bf16;
    case tensor_dtype::f16:
      return fbs::Dtype::f16;
    default:
      return std::nullopt;
  }
}

inline std::optional<part> part_of(fbs::Part which) noexcept {
  if (which > fbs::Part::MAX) return std::nullopt;
  return static_cast<part>(which);
}
static_assert(static_cast<int>(fbs::Part::weight) == static_cast<int>(part::weight));
static_assert(static_cast<size_t>(fbs::Part::MAX) + 1 == part_count);

/// Whether the elements lie as their 8 bytes each need it: the verifier looks at the length alone.
template <class T>
bool well_placed(const flatbuffers::Vector<T>& vector) noexcept {
  return reinterpret_cast<uintptr_t>(vector.Data()) % alignof(uint64_t) == 0;
}

/// A schema's shape as ours; nothing if it has too many dimensions.
inline std::optional<std::vector<int64_t>> shape_of(const flatbuffers::Vector<int64_t>& shape) {
  if (shape.size() > max_dimensions || !well_placed(shape)) return std::nullopt;
  return std::vector<int64_t>(shape.begin(), shape.end());
}

}  // namespace troupe::io::checkpoint
