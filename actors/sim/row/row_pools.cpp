// Phases of requests under changing clocks.
#include "actors/sim/row/row_pools.hpp"

#include <bit>
#include <cmath>

namespace troupe::sim {

phase_ends::phase_ends(size_t servers)
    : leaves_(std::bit_ceil(std::max<size_t>(2, servers))), at_(leaves_, never) {
  winner_.resize(2 * leaves_);
  for (size_t i = 0; i < leaves_; ++i) winner_[leaves_ + i] = static_cast<uint32_t>(i);
  for (size_t i = leaves_ - 1; i >= 1; --i) winner_[i] = winner_[2 * i];
}

void phase_ends::set(size_t server, int64_t at_ns) {
  at_[server] = at_ns;
  for (size_t i = (leaves_ + server) / 2; i >= 1; i /= 2) {
    const auto left = winner_[2 * i], right = winner_[2 * i + 1];
    winner_[i] = at_[left] <= at_[right] ? left : right;
  }
}

row_pools::row_pools(int lp_servers, int hp_servers, double power_scale)
    : watts_(power_scale),
      servers_(static_cast<size_t>(lp_servers + hp_servers)),
      ends_(servers_.size()) {
  pools_[0].servers = static_cast<size_t>(lp_servers);
  pools_[1].servers = static_cast<size_t>(hp_servers);
  for (size_t i = servers_.size(); i-- > 0;) {
    auto& s = servers_[i];
    s.of = i < pools_[0].servers ? row_class::low : row_class::high;
    s.draws_mw = watts_.idle_mw();
    drawn_mw_ += s.draws_mw;
    pool_of(s.of).idle.push_back(static_cast<uint32_t>(i));
  }
}

int64_t row_pools::most_mw() const {
  int64_t sum = 0;
  for (const auto& p : pools_)
    sum += static_cast<int64_t>(p.servers - p.braked) * watts_.prompt_mw(1, p.locked) +
           static_cast<int64_t>(p.braked) * watts_.prompt_mw(1, brake_clock_);
  return sum;
}

uint64_t row_pools::unfinished(row_class c) const {
  const auto& p = pools_[static_cast<size_t>(c)];
  return p.waiting.size() + p.servers - p.idle.size();
}

const row_clock& row_pools::clock(const server& s) const {
  return s.braked ? brake_clock_ : pools_[static_cast<size_t>(s.of)].locked;
}

double row_pools::factor(const server& s) const {
  return s.doing == phase::prompt ? clock(s).prompt_x : clock(s).token_x;
}

void row_pools::draw(server& s) {
  const auto& at = clock(s);
  drawn_mw_ -= s.draws_mw;
  switch (s.doing) {
    case phase::idle:
      s.draws_mw = watts_.idle_mw();
      break;
    case phase::prompt:
      s.draws_mw = watts_.prompt_mw(prompt_peak(s.r.prompt_tokens), at);
      break;
    case phase::tokens:
      s.draws_mw = watts_.token_mw(at);
      break;
  }
  drawn_mw_ += s.draws_mw;
}

void row_pools::begin(size_t i, phase doing, int64_t now_ns) {
  auto& s = servers_[i];
  s.doing = doing;
  s.since_ns = now_ns;
  draw(s);
  if (doing == phase::idle) return ends_.set(i, phase_ends::never);
  s.left_ns =
      1e9 * (doing == phase::prompt ? prompt_s(s.r.prompt_tokens) : token_s * s.r.output_tokens);
  ends_.set(i, now_ns + std::llround(s.left_ns * factor(s)));
}

void row_pools::start(size_t i, const waiting_request& w, int64_t now_ns) {
  servers_[i].r = w.r;
  servers_[i].came_ns = w.came_ns;
  begin(i, phase::prompt, now_ns);
}

void row_pools::arrive(row_class c, const row_request& r, int64_t now_ns) {
  auto& p = pool_of(c);
  if (!p.idle.empty()) {
    const auto i = p.idle.back();
    p.idle.pop_back();
    start(i, {r, now_ns}, now_ns);
  } else if (p.waiting.size() < p.servers) {
    p.waiting.push_back({r, now_ns});
  } else {
    ++p.counted.dropped;
  }
}

void row_pools::end_phase(int64_t now_ns) {
  const auto i = ends_.next();
  auto& s = servers_[i];
  if (s.doing == phase::prompt) return begin(i, phase::tokens, now_ns);
  auto& p = pool_of(s.of);
  p.counted.latency_s.push_back(static_cast<float>(static_cast<double>(now_ns - s.came_ns) / 1e9));
  if (p.waiting.empty()) {
    p.idle.push_back(static_cast<uint32_t>(i));
    return begin(i, phase::idle, now_ns);
  }
  const auto next = p.waiting.front();
  p.waiting.pop_front();
  start(i, next, now_ns);
}

/// What is left of a phase, before its clock changes.
void row_pools::stop(server& s, int64_t now_ns) {
  if (s.doing == phase::idle) return;
  s.left_ns -= static_cast<double>(now_ns - s.since_ns) / factor(s);
  s.since_ns = now_ns;
}

/// With the clock that it has from now on.
void row_pools::go_on(size_t i, int64_t now_ns) {
  auto& s = servers_[i];
  if (s.doing == phase::idle) return;
  draw(s);
  ends_.set(i, now_ns + std::max<int64_t>(0, std::llround(s.left_ns * factor(s))));
}

void row_pools::lock(row_class c, int mhz, int64_t now_ns) {
  const auto is_changed = [&](const server& s) { return s.of == c && !s.braked; };
  for (auto& s : servers_)
    if (is_changed(s)) stop(s, now_ns);
  pool_of(c).locked = clock_of(mhz);
  for (size_t i = 0; i < servers_.size(); ++i)
    if (is_changed(servers_[i])) go_on(i, now_ns);
}

void row_pools::set_braked(server& s, bool braked) {
  auto& of = pool_of(s.of).braked;
  of = of + (braked ? 1 : 0) - (s.braked ? 1 : 0);
  s.braked = braked;
}

void row_pools::brake(int mhz, int64_t now_ns) {
  for (auto& s : servers_) stop(s, now_ns);
  brake_clock_ = clock_of(mhz);
  for (size_t i = 0; i < servers_.size(); ++i) {
    set_braked(servers_[i], true);
    go_on(i, now_ns);
  }
}

void row_pools::release(const std::function<bool(size_t server)>& whose, int64_t now_ns) {
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (!servers_[i].braked || !whose(i)) continue;
    stop(servers_[i], now_ns);
    set_braked(servers_[i], false);
    go_on(i, now_ns);
  }
}

}  // namespace troupe::sim
