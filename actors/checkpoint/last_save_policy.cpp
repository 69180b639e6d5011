// First, second, pause, and again.
#include "actors/checkpoint/last_save_policy.hpp"

namespace troupe::checkpoint {

namespace {

/// What room, a mended mount or a folder that is there again can change.
bool may_pass(const error& why) {
  return why.code == errc::io || why.code == errc::not_found || why.code == errc::permission;
}

}  // namespace

std::optional<last_save_policy::attempt> last_save_policy::failed(const error& why,
                                                                  int64_t now_ns) {
  if (!since_ns_) since_ns_ = now_ns;
  if (!may_pass(why)) return std::nullopt;
  if (second_ && latest_ == tier::first) {  // LST-1
    latest_ = tier::second;
    return attempt{latest_, 0};
  }
  latest_ = tier::first;
  if (now_ns - *since_ns_ + pause_ns > patience_ns_) return std::nullopt;  // LST-2
  return attempt{latest_, pause_ns};
}

}  // namespace troupe::checkpoint
