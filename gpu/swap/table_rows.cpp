// See table_rows.hpp.
#include "gpu/swap/table_rows.hpp"

#include <algorithm>

namespace troupe::gpu {

namespace {

std::vector<int32_t> sorted_once(row_ids ids) {
  std::vector<int32_t> out;
  for (const auto& some : ids) out.insert(out.end(), some.begin(), some.end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

row_piece piece_of(const io::chunk_file& layout, int64_t first, int64_t end) {
  row_piece p;
  p.group = static_cast<int>(first / layout.group_elements());
  p.first = first;
  p.count = std::min(end, layout.first(p.group) + layout.group_elements()) - first;
  const auto begin = static_cast<uint64_t>(first - layout.first(p.group)) * sizeof(float);
  p.skip = begin % io::disk_block;
  p.offset = begin - p.skip;
  p.span = io::block_up(p.skip + static_cast<uint64_t>(p.count) * sizeof(float));
  return p;
}

}  // namespace

std::vector<row_piece> pieces_of_rows(const io::chunk_file& layout, table_size table, row_ids ids,
                                      uint64_t slot_bytes) {
  const auto width = table.width;
  const auto wanted = sorted_once(ids);  // a copy: who writes the ids may do so again
  if (!wanted.empty() && (wanted.front() < 0 || wanted.back() >= table.rows)) return {};
  std::vector<row_piece> out;
  uint64_t used = 0, read = 0;
  for (const int64_t id : wanted)
    for (int64_t first = id * width; first < (id + 1) * width; first += out.back().count) {
      auto p = piece_of(layout, first, (id + 1) * width);
      p.at = used;
      read += io::state_parts * p.span;
      used = p.gradient() + io::block_up(static_cast<uint64_t>(p.count) * sizeof(float));
      if (used > slot_bytes || read >= layout.state_bytes() / 8) return {};
      out.push_back(p);
    }
  return out;
}

}  // namespace troupe::gpu
