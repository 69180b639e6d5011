// Sums of ticks.
#include "actors/power/row_account.hpp"

#include <algorithm>

namespace troupe::power {

namespace {

constexpr double mw_ns_a_joule = 1e12;

}  // namespace

void row_account::tick(const row_look& look, int64_t now_ns) {
  sums_ = sums(now_ns);
  if (look.t2 <= 0) {
    over_since_ns_.reset();
  } else if (look.drawn_mw) {  // RAC-2
    const bool over =
        static_cast<double>(*look.drawn_mw) > look.t2 * static_cast<double>(look.cap_mw);
    if (!over)
      over_since_ns_.reset();
    else if (!over_since_ns_)
      over_since_ns_ = now_ns;
  }
  last_ = look;
  last_ns_ = now_ns;
}

row_account::totals row_account::sums(int64_t now_ns) const {
  auto out = sums_;
  if (!last_) return out;
  const int64_t for_ns = std::clamp<int64_t>(now_ns - last_ns_, 0, joined_ticks * tick_ns_);
  if (last_->low_capped) out.low_capped_ns += for_ns;
  if (last_->high_capped) out.high_capped_ns += for_ns;
  if (last_->braked) out.braked_ns += for_ns;
  if (last_->drawn_mw)
    out.energy_j +=
        static_cast<double>(*last_->drawn_mw) * static_cast<double>(for_ns) / mw_ns_a_joule;
  return out;
}

std::optional<int64_t> row_account::over_t2_ms(int64_t now_ns) const {
  if (!over_since_ns_) return std::nullopt;
  return std::max<int64_t>(0, now_ns - *over_since_ns_) / 1'000'000;
}

}  // namespace troupe::power
