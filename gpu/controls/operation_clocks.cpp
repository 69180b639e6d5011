// From operations to wishes.
#include "gpu/controls/operation_clocks.hpp"

#include <cassert>
#include <chrono>
#include <utility>

namespace troupe::gpu::controls {

clock_table_ptr clock_table_of(std::vector<clocked_operation> operations, double set_s,
                               bool holds) {
  operations.push_back({holds ? operations.back().mhz : highest_clock_mhz, 1, 1});
  return std::make_shared<const stage_clocks_policy>(std::move(operations), set_s);
}

/// OCL-1
bool operation_clocks::is_of_one_thread() {
  const auto here = std::this_thread::get_id();
  if (thread_ == std::thread::id()) thread_ = here;
  return thread_ == here;
}

void operation_clocks::begin_pass(clock_table_ptr table) {
  assert(is_of_one_thread());
  counts_ = table && table_ && *table == *table_;
  table_ = std::move(table);
  begun_ = 0;
  setter_.wish(table_ ? table_->first_mhz() : highest_clock_mhz);
}

void operation_clocks::began() {
  assert(is_of_one_thread());
  if (begun_ == operations()) return;
  const size_t i = begun_++;
  if (counts_ && !setter_.is_at_least(table_->mhz_of(i))) ++late_;
  if (const auto w = table_->began(i)) ask(*w);
}

void operation_clocks::ended() {
  assert(is_of_one_thread());
  if (begun_ == 0) return;
  if (begun_ == operations()) return setter_.wish(table_->mhz_of(begun_));  // OCL-2
  if (const auto w = table_->ended(begun_ - 1)) ask(*w);
}

void operation_clocks::ask(const stage_clocks_policy::wish& w) {
  using seconds = std::chrono::duration<double>;
  setter_.wish(w.mhz, std::chrono::duration_cast<std::chrono::nanoseconds>(seconds(w.after_s)));
}

}  // namespace troupe::gpu::controls
