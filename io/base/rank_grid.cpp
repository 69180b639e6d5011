// The arithmetic of ranks: see the header for the layout.
#include "io/base/rank_grid.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace troupe {

bool rank_grid::possible(int64_t most_ranks) const noexcept {
  return data > 0 && tensor > 0 && pipeline > 0 && data <= most_ranks / tensor / pipeline;
}

grid_place rank_grid::place_of(int rank) const noexcept {
  return {rank / tensor % data, rank % tensor, rank / tensor / data};
}

int rank_grid::rank_of(const grid_place& place) const noexcept {
  return (place.pipeline * data + place.data) * tensor + place.tensor;
}

row_range rank_grid::rows_of(int data_rank, int64_t batch) const noexcept {
  return {data_rank * rows_each(batch), rows_each(batch)};
}

std::string rank_group::name() const {
  constexpr const char* names[] = {"data", "pipe", "tied"};
  return fmt::format("{}/{}", names[static_cast<size_t>(kind)], number);
}

rank_group grid_rank::group(group_kind kind) const {
  auto at = place();
  rank_group out;
  out.kind = kind;
  const bool along_data = kind == group_kind::data;
  out.number = (along_data ? at.pipeline : at.data) * grid.tensor + at.tensor;
  int& moving = along_data ? at.data : at.pipeline;
  const int count = along_data ? grid.data : grid.pipeline;
  const int step = kind == group_kind::tied ? std::max(1, count - 1) : 1;
  for (moving = 0; moving < count; moving += step) out.members.push_back(grid.rank_of(at));
  out.rank = static_cast<int>(std::find(out.members.begin(), out.members.end(), rank) -
                              out.members.begin());
  return out;
}

std::vector<rank_group> grid_rank::groups(bool tied) const {
  std::vector<rank_group> out{group(group_kind::data), group(group_kind::pipeline)};
  if (tied && (first() || last())) out.push_back(group(group_kind::tied));
  std::erase_if(out, [](const rank_group& g) { return g.size() == 1; });
  return out;
}

std::optional<int> grid_rank::along_pipeline(int by) const noexcept {
  auto at = place();
  at.pipeline += by;
  if (at.pipeline < 0 || at.pipeline >= grid.pipeline) return std::nullopt;
  return grid.rank_of(at);
}

}  // namespace troupe
