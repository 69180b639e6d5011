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
    sum += static_cast<int64_t>(p.servers) * watts_.prompt_mw(1, p.in_force);
  return sum;
}

uint64_t row_pools::unfinished(row_class c) const {
  const auto& p = pools_[static_cast<size_t>(c)];
  return p.waiting.size() + p.servers - p.idle.size();
}

double row_pools::factor(const server& s) const {
  const auto& clock = pools_[static_cast<size_t>(s.of)].in_force;
  return s.doing == phase::prompt ? clock.prompt_x : clock.token_x;
}

void row_pools::draw(server& s) {
  const auto& clock = pools_[static_cast<size_t>(s.of)].in_force;
  drawn_mw_ -= s.draws_mw;
  switch (s.doing) {
    case phase::idle:
      s.draws_mw = watts_.idle_mw();
      break;
    case phase::prompt:
      s.draws_mw = watts_.prompt_mw(prompt_peak(s.r.prompt_tokens), clock);
      break;
    case phase::tokens:
      s.draws_mw = watts_.token_mw(clock);
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

void row_pools::set_clock(row_class c, const row_clock& clock, int64_t now_ns) {
  auto& p = pool_of(c);
  const size_t first = c == row_class::low ? 0 : pools_[0].servers;
  for (size_t i = first; i < first + p.servers; ++i) {
    auto& s = servers_[i];
    if (s.doing == phase::idle) continue;
    s.left_ns -= static_cast<double>(now_ns - s.since_ns) / factor(s);
    s.since_ns = now_ns;
  }
  p.in_force = clock;
  for (size_t i = first; i < first + p.servers; ++i) {
    auto& s = servers_[i];
    if (s.doing == phase::idle) continue;
    draw(s);
    ends_.set(i, now_ns + std::max<int64_t>(0, std::llround(s.left_ns * factor(s))));
  }
}

void row_pools::lock(row_class c, int mhz, int64_t now_ns) {
  pool_of(c).locked = clock_of(mhz);
  if (!braked_) set_clock(c, pool_of(c).locked, now_ns);
}

void row_pools::brake(bool on, int mhz, int64_t now_ns) {
  braked_ = on;
  for (const auto c : {row_class::low, row_class::high})
    set_clock(c, on ? clock_of(mhz) : pool_of(c).locked, now_ns);
}

}  // namespace troupe::sim
