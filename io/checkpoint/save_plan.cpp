// Cutting the line of a stage's bytes into the shares of its replicas.
#include "io/checkpoint/save_plan.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

namespace troupe::io::checkpoint {

namespace {

/// One part of one tensor on the stage's line.
struct line_entry {
  uint32_t chunk = 0;
  const plan_tensor* tensor = nullptr;
  plan_part kind;
  uint64_t elements = 0;
  uint64_t begin = 0;  ///< on the line, in bytes
};

struct line {
  std::vector<line_entry> entries;
  uint64_t bytes = 0;
};

error unsavable(std::string_view name, std::string_view what) {
  return {errc::bug, fmt::format("{} cannot be saved: {}", name, what)};
}

status check_parts(const plan_chunk& chunk) {
  std::set<part> seen;
  for (const auto& p : chunk.parts) {
    const bool known =
        p.type == tensor_dtype::f32 || p.type == tensor_dtype::bf16 || p.type == tensor_dtype::f16;
    if (!known || static_cast<size_t>(p.which) >= part_count || !seen.insert(p.which).second)
      return unsavable(chunk.name, "a part of it is there twice or of no type that is stored");
  }
  return {};
}

result<line> line_of(const plan_stage& stage, std::set<std::string_view>& names) {
  line out;
  for (size_t c = 0; c < stage.size(); ++c) {
    const auto& chunk = stage[c];
    TROUPE_CHECK(check_parts(chunk));
    for (const auto& t : chunk.tensors) {
      if (!is_tensor_name(t.name) || !names.insert(t.name).second)
        return unsavable(t.name, "its name is none or is there twice");
      if (!elements_of(t.shape) || (t.transposed && t.shape.size() != 2))
        return unsavable(t.name, "its shape is impossible");
    }
    for (const auto& kind : chunk.parts)
      for (const auto& t : chunk.tensors) {
        const uint64_t elements = *elements_of(t.shape);
        out.entries.push_back({static_cast<uint32_t>(c), &t, kind, elements, out.bytes});
        out.bytes += elements * size_of(kind.type);
        if (out.bytes > max_stream_bytes) return unsavable(t.name, "the stage is too large");
      }
  }
  return out;
}

/// Where share `index` of `count` begins: entry and element.
struct cut {
  size_t entry = 0;
  uint64_t element = 0;
};

cut cut_at(const line& l, uint32_t index, const save_options& options) {
  if (index == options.data_ranks) return {l.entries.size(), 0};
  const uint64_t n = options.data_ranks;
  const uint64_t byte = l.bytes / n * index + l.bytes % n * index / n;
  const auto after =
      std::upper_bound(l.entries.begin(), l.entries.end(), byte,
                       [](uint64_t at, const line_entry& e) { return at < e.begin; });
  if (after == l.entries.begin()) return {};
  const auto& e = *std::prev(after);
  const uint64_t element = (byte - e.begin) / size_of(e.kind.type);
  return {static_cast<size_t>(std::prev(after) - l.entries.begin()),
          element / options.cut_elements * options.cut_elements};
}

rank_plan share_of(const line& l, cut from, cut to) {
  rank_plan out;
  for (size_t i = from.entry; i < l.entries.size() && i <= to.entry; ++i) {
    const auto& e = l.entries[i];
    const uint64_t first = i == from.entry ? from.element : 0;
    const uint64_t last = i == to.entry ? to.element : e.elements;
    if (first >= last) continue;
    const auto& t = *e.tensor;
    const uint64_t bytes = (last - first) * size_of(e.kind.type);
    out.pieces.push_back({{t.name, e.kind.which, e.kind.type, t.shape, t.transposed, first,
                           last - first, out.stream_bytes, bytes},
                          e.chunk,
                          t.offset + first});
    out.stream_bytes += bytes;
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
  if (stages.empty() || options.data_ranks == 0 || options.cut_elements == 0 ||
      stages.size() > max_ranks / options.data_ranks)
    return error{errc::bug, "a save plan needs a stage, a replica and a unit of cutting"};
  const auto pipeline_ranks = static_cast<uint32_t>(stages.size());
  std::vector<rank_plan> plans;
  std::set<std::string_view> names;
  for (uint32_t p = 0; p < pipeline_ranks; ++p) {
    TROUPE_TRY(l, line_of(stages[p], names));
    for (uint32_t d = 0; d < options.data_ranks; ++d) {
      auto plan = share_of(l, cut_at(l, d, options), cut_at(l, d + 1, options));
      plan.data_rank = d;
      plan.pipeline_rank = p;
      plan.rank = options.rank_of ? options.rank_of(d, p) : d * pipeline_ranks + p;
      plans.push_back(std::move(plan));
    }
  }
  std::sort(plans.begin(), plans.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  for (size_t i = 0; i < plans.size(); ++i)
    if (plans[i].rank != i) return error{errc::bug, "the ranks of a save plan are not 0 .. n-1"};
  return plans;
}

}  // namespace troupe::io::checkpoint
