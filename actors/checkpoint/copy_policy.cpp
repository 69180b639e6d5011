// One under way, one waiting.
#include "actors/checkpoint/copy_policy.hpp"

#include <utility>

namespace troupe::checkpoint {

void copy_policy::committed(load what) {
  if (every_ > 1 && what.step % every_ != 0) return;
  const auto newest = waiting_ ? waiting_ : under_way_;
  if (newest && newest->step >= what.step) {  // two commits may change places
    ++counts_.passed_over;
    return;
  }
  if (waiting_) ++counts_.passed_over;  // REP-1
  waiting_ = std::move(what);
}

void copy_policy::last(load what) {
  if (waiting_ && waiting_->step != what.step) ++counts_.passed_over;
  waiting_.reset();
  if (!under_way_ || under_way_->step != what.step) waiting_ = std::move(what);  // REP-2
}

std::optional<copy_policy::load> copy_policy::next() {
  if (under_way_ || !waiting_) return std::nullopt;
  under_way_ = std::exchange(waiting_, std::nullopt);
  return under_way_;
}

copy_policy::news copy_policy::ended(const status& how) {
  const auto what = std::exchange(under_way_, std::nullopt);
  if (!what) return news::none;
  if (how) {
    ++counts_.copied;
    if (!durable_ || *durable_ < what->step) durable_ = what->step;
    return std::exchange(failing_, false) ? news::works_again : news::none;
  }
  if (how.error().code == errc::not_found) {
    ++counts_.passed_over;
    return news::none;
  }
  ++counts_.failed;
  return std::exchange(failing_, true) ? news::none : news::failed;  // REP-3
}

}  // namespace troupe::checkpoint
