// Edges, groups and the replay: see the header.
#include "trace/whatif_graph.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

namespace troupe::trace {

namespace {

enum class whatif_stream : uint8_t {
  compute,
  data,
  forward_in,
  forward_out,
  backward_in,
  backward_out,
  count
};

/// Who transfers together.
enum class op_members : uint8_t { none, pair, replicas, alone, ends, all };

struct op_row {
  whatif_op op;
  std::string_view name;
  whatif_stream stream;
  op_members with;
};

constexpr op_row op_rows[] = {
    {whatif_op::forward, "forward", whatif_stream::compute, op_members::none},
    {whatif_op::backward, "backward", whatif_stream::compute, op_members::none},
    {whatif_op::receive_activation, "receive_activation", whatif_stream::forward_in,
     op_members::pair},
    {whatif_op::receive_gradient, "receive_gradient", whatif_stream::backward_in, op_members::pair},
    {whatif_op::send_activation, "send_activation", whatif_stream::forward_out, op_members::pair},
    {whatif_op::send_gradient, "send_gradient", whatif_stream::backward_out, op_members::pair},
    {whatif_op::all_gather, "all_gather", whatif_stream::data, op_members::replicas},
    {whatif_op::reduce_scatter, "reduce_scatter", whatif_stream::data, op_members::replicas},
    {whatif_op::all_reduce, "all_reduce", whatif_stream::data, op_members::replicas},
    {whatif_op::all_gather_norms, "all_gather_norms", whatif_stream::data, op_members::replicas},
    {whatif_op::reduce_norm_grads, "reduce_norm_grads", whatif_stream::data, op_members::alone},
    {whatif_op::reduce_embeddings, "reduce_embeddings", whatif_stream::data, op_members::ends},
    {whatif_op::clip, "clip", whatif_stream::data, op_members::all},
    {whatif_op::collect_garbage, "collect_garbage", whatif_stream::compute, op_members::none},
    {whatif_op::norm, "norm", whatif_stream::compute, op_members::none},
    {whatif_op::measure, "measure", whatif_stream::compute, op_members::none},
    {whatif_op::update, "update", whatif_stream::compute, op_members::none},
};
static_assert(std::size(op_rows) == whatif_ops);

constexpr const op_row& row_of(whatif_op op) noexcept {
  return op_rows[static_cast<size_t>(op)];
}
static_assert(std::all_of(std::begin(op_rows), std::end(op_rows),
                          [](const op_row& r) { return &row_of(r.op) == &r; }));

constexpr uint32_t no_span = std::numeric_limits<uint32_t>::max();

/// What ended so little after another began had ended before: times are rounded.
int64_t rounding_ns(const whatif_span& s) {
  return 1'000 + s.took_ns() / 100;
}

}  // namespace

std::string_view to_string(whatif_op op) noexcept {
  return row_of(op).name;
}

bool is_transfer(whatif_op op) noexcept {
  return row_of(op).with != op_members::none;
}

class whatif_builder {
 public:
  explicit whatif_builder(whatif_graph& g) : g_(g) {}

  status build(std::vector<whatif_span> spans) {
    TROUPE_CHECK(check(spans));
    keep_whole_steps(std::move(spans));
    connect_all();
    while (true) {
      const auto stuck = order();
      if (stuck.empty()) break;
      drop(stuck);
      connect_all();
    }
    if (g_.spans_.empty()) return no_whole_step();
    tell_steps();
    return {};
  }

 private:
  status check(const std::vector<whatif_span>& spans) const {
    const auto& l = g_.layout_;
    if (l.data < 1 || l.pipeline < 1 || l.cells() > max_whatif_cells)
      return error{errc::bad_data, fmt::format("a layout of {} x {} ranks is not within 1 and {}",
                                               l.data, l.pipeline, max_whatif_cells)};
    if (spans.size() >= no_span / 4)
      return error{errc::no_memory, fmt::format("{} spans are too many to replay", spans.size()),
                   "record fewer steps: a few dozen tell what thousands would"};
    for (const auto& s : spans)
      if (s.data < 0 || s.data >= l.data || s.pipeline < 0 || s.pipeline >= l.pipeline ||
          s.op >= whatif_op::count)
        return outside_layout(s.step, s.data, s.pipeline, l.data, l.pipeline);
    return {};
  }

  // -- WIG-1 --------------------------------------------------------------------------------------

  void keep_whole_steps(std::vector<whatif_span> spans) {
    const auto& l = g_.layout_;
    std::sort(spans.begin(), spans.end(), [&](const whatif_span& a, const whatif_span& b) {
      return std::tuple(a.step, l.cell(a), a.begin_ns, a.end_ns, a.op, a.number) <
             std::tuple(b.step, l.cell(b), b.begin_ns, b.end_ns, b.op, b.number);
    });
    using counts = std::map<std::pair<size_t, whatif_op>, uint32_t>;
    std::map<uint64_t, counts> has;
    std::set<uint64_t> wrong;  // a clock was set back in it
    for (const auto& s : spans) {
      ++has[s.step][{l.cell(s), s.op}];
      if (s.end_ns < s.begin_ns) wrong.insert(s.step);
    }
    const auto steps = has.size();
    for (const auto step : wrong) has.erase(step);
    std::map<counts, size_t> alike;
    for (const auto& [step, c] : has) ++alike[c];
    const counts* usual = nullptr;
    size_t most = 0;
    for (const auto& [c, n] : alike) {
      if (!complete(c) || n < most || (n == most && c.size() <= usual->size())) continue;
      usual = &c;
      most = n;
    }
    for (auto& s : spans)
      if (const auto it = has.find(s.step);
          usual != nullptr && it != has.end() && it->second == *usual)
        g_.spans_.push_back(s);
    g_.left_out_ = steps - (usual != nullptr ? most : 0);
  }

  /// Every cell computes.
  bool complete(const std::map<std::pair<size_t, whatif_op>, uint32_t>& c) const {
    for (size_t cell = 0; cell < g_.layout_.cells(); ++cell)
      if (!c.contains({cell, whatif_op::forward}) || !c.contains({cell, whatif_op::backward}))
        return false;
    return true;
  }

  void drop(const std::vector<uint64_t>& steps) {
    std::erase_if(g_.spans_, [&](const whatif_span& s) {
      return std::binary_search(steps.begin(), steps.end(), s.step);
    });
    g_.left_out_ += steps.size();
  }

  // -- groups and edges ---------------------------------------------------------------------------

  void connect_all() {
    const auto n = g_.spans_.size();
    g_.edges_.clear();
    g_.first_edge_.assign(1, 0);
    make_groups();
    for (size_t from = 0; from < n;) {
      auto to = from + 1;
      while (to < n && g_.spans_[to].step == g_.spans_[from].step &&
             g_.layout_.cell(g_.spans_[to]) == g_.layout_.cell(g_.spans_[from]))
        ++to;
      connect_cell(static_cast<uint32_t>(from), static_cast<uint32_t>(to));
      from = to;
    }
  }

  /// What transfers together bears the same key.
  std::tuple<uint64_t, int32_t, int64_t, whatif_op, int32_t, int32_t> key_of(const whatif_span& s,
                                                                             uint32_t index) const {
    const auto v =
        int64_t{s.chunk} * g_.layout_.pipeline + s.pipeline;  // the part of the whole model
    switch (row_of(s.op).with) {
      case op_members::pair:
        switch (s.op) {
          case whatif_op::send_activation:
            return {s.step, s.data, v + 1, whatif_op::receive_activation, 0, s.number};
          case whatif_op::send_gradient:
            return {s.step, s.data, v - 1, whatif_op::receive_gradient, 0, s.number};
          default:
            return {s.step, s.data, v, s.op, 0, s.number};
        }
      case op_members::replicas:
        return {s.step, 0, s.pipeline, s.op, s.chunk, s.number};
      case op_members::ends:
        return {s.step, s.data, 0, s.op, 0, s.number};
      case op_members::all:
        return {s.step, 0, 0, s.op, 0, s.number};
      default:
        return {s.step, s.data, s.pipeline, whatif_op::count, 0, static_cast<int32_t>(index)};
    }
  }

  void make_groups() {
    const auto& spans = g_.spans_;
    std::vector<uint32_t> by_key(spans.size());
    for (uint32_t i = 0; i < by_key.size(); ++i) by_key[i] = i;
    std::sort(by_key.begin(), by_key.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(key_of(spans[a], a), a) < std::tuple(key_of(spans[b], b), b);
    });
    g_.group_.assign(spans.size(), 0);
    g_.times_.assign(spans.size(), 0);
    g_.members_ = by_key;
    g_.first_member_.assign(1, 0);
    for (size_t from = 0; from < by_key.size();) {
      auto to = from;
      int64_t came = std::numeric_limits<int64_t>::min();
      const auto key = key_of(spans[by_key[from]], by_key[from]);
      for (; to < by_key.size() && key_of(spans[by_key[to]], by_key[to]) == key; ++to)
        came = std::max(came, spans[by_key[to]].begin_ns);
      for (auto at = from; at < to; ++at) {
        const auto& s = spans[by_key[at]];
        g_.group_[by_key[at]] = static_cast<uint32_t>(g_.first_member_.size() - 1);
        g_.times_[by_key[at]] = static_cast<double>(std::max<int64_t>(0, s.end_ns - came)) * 1e-9;
      }
      g_.first_member_.push_back(static_cast<uint32_t>(to));
      from = to;
    }
  }

  /// The span that is being connected waits for the end of this one.
  void add(uint32_t from) {
    if (from != no_span) g_.edges_.push_back({from, -1});
  }

  /// WIG-2.
  bool had_ended(uint32_t from, uint32_t to) const {
    const auto& s = g_.spans_[from];
    return s.end_ns <= g_.spans_[to].begin_ns + rounding_ns(s);
  }

  /// The spans [from, to) are a cell's of a step, in the order of their begin.
  void connect_cell(uint32_t from, uint32_t to) {
    std::array<uint32_t, static_cast<size_t>(whatif_stream::count)> last;
    last.fill(no_span);
    find_computes(from, to);
    head_gathers_.clear();
    for (auto i = from; i < to; ++i) {
      const auto& s = g_.spans_[i];
      const auto stream = row_of(s.op).stream;
      add(last[static_cast<size_t>(stream)]);
      if (stream == whatif_stream::compute)
        connect_compute(i, from);
      else if (stream == whatif_stream::data)
        connect_collective(i, last[static_cast<size_t>(whatif_stream::compute)]);
      else
        connect_neighbour(i);
      last[static_cast<size_t>(stream)] = i;
      g_.first_edge_.push_back(static_cast<uint32_t>(g_.edges_.size()));
    }
  }

  static uint64_t key(int32_t chunk, int32_t number) {
    return static_cast<uint64_t>(static_cast<uint32_t>(chunk)) << 32 |
           static_cast<uint32_t>(number);
  }

  void find_computes(uint32_t from, uint32_t to) {
    for (auto& m : by_number_) m.clear();
    before_.clear();
    std::array<uint32_t, 2> last = {no_span, no_span};
    for (auto i = from; i < to; ++i) {
      const auto& s = g_.spans_[i];
      by_number_[static_cast<size_t>(s.op)][key(s.chunk, s.number)] = i;
      if (s.op != whatif_op::forward && s.op != whatif_op::backward) continue;
      auto& before = last[s.op == whatif_op::backward];
      before_[i] = before;
      before = i;
    }
  }

  uint32_t find(whatif_op op, const whatif_span& like) const {
    const auto& m = by_number_[static_cast<size_t>(op)];
    const auto it = m.find(key(like.chunk, like.number));
    return it == m.end() ? no_span : it->second;
  }

  void connect_compute(uint32_t i, uint32_t cell_begin) {
    const auto& s = g_.spans_[i];
    if (s.op == whatif_op::forward || s.op == whatif_op::backward) {
      add(find(
          s.op == whatif_op::forward ? whatif_op::receive_activation : whatif_op::receive_gradient,
          s));
      for (const auto gather : head_gathers_)
        if (s.op == whatif_op::forward && g_.spans_[gather].chunk == s.chunk) add(gather);
      std::erase_if(head_gathers_, [&](uint32_t gather) {
        return s.op == whatif_op::forward && g_.spans_[gather].chunk == s.chunk;
      });
      return;
    }
    for (auto at = i; at > cell_begin;) {  // the last collective that had ended
      if (row_of(g_.spans_[--at].op).stream != whatif_stream::data || !had_ended(at, i)) continue;
      return add(at);
    }
  }

  void connect_collective(uint32_t i, uint32_t computed) {
    const auto& s = g_.spans_[i];
    if (s.op == whatif_op::all_gather &&
        (computed == no_span || g_.spans_[computed].op == whatif_op::forward))
      head_gathers_.push_back(i);
    if (computed == no_span) return;
    const auto& c = g_.spans_[computed];
    if (had_ended(computed, i)) return add(computed);
    // While it went on: a gather is of parameters that are there, others of what is being made.
    if (s.op == whatif_op::all_gather && c.op == whatif_op::forward) return;
    g_.edges_.push_back(
        {computed, static_cast<float>(s.begin_ns - c.begin_ns) / static_cast<float>(c.took_ns())});
  }

  void connect_neighbour(uint32_t i) {
    const auto& s = g_.spans_[i];
    const bool forward =
        s.op == whatif_op::send_activation || s.op == whatif_op::receive_activation;
    const auto compute = find(forward ? whatif_op::forward : whatif_op::backward, s);
    if (compute == no_span) return;
    const bool sends = s.op == whatif_op::send_activation || s.op == whatif_op::send_gradient;
    add(sends ? compute : before_[compute]);
  }

  // -- order --------------------------------------------------------------------------------------

  /// Fills order_; the steps that have operations which wait for themselves, where there are any.
  std::vector<uint64_t> order() {
    const auto n = static_cast<uint32_t>(g_.spans_.size());
    const auto groups = static_cast<uint32_t>(g_.first_member_.size() - 1);
    std::vector<uint32_t> waits(n + groups, 0), first(n + groups + 2, 0), next;
    const auto each = [&](auto&& f) {  // f(from, to)
      for (uint32_t i = 0; i < n; ++i) {
        f(i, n + g_.group_[i]);
        for (auto e = g_.first_edge_[i]; e < g_.first_edge_[i + 1]; ++e)
          f(n + g_.group_[g_.edges_[e].from], i);
      }
    };
    each([&](uint32_t from, uint32_t to) {
      ++waits[to];
      ++first[from + 2];
    });
    for (size_t i = 2; i < first.size(); ++i) first[i] += first[i - 1];
    next.resize(first.back());
    each([&](uint32_t from, uint32_t to) { next[first[from + 1]++] = to; });
    auto& out = g_.order_;
    out.clear();
    for (uint32_t i = 0; i < n; ++i)
      if (waits[i] == 0) out.push_back(i);
    for (size_t at = 0; at < out.size(); ++at)
      for (auto e = first[out[at]]; e < first[out[at] + 1]; ++e)
        if (--waits[next[e]] == 0) out.push_back(next[e]);
    std::vector<uint64_t> stuck;
    for (uint32_t i = 0; i < n; ++i)
      if (waits[n + g_.group_[i]] > 0 && (stuck.empty() || stuck.back() != g_.spans_[i].step))
        stuck.push_back(g_.spans_[i].step);
    return stuck;
  }

  void tell_steps() {
    const auto& spans = g_.spans_;
    std::vector<int64_t> ends;
    for (uint32_t i = 0; i < spans.size(); ++i) {
      if (i == 0 || spans[i].step != spans[i - 1].step) {
        g_.step_begins_.push_back(i);
        g_.step_begin_ns_.push_back(spans[i].begin_ns);
        ends.push_back(spans[i].end_ns);
      }
      g_.step_begin_ns_.back() = std::min(g_.step_begin_ns_.back(), spans[i].begin_ns);
      ends.back() = std::max(ends.back(), spans[i].end_ns);
    }
    for (size_t i = 0; i < ends.size(); ++i)
      g_.recorded_s_ += static_cast<double>(ends[i] - g_.step_begin_ns_[i]) * 1e-9;
    g_.recorded_s_ /= static_cast<double>(ends.size());
  }

  whatif_graph& g_;
  // Of the cell and step that is being connected.
  std::array<std::unordered_map<uint64_t, uint32_t>, whatif_ops> by_number_;
  std::unordered_map<uint32_t, uint32_t> before_;  ///< the compute of its kind before it
  std::vector<uint32_t> head_gathers_;             ///< that no forward has waited for yet
};

result<whatif_graph> whatif_graph::build(whatif_layout layout, std::vector<whatif_span> spans) {
  whatif_graph out;
  out.layout_ = std::move(layout);
  TROUPE_CHECK(whatif_builder(out).build(std::move(spans)));
  return out;
}

double whatif_graph::replay(const std::vector<double>& times_s) const {
  const auto n = spans_.size();
  std::vector<double> launch(n, 0), end(n, 0);
  for (const auto at : order_) {
    if (at < n) {
      double begin = 0;
      for (auto e = first_edge_[at]; e < first_edge_[at + 1]; ++e) {
        const auto& x = edges_[e];
        begin = std::max(
            begin, x.share < 0 ? end[x.from]
                               : launch[x.from] + static_cast<double>(x.share) * times_s[x.from]);
      }
      launch[at] = begin;
      continue;
    }
    double came = 0;
    const auto from = first_member_[at - n], to = first_member_[at - n + 1];
    for (auto m = from; m < to; ++m) came = std::max(came, launch[members_[m]]);
    for (auto m = from; m < to; ++m) end[members_[m]] = came + times_s[members_[m]];
  }
  double sum = 0;
  for (size_t s = 0; s < step_begins_.size(); ++s) {
    const auto to = s + 1 < step_begins_.size() ? step_begins_[s + 1] : n;
    sum += *std::max_element(end.begin() + step_begins_[s], end.begin() + static_cast<int64_t>(to));
  }
  return sum / static_cast<double>(steps());
}

std::vector<double> whatif_graph::launch_delays() const {
  std::vector<double> out(spans_.size(), 0);
  size_t step = 0;
  for (uint32_t i = 0; i < spans_.size(); ++i) {
    if (step + 1 < step_begins_.size() && i >= step_begins_[step + 1]) ++step;
    auto ready = static_cast<double>(step_begin_ns_[step]);
    for (auto e = first_edge_[i]; e < first_edge_[i + 1]; ++e) {
      const auto& x = edges_[e];
      const auto& s = spans_[x.from];
      ready = std::max(
          ready, x.share < 0 ? static_cast<double>(s.end_ns)
                             : static_cast<double>(s.begin_ns) +
                                   static_cast<double>(x.share) * static_cast<double>(s.took_ns()));
    }
    out[i] = std::max(0.0, static_cast<double>(spans_[i].begin_ns) - ready) * 1e-9;
  }
  return out;
}

}  // namespace troupe::trace
