// Cutting the chunks of a stage into the slices of its replicas.
#include "io/checkpoint/save_plan.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace troupe::io::checkpoint {

namespace {

error unsavable(std::string_view name, std::string_view what) {
  return {errc::bug, fmt::format("{} cannot be saved: {}", name, what)};
}

status check_parts(const plan_chunk& chunk) {
  std::set<part> seen;
  for (const auto& p : chunk.parts) {
    const bool known =
        p.type == tensor_dtype::f32 || p.type == tensor_dtype::bf16 || p.type == tensor_dtype::f16;
    if (!known || static_cast<size_t>(p.which) >= part_count || !seen.insert(p.which).second)
      return unsavable(chunk.name, "a duplicate part, or one of an unsupported type");
  }
  return {};
}

/// Elements of a chunk, up to its last tensor's end.
uint64_t extent_of(const plan_chunk& chunk) {
  uint64_t end = 0;
  for (const auto& t : chunk.tensors) end = std::max(end, t.offset + *elements_of(t.shape));
  return end;
}

status check_stage(const plan_stage& stage, const save_options& options,
                   std::set<std::string_view>& names) {
  uint64_t bytes = 0;
  for (const auto& chunk : stage) {
    TROUPE_CHECK(check_parts(chunk));
    for (const auto& t : chunk.tensors) {
      if (!is_tensor_name(t.name) || !names.insert(t.name).second)
        return unsavable(t.name, "invalid or duplicate name");
      const auto elements = elements_of(t.shape);
      if (!elements || (t.transposed && t.shape.size() != 2))
        return unsavable(t.name, "its shape is impossible");
      for (const auto& kind : chunk.parts) bytes += *elements * size_of(kind.type);
      if (bytes > max_stream_bytes || t.offset > max_stream_bytes)
        return unsavable(t.name, "the stage is too large");
    }
    const uint64_t extent = extent_of(chunk), slice = chunk.slice_elements;
    const bool covers =
        slice >= extent || extent <= slice * static_cast<uint64_t>(options.data_ranks);
    if (slice > 0 && (slice > max_stream_bytes || !covers))
      return unsavable(chunk.name, "its slices do not cover it");
  }
  return {};
}

uint64_t slice_elements_of(const plan_chunk& chunk, const save_options& options) {
  if (chunk.slice_elements > 0) return chunk.slice_elements;
  const uint64_t unit = options.cut_elements, n = static_cast<uint64_t>(options.data_ranks);
  const uint64_t units = (extent_of(chunk) + unit - 1) / unit;
  return (units + n - 1) / n * unit;
}

/// Appends what of a tensor's part is in the slice [first, last) of its chunk.
void add(rank_plan& plan, uint32_t chunk, const plan_tensor& t, const plan_part& kind,
         uint64_t first, uint64_t last) {
  const uint64_t begin = std::max(first, t.offset);
  const uint64_t end = std::min(last, t.offset + *elements_of(t.shape));
  if (begin >= end) return;
  const uint64_t bytes = (end - begin) * size_of(kind.type);
  plan.pieces.push_back({{t.name, kind.which, kind.type, t.shape, t.transposed, begin - t.offset,
                          end - begin, plan.stream_bytes, bytes},
                         chunk,
                         begin});
  plan.stream_bytes += bytes;
}

rank_plan share_of(const plan_stage& stage, int data_rank, const save_options& options) {
  rank_plan out;
  for (size_t c = 0; c < stage.size(); ++c) {
    const uint64_t elements = slice_elements_of(stage[c], options);
    const uint64_t first = static_cast<uint64_t>(data_rank) * elements;
    for (const auto& kind : stage[c].parts)
      for (const auto& t : stage[c].tensors)
        add(out, static_cast<uint32_t>(c), t, kind, first, first + elements);
  }
  return out;
}

/// Appends a copy to the last slot, or to the copy before it where the two touch.
void add(capture_plan& plan, const capture_copy& copy) {
  auto& fill = plan.fills.back();
  auto* before = fill.copies_end > fill.copies_begin ? &plan.copies.back() : nullptr;
  const bool touch = before && before->chunk == copy.chunk && before->which == copy.which &&
                     before->chunk_byte + before->bytes == copy.chunk_byte;
  if (touch)
    before->bytes += copy.bytes;
  else
    plan.copies.push_back(copy);
  fill.bytes += copy.bytes;
  fill.copies_end = plan.copies.size();
}

}  // namespace

capture_plan plan_capture(const rank_plan& plan, uint32_t slot_bytes) {
  capture_plan out;
  for (const auto& p : plan.pieces) {
    uint64_t from = p.chunk_first * size_of(p.what.type);
    for (uint64_t left = p.what.bytes; left > 0;) {
      if (out.fills.empty() || out.fills.back().bytes == slot_bytes)
        out.fills.push_back({0, out.copies.size(), out.copies.size()});
      const uint64_t used = out.fills.back().bytes;
      const uint64_t bytes = std::min(left, slot_bytes - used);
      add(out, {p.chunk, p.what.which, from, used, bytes});
      from += bytes;
      left -= bytes;
    }
  }
  return out;
}

result<std::vector<rank_plan>> plan_save(std::span<const plan_stage> stages,
                                         const save_options& options) {
  const rank_grid grid(options.data_ranks, 1, static_cast<int>(stages.size()));
  if (options.cut_elements == 0 || !is_layout(grid))
    return error{errc::bug, "a save plan needs a stage, a replica and a unit of cutting"};
  std::vector<rank_plan> plans;
  std::set<std::string_view> names;
  for (const auto& stage : stages) TROUPE_CHECK(check_stage(stage, options, names));
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const auto at = grid.place_of(rank);
    auto plan = share_of(stages[static_cast<size_t>(at.pipeline)], at.data, options);
    plan.rank = static_cast<uint32_t>(rank);
    plan.place = at;
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace troupe::io::checkpoint
