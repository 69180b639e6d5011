// Numbers that are looked at, one by one.
#include "actors/train/clocks_message.hpp"

#include <cmath>
#include <utility>
#include <vector>

namespace troupe::train {

namespace {

constexpr float operation_s_ceiling = 1e5F;

bool is_time(float s) {
  return std::isfinite(s) && s > 0 && s <= operation_s_ceiling;
}

}  // namespace

gpu::controls::clock_table_ptr clocks_in(const fbs::StageClocks& m, size_t operations) {
  const auto* mhz = m.mhz();
  const auto *lasts = m.lasts_s(), *shortest = m.shortest_s();
  if (operations == 0 || mhz == nullptr || lasts == nullptr || shortest == nullptr) return {};
  if (mhz->size() != operations || lasts->size() != operations || shortest->size() != operations)
    return {};
  if (!std::isfinite(m.set_s()) || m.set_s() < 0 || m.set_s() > operation_s_ceiling) return {};
  std::vector<gpu::controls::clocked_operation> out;
  for (flatbuffers::uoffset_t i = 0; i < mhz->size(); ++i) {
    const auto clock = mhz->Get(i);
    if (clock == 0 || clock > static_cast<uint32_t>(gpu::controls::highest_clock_mhz)) return {};
    if (!is_time(lasts->Get(i)) || !is_time(shortest->Get(i))) return {};
    out.push_back({static_cast<int>(clock), static_cast<double>(lasts->Get(i)),
                   static_cast<double>(shortest->Get(i))});
  }
  return gpu::controls::clock_table_of(std::move(out), static_cast<double>(m.set_s()), m.holds());
}

}  // namespace troupe::train
