// Patterns, then slowness, then the bucket, then the limit.
#include "actors/capture/filter_policy.hpp"

#include <algorithm>

#include "io/base/text.hpp"

namespace troupe::trace {

bool filter_policy::fits_actor(uint32_t actor) {
  const auto known = actors_.find(actor);
  if (known != actors_.end()) return known->second;
  const auto path = path_of_(actor);
  const bool own = path.starts_with("observer") || path == "gateway";  // FIL-2
  const bool by_name = !rule_.actor.empty() && rule_.actor.front() != '*';
  const bool fit = glob_match(rule_.actor, path) && (!own || by_name);
  if (!path.empty()) actors_.emplace(actor, fit);
  return fit;
}

bool filter_policy::fits_message(record_kind kind, uint16_t type) {
  const uint32_t key = static_cast<uint32_t>(kind) << 16 | type;
  const auto known = messages_.find(key);
  if (known != messages_.end()) return known->second;
  return messages_.emplace(key, glob_match(rule_.message, name_of_(kind, type))).first->second;
}

bool filter_policy::fits(uint32_t actor, record_kind kind, uint16_t type) {
  return fits_actor(actor) && fits_message(kind, type);
}

bool filter_policy::take_token(int64_t now_ns) {
  if (rule_.rate_per_s == 0) return true;
  const double depth = rule_.rate_per_s;
  const double gained = static_cast<double>(now_ns - filled_ns_) * 1e-9 * depth;
  tokens_ = tokens_ < 0 ? depth : std::min(depth, tokens_ + std::max(0.0, gained));
  filled_ns_ = now_ns;
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

bool filter_policy::passes(const trace_record& r, int64_t now_ns) {
  if (exhausted() || !fits(r.actor, r.kind, r.type)) return false;
  if (rule_.slower_than_ns > 0) {
    const double slowest = std::max<double>(r.handling_s, r.waiting_s());
    if (slowest * 1e9 < static_cast<double>(rule_.slower_than_ns)) return false;
  }
  if (!take_token(now_ns)) {
    ++over_rate_;
    return false;
  }
  ++passed_;
  return true;
}

}  // namespace troupe::trace
