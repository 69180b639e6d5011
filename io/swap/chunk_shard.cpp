// From groups to pieces.
#include "io/swap/chunk_shard.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace troupe::io {

namespace {

namespace cp = checkpoint;

constexpr std::array parts{cp::part::master, cp::part::exp_avg, cp::part::exp_avg_sq};

/// What of a tensor lies in one array, whose elements are [begin, end) of the chunk.
void add(std::vector<cp::piece>& to, const cp::plan_tensor& t, cp::part which, uint64_t begin,
         uint64_t end, uint64_t offset) {
  const uint64_t from = std::max(begin, t.offset);
  const uint64_t until = std::min(end, t.offset + *cp::elements_of(t.shape));
  if (from >= until) return;
  to.push_back({t.name, which, tensor_dtype::f32, t.shape, t.transposed, from - t.offset,
                until - from, offset + (from - begin) * sizeof(float),
                (until - from) * sizeof(float)});
}

}  // namespace

cp::footer chunk_footer(const chunk_file& layout, const cp::plan_chunk& chunk, int64_t first,
                        const cp::manifest_head& head, uint32_t rank,
                        std::span<const group_sums> sums) {
  cp::footer f;
  f.job = head.job;
  f.epoch = head.epoch;
  f.step = head.step;
  f.rank = rank;
  f.layout = head.layout;
  f.slot_bytes = static_cast<uint32_t>(layout.array_bytes());  // CHF-4
  f.stream_bytes = layout.state_bytes();
  f.padded = true;
  for (const auto& of_group : sums)
    f.crc32c.insert(f.crc32c.end(), of_group.begin(), of_group.end());
  for (int g = 0; g < layout.groups(); ++g) {
    const auto begin = static_cast<uint64_t>(first + layout.first(g));
    const auto end = begin + static_cast<uint64_t>(layout.count(g));
    for (size_t p = 0; p < parts.size(); ++p)
      for (const auto& t : chunk.tensors)
        add(f.pieces, t, parts[p], begin, end, layout.offset(g, static_cast<state_part>(p)));
  }
  return f;
}

result<uint64_t> chunk_tail_bytes(const chunk_file& layout, const cp::plan_chunk& chunk,
                                  int64_t first, const std::string& job) {
  cp::manifest_head head;
  head.job = job;
  const std::vector<group_sums> sums(static_cast<size_t>(layout.groups()));
  TROUPE_TRY(tail, cp::encode_tail(chunk_footer(layout, chunk, first, head, 0, sums)));
  return tail.bytes.size();
}

}  // namespace troupe::io
