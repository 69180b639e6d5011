// Lines: appended to by each launch, compared by their marks.
#include "io/checkpoint/line.hpp"

#include <algorithm>
#include <random>

#include <fmt/format.h>

namespace troupe::io::checkpoint {

lineage continued(const lineage& from, uint64_t launch, uint64_t step) {
  auto out = from;
  if (out.size() >= max_launches) out.erase(out.begin() + 1);
  out.push_back({launch, step});  // LN-2
  return out;
}

bool leads_to(const lineage& line, const lineage& later) {
  if (line.empty()) return false;
  const auto own = line.back();
  return std::any_of(later.begin(), later.end(), [&](const launch_mark& m) {
    return m.launch == own.launch && own.step <= m.step;
  });
}

std::string name_of(const lineage& line) {
  return fmt::format("{:016x}", line.empty() ? 0 : line.front().launch);
}

uint64_t draw_launch() {
  std::random_device entropy;
  for (;;)
    if (const auto drawn = uint64_t{entropy()} << 32 | entropy(); drawn != 0) return drawn;
}

}  // namespace troupe::io::checkpoint
