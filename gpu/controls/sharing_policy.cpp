// Looks to a verdict; see sharing_policy.hpp.
#include "gpu/controls/sharing_policy.hpp"

#include <utility>

namespace troupe::gpu::controls {

bool sharing_policy::look(unsigned others, int64_t now_ns) {
  if (others > 0) {
    others_ = others;
    const bool was_shared = std::exchange(found_ns_, now_ns).has_value();
    if (!was_shared && !std::exchange(told_shared_, true)) news_ = news::shared;
    return !was_shared;
  }
  if (!found_ns_ || now_ns - *found_ns_ < alone_for_ns_) return false;
  found_ns_.reset();
  if (!std::exchange(told_alone_, true)) news_ = news::alone;
  return true;
}

sharing_policy::news sharing_policy::take_news() {
  return std::exchange(news_, news::none);
}

}  // namespace troupe::gpu::controls
