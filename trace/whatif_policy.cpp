// Replays with parts of the times put right: see the header.
#include "trace/whatif_policy.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/base/median.hpp"

namespace troupe::trace {

namespace {

/// The lower of the two in the middle: of two cells the faster one is what the other should be.
double lower_median(std::vector<double> x) {
  const auto half = static_cast<ptrdiff_t>((x.size() - 1) / 2);
  std::nth_element(x.begin(), x.begin() + half, x.end());
  return x[static_cast<size_t>(half)];
}

bool is_between_stages(whatif_op op) noexcept {
  return op >= whatif_op::receive_activation && op <= whatif_op::send_gradient;
}

bool is_batch_work(whatif_op op) noexcept {
  return op == whatif_op::forward || op == whatif_op::backward;
}

class analyst {
 public:
  explicit analyst(const whatif_graph& g) : g_(g), layout_(g.layout()) {
    equalise();
    means();
    out_.steps = g.steps();
    out_.left_out = g.left_out();
    out_.recorded_s = g.recorded_s();
    out_.t_s = g.replay(g.times());
    out_.ideal_s = g.replay(ideal_);
    out_.s = out_.ideal_s > 0 ? out_.t_s / out_.ideal_s : 1;
  }

  straggler_report report() {
    slowdowns();
    worst_workers();
    out_.m_s =
        share_of(with_ideal([&](size_t i) { return span(i).pipeline + 1 == layout_.pipeline; }));
    out_.forward_backward = correlation();
    if (out_.s >= whatif_policy::least_slowdown) {
      judge_cells();
      judge_stages();
      judge_sequences();
      judge_links();
    }
    std::stable_sort(out_.causes.begin(), out_.causes.end(),
                     [](const auto& a, const auto& b) { return a.share > b.share; });
    judge_noise();
    return std::move(out_);
  }

 private:
  using times = std::vector<double>;

  const whatif_span& span(size_t i) const { return g_.spans()[i]; }
  size_t cell(size_t i) const { return layout_.cell(span(i)); }

  /// T_ideal's times: transfers of as many bytes alike, computations of a kind alike.
  void equalise() {
    std::map<std::pair<whatif_op, uint64_t>, times> by_kind;
    const auto kind = [&](size_t i) {
      return std::pair(span(i).op, is_transfer(span(i).op) ? span(i).bytes : 0);
    };
    for (size_t i = 0; i < g_.spans().size(); ++i) by_kind[kind(i)].push_back(g_.times()[i]);
    std::map<std::pair<whatif_op, uint64_t>, double> alike;
    for (auto& [k, x] : by_kind)
      alike[k] = is_transfer(k.first)
                     ? median(x)
                     : std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
    ideal_.resize(g_.spans().size());
    for (size_t i = 0; i < ideal_.size(); ++i) ideal_[i] = alike[kind(i)];
  }

  void means() {
    std::vector<std::array<size_t, whatif_ops>> counts(layout_.cells());
    out_.cells.resize(layout_.cells());
    for (int32_t d = 0; d < layout_.data; ++d)
      for (int32_t p = 0; p < layout_.pipeline; ++p) {
        auto& c = out_.cells[layout_.cell(d, p)];
        c.data = d;
        c.pipeline = p;
      }
    for (size_t i = 0; i < g_.spans().size(); ++i) {
      out_.cells[cell(i)].mean_s[op(i)] += g_.times()[i];
      ++counts[cell(i)][op(i)];
    }
    for (size_t c = 0; c < counts.size(); ++c)
      for (size_t o = 0; o < whatif_ops; ++o)
        if (counts[c][o] > 0) out_.cells[c].mean_s[o] /= static_cast<double>(counts[c][o]);
    for (size_t o = 0; o < whatif_ops; ++o)
      for (int32_t p = 0; p < layout_.pipeline; ++p) peer_[o].push_back(peer(o, p));
  }

  size_t op(size_t i) const { return static_cast<size_t>(span(i).op); }

  // -- replays ------------------------------------------------------------------------------------

  /// As recorded, but ideal where `which` says so.
  template <class F>
  times with_ideal(F which) const {
    auto out = g_.times();
    for (size_t i = 0; i < out.size(); ++i)
      if (which(i)) out[i] = ideal_[i];
    return out;
  }

  /// Ideal, but as recorded where `which` says so: the slowdown that comes of it.
  template <class F>
  double slowdown_of(F which) const {
    auto out = ideal_;
    for (size_t i = 0; i < out.size(); ++i)
      if (which(i)) out[i] = g_.times()[i];
    return out_.ideal_s > 0 ? g_.replay(out) / out_.ideal_s : 1;
  }

  double lost_s() const { return out_.t_s - out_.ideal_s; }

  double share_of_s(double without_s) const {
    return lost_s() > 1e-6 * out_.t_s ? (out_.t_s - without_s) / lost_s() : 0;
  }
  double share_of(const times& x) const { return share_of_s(g_.replay(x)); }

  void slowdowns() {
    std::vector<double> of_data, of_stage;
    for (int32_t d = 0; d < layout_.data; ++d)
      of_data.push_back(slowdown_of([&](size_t i) { return span(i).data == d; }));
    for (int32_t p = 0; p < layout_.pipeline; ++p)
      of_stage.push_back(slowdown_of([&](size_t i) { return span(i).pipeline == p; }));
    for (auto& c : out_.cells)
      c.slowdown =
          std::min(of_data[static_cast<size_t>(c.data)], of_stage[static_cast<size_t>(c.pipeline)]);
    std::array<bool, whatif_ops> has{};
    for (size_t i = 0; i < g_.spans().size(); ++i) has[op(i)] = true;
    for (size_t o = 0; o < whatif_ops; ++o)
      if (has[o]) out_.slowdown_by_op[o] = slowdown_of([&](size_t i) { return op(i) == o; });
  }

  void worst_workers() {
    std::vector<size_t> by_slowdown(out_.cells.size());
    std::iota(by_slowdown.begin(), by_slowdown.end(), size_t{0});
    std::stable_sort(by_slowdown.begin(), by_slowdown.end(), [&](size_t a, size_t b) {
      return out_.cells[a].slowdown > out_.cells[b].slowdown;
    });
    std::vector<bool> worst(out_.cells.size());
    for (size_t i = 0; i < (worst.size() * 3 + 99) / 100; ++i) worst[by_slowdown[i]] = true;
    out_.m_w = share_of(with_ideal([&](size_t i) { return worst[cell(i)]; }));
  }

  // -- causes -------------------------------------------------------------------------------------

  bool computes(size_t i) const { return !is_transfer(span(i).op); }

  /// The mean of an operation in the median cell of a stage.
  double peer(size_t o, int32_t stage) const {
    std::vector<double> x;
    for (int32_t d = 0; d < layout_.data; ++d)
      x.push_back(out_.cells[layout_.cell(d, stage)].mean_s[o]);
    return lower_median(std::move(x));
  }

  void tell(straggler_cause c) {
    c.share = share_of_s(c.without_s);
    if (c.share >= whatif_policy::least_share) out_.causes.push_back(std::move(c));
  }

  /// A step with the computations of these cells as long as those of their peers.
  double without(const std::vector<size_t>& cells) const {
    std::vector<bool> in(layout_.cells());
    for (const auto c : cells) in[c] = true;
    auto x = g_.times();
    for (size_t i = 0; i < x.size(); ++i) {
      const auto own = out_.cells[cell(i)].mean_s[op(i)];
      if (in[cell(i)] && computes(i) && own > 0) x[i] *= peer_[op(i)][stage(i)] / own;
    }
    return g_.replay(x);
  }

  size_t stage(size_t i) const { return static_cast<size_t>(span(i).pipeline); }

  /// Cells whose batches take longer than those of their stage's median cell.
  std::vector<size_t> slow_cells() const {
    std::vector<size_t> out;
    for (size_t c = 0; c < out_.cells.size(); ++c) {
      double own = 0, others = 0;
      for (const auto o : {whatif_op::forward, whatif_op::backward}) {
        own += out_.cells[c].mean_s[static_cast<size_t>(o)];
        others += peer_[static_cast<size_t>(o)][static_cast<size_t>(out_.cells[c].pipeline)];
      }
      if (own >= whatif_policy::slow_cell * others) out.push_back(c);
    }
    return out;
  }

  /// The smallest things that hold all slow cells: whole nodes, else cells.
  void judge_cells() {
    const auto slow = slow_cells();
    if (slow.empty()) return;
    const auto all_s = without(slow);
    if (share_of_s(all_s) < whatif_policy::least_share) return;
    std::map<std::string, size_t> cells_of;
    for (const auto& h : layout_.hosts) ++cells_of[h];
    std::map<std::string, std::vector<size_t>> slow_of;  // by node; "" where it is unknown
    for (const auto c : slow) slow_of[layout_.hosts.empty() ? "" : layout_.hosts[c]].push_back(c);
    for (const auto& [host, cells] : slow_of) {
      straggler_cause cause;
      const bool whole = !host.empty() && cells.size() == cells_of[host];
      cause.what = whole ? straggler_class::slow_host : straggler_class::slow_device;
      cause.cells = cells;
      std::vector<std::string> names;
      for (const auto c : cells) names.push_back(cell_name(layout_, c));
      cause.where = whole ? host : fmt::format("{}", fmt::join(names, " and "));
      cause.without_s = slow_of.size() == 1 ? all_s : without(cells);
      // Of two that are equally slow neither helps alone: they are told with what both are worth.
      if (share_of_s(cause.without_s) < whatif_policy::least_share) cause.without_s = all_s;
      tell(std::move(cause));
    }
  }

  void judge_stages() {
    if (layout_.pipeline < 2) return;
    const auto last = layout_.pipeline - 1;
    std::array<double, whatif_ops> alike{};
    for (size_t o = 0; o < whatif_ops; ++o)
      alike[o] = std::accumulate(peer_[o].begin(), peer_[o].end(), 0.0) /
                 static_cast<double>(peer_[o].size());
    const auto batch_s = [&](size_t p) {
      return peer_[static_cast<size_t>(whatif_op::forward)][p] +
             peer_[static_cast<size_t>(whatif_op::backward)][p];
    };
    const auto mean_s = alike[static_cast<size_t>(whatif_op::forward)] +
                        alike[static_cast<size_t>(whatif_op::backward)];
    const auto level = [&](auto which) {
      auto x = g_.times();
      for (size_t i = 0; i < x.size(); ++i)
        if (const auto own = peer_[op(i)][stage(i)];
            which(stage(i)) && is_batch_work(span(i).op) && own > 0)
          x[i] *= alike[op(i)] / own;
      return g_.replay(x);
    };
    straggler_cause cause;
    cause.what = straggler_class::last_stage;
    cause.stage = last;
    cause.where = fmt::format("stage {}", last);
    cause.without_s = level([&](size_t p) { return p == static_cast<size_t>(last); });
    if (batch_s(static_cast<size_t>(last)) > mean_s) tell(cause);
    size_t longest = 0;
    for (size_t p = 0; p < static_cast<size_t>(last); ++p)
      if (batch_s(p) > batch_s(longest)) longest = p;
    if (batch_s(longest) <= mean_s) return;
    cause.what = straggler_class::uneven_layers;
    cause.stage = static_cast<int32_t>(longest);
    cause.where = fmt::format("stage {}", longest);
    cause.without_s =
        level([&](size_t p) { return p < static_cast<size_t>(last) && batch_s(p) > mean_s; });
    tell(std::move(cause));
  }

  /// Of forward and backward of a micro-batch, both against the mean of their cell.
  double correlation() const {
    std::map<std::tuple<uint64_t, size_t, int32_t, int32_t>, double> forwards;
    const auto key = [&](size_t i) {
      return std::tuple(span(i).step, cell(i), span(i).chunk, span(i).number);
    };
    const auto part = [&](size_t i) {
      const auto mean = out_.cells[cell(i)].mean_s[op(i)];
      return mean > 0 ? g_.times()[i] / mean - 1 : 0;
    };
    for (size_t i = 0; i < g_.spans().size(); ++i)
      if (span(i).op == whatif_op::forward) forwards[key(i)] = part(i);
    double xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < g_.spans().size(); ++i) {
      if (span(i).op != whatif_op::backward) continue;
      const auto it = forwards.find(key(i));
      if (it == forwards.end()) continue;
      const auto x = it->second, y = part(i);
      xy += x * y;
      xx += x * x;
      yy += y * y;
    }
    return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
  }

  void judge_sequences() {
    if (out_.forward_backward < whatif_policy::least_correlation) return;
    auto x = g_.times();
    for (size_t i = 0; i < x.size(); ++i)
      if (is_batch_work(span(i).op)) x[i] = out_.cells[cell(i)].mean_s[op(i)];
    straggler_cause cause;
    cause.what = straggler_class::sequence_lengths;
    cause.without_s = g_.replay(x);
    tell(std::move(cause));
  }

  /// What a transfer goes over: two neighbours of a replica, or the replicas of a stage.
  std::pair<size_t, size_t> link_of(size_t i) const {
    const auto& s = span(i);
    const auto own = cell(i);
    const auto stage_by = [&](int by) {
      return layout_.cell(s.data, (s.pipeline + by + layout_.pipeline) % layout_.pipeline);
    };
    switch (s.op) {
      case whatif_op::send_activation:
      case whatif_op::receive_gradient:
        return std::minmax(own, stage_by(+1));
      case whatif_op::receive_activation:
      case whatif_op::send_gradient:
        return std::minmax(own, stage_by(-1));
      default:
        return {layout_.cell(0, s.pipeline), layout_.cell(layout_.data - 1, s.pipeline)};
    }
  }

  void judge_links() {
    const auto all = with_ideal([&](size_t i) { return !computes(i); });
    if (share_of(all) < whatif_policy::least_share) return;
    std::map<std::pair<size_t, size_t>, double> excess;
    for (size_t i = 0; i < g_.spans().size(); ++i)
      if (!computes(i)) excess[link_of(i)] += g_.times()[i] - ideal_[i];
    const auto worst =
        std::max_element(excess.begin(), excess.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;
        })->first;
    straggler_cause cause;
    cause.what = straggler_class::slow_link;
    cause.cells = {worst.first, worst.second};
    if (worst.first == worst.second) cause.cells.pop_back();
    cause.where = cell_name(layout_, worst.first);
    if (worst.first != worst.second) cause.where += " to " + cell_name(layout_, worst.second);
    cause.without_s =
        g_.replay(with_ideal([&](size_t i) { return !computes(i) && link_of(i) == worst; }));
    tell(std::move(cause));
  }

  /// Where operations begin the latest after all that they waited for.
  void judge_noise() {
    const auto noise = out_.t_s > 0 ? out_.recorded_s / out_.t_s - 1 : 0;
    if (noise < whatif_policy::noise_allowed) return;
    std::vector<double> delay_s(layout_.cells(), 0);
    const auto delays = g_.launch_delays();
    for (size_t i = 0; i < delays.size(); ++i)  // a receive is not begun, it comes
      if (!is_between_stages(span(i).op)) delay_s[cell(i)] += delays[i];
    const auto worst =
        static_cast<size_t>(std::max_element(delay_s.begin(), delay_s.end()) - delay_s.begin());
    straggler_cause cause;
    cause.what = straggler_class::host_noise;
    cause.share = noise;
    cause.without_s = out_.t_s;
    cause.cells = {worst};
    cause.where = layout_.hosts.empty() ? cell_name(layout_, worst) : layout_.hosts[worst];
    out_.causes.push_back(std::move(cause));
  }

  const whatif_graph& g_;
  const whatif_layout& layout_;
  times ideal_;
  std::array<std::vector<double>, whatif_ops> peer_;  ///< by operation and stage
  straggler_report out_;
};

}  // namespace

std::string_view to_string(straggler_class c) noexcept {
  constexpr std::string_view names[] = {"slow_host",  "slow_device",   "slow_link",
                                        "last_stage", "uneven_layers", "sequence_lengths",
                                        "host_noise"};
  return names[static_cast<size_t>(c)];
}

std::string cell_name(const whatif_layout& layout, size_t cell) {
  if (!layout.names.empty()) return layout.names[cell];
  const auto stages = static_cast<size_t>(layout.pipeline);
  return fmt::format("data rank {}, stage {}", cell / stages, cell % stages);
}

straggler_report whatif_policy::report() const {
  return analyst(graph_).report();
}

}  // namespace troupe::trace
