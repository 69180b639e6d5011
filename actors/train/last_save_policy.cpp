// First, second, pause, and again.
#include "actors/train/last_save_policy.hpp"

namespace troupe::train {

namespace {

/// What room, a mended mount or a folder that is there again can change.
bool may_pass(const error& why) {
  return why.code == errc::io || why.code == errc::not_found || why.code == errc::permission;
}

}  // namespace

std::string_view cause_of(const error& why) {
  const std::string_view text = why.message;
  const auto colon = text.rfind(": ");
  return colon == std::string_view::npos ? text : text.substr(colon + 2);
}

bool last_save_policy::is_news(std::string_view what, const error& why) {
  return said_.emplace(what, cause_of(why)).second;
}

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
  waited_ = true;
  return attempt{latest_, pause_ns};
}

}  // namespace troupe::train
