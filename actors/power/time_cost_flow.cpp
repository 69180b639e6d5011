// Dinic's flows on what is critical, Dijkstra's distances to what is next.
#include "actors/power/time_cost_flow.hpp"

#include <algorithm>
#include <cassert>
#include <queue>
#include <utility>

namespace troupe::power {

void time_cost_flow::add(size_t from, size_t to, const std::vector<corner>& corners) {
  assert(from < to && to < times_.size() && !corners.empty());
  activities_.push_back({from, to, &corners});
}

void time_cost_flow::start() {
  ways_.assign(times_.size(), {});
  for (size_t i = 0; i < activities_.size(); ++i) {
    ways_[activities_[i].from].push_back({i, true});
    ways_[activities_[i].to].push_back({i, false});
  }
  // Nodes are in an order of time: one pass is enough.
  std::fill(times_.begin(), times_.end(), 0);
  for (size_t n = 0; n < times_.size(); ++n)
    for (const auto& w : ways_[n])
      if (w.forward) {
        const auto& a = activities_[w.activity];
        times_[a.to] = std::max(times_[a.to], times_[n] + a.corners->front().length);
      }
}

time_cost_flow::step time_cost_flow::step_of(const way& w) const {
  const auto& a = activities_[w.activity];
  const auto& corners = *a.corners;
  const int64_t between = times_[a.to] - times_[a.from];
  if (w.forward) {
    const auto& c = corners[a.piece];
    return {a.to, between - c.length, c.until - a.flow};
  }
  if (a.flow == 0) return {a.from, 0, 0};
  // Flow that fills a corner to its brim is taken back there, not at the next one.
  const auto piece = a.piece > 0 && a.flow == corners[a.piece - 1].until ? a.piece - 1 : a.piece;
  const int64_t below = piece == 0 ? 0 : corners[piece - 1].until;
  return {a.from, corners[piece].length - between, a.flow - below};
}

void time_cost_flow::push(const way& w, int64_t flow) {
  auto& a = activities_[w.activity];
  const auto& corners = *a.corners;
  a.flow += w.forward ? flow : -flow;
  while (a.flow >= corners[a.piece].until) ++a.piece;
  while (a.piece > 0 && a.flow < corners[a.piece - 1].until) --a.piece;
}

bool time_cost_flow::label() {
  label_.assign(times_.size(), -1);
  std::vector<size_t> open = {0};
  label_[0] = 0;
  for (size_t i = 0; i < open.size(); ++i)
    for (const auto& w : ways_[open[i]]) {
      const auto s = step_of(w);
      if (s.room <= 0 || s.slack != 0 || label_[s.to] >= 0) continue;
      label_[s.to] = label_[open[i]] + 1;
      open.push_back(s.to);
    }
  return label_.back() >= 0;
}

int64_t time_cost_flow::augment() {
  path_.clear();
  size_t here = 0;
  const size_t last = times_.size() - 1;
  while (here != last) {
    bool on = false;
    for (auto& tried = tried_[here]; tried < ways_[here].size(); ++tried) {
      const auto& w = ways_[here][tried];
      const auto s = step_of(w);
      if (s.room <= 0 || s.slack != 0 || label_[s.to] != label_[here] + 1) continue;
      path_.push_back(w);
      here = s.to;
      on = true;
      break;
    }
    if (on) continue;
    if (path_.empty()) return 0;
    const auto& back = activities_[path_.back().activity];
    here = path_.back().forward ? back.from : back.to;
    path_.pop_back();
    ++tried_[here];
  }
  int64_t least = no_bound;
  bool bounded = false;
  for (const auto& w : path_) {
    const auto& a = activities_[w.activity];
    if (w.forward && (*a.corners)[a.piece].until == no_bound) continue;
    bounded = true;
    least = std::min(least, step_of(w).room);
  }
  if (!bounded) return no_bound;
  for (const auto& w : path_) push(w, least);
  return least;
}

bool time_cost_flow::saturate() {
  while (label()) {
    tried_.assign(times_.size(), 0);
    for (int64_t more = augment(); more != 0; more = augment())
      if (more == no_bound) return false;
  }
  return true;
}

bool time_cost_flow::move_times() {
  using entry = std::pair<int64_t, size_t>;
  std::priority_queue<entry, std::vector<entry>, std::greater<>> open;
  distance_.assign(times_.size(), no_bound);
  distance_[0] = 0;
  open.push({0, 0});
  while (!open.empty()) {
    const auto [far, here] = open.top();
    open.pop();
    if (far > distance_[here]) continue;
    if (here + 1 == times_.size()) break;
    for (const auto& w : ways_[here]) {
      const auto s = step_of(w);
      if (s.room <= 0 || far + s.slack >= distance_[s.to]) continue;
      distance_[s.to] = far + s.slack;
      open.push({far + s.slack, s.to});
    }
  }
  const int64_t whole = distance_.back();
  if (whole == no_bound || whole == 0) return false;
  for (size_t n = 0; n < times_.size(); ++n) times_[n] -= std::min(distance_[n], whole);
  return true;
}

bool time_cost_flow::shorten() {
  return saturate() && move_times();
}

}  // namespace troupe::power
