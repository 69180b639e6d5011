// Stage by stage over (nodes used of each kind, layers done); once for the slowest stage, once more
// for the least sum of those that are not slower.
#include "actors/job/stage_split_policy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::train {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Seconds and bytes of any run of layers.
class layer_costs {
 public:
  explicit layer_costs(const split_question& q) : q_(q), bytes_(sums(q.layer_bytes)) {
    slot_bytes_ = sums(q.layer_slot_bytes);
    for (const auto& kind : q.kinds) seconds_.push_back(sums(kind.layer_s));
  }
  size_t layers() const { return q_.layer_bytes.size(); }

  /// Of layers [first, last) on a node of that kind as that stage; `never`: they have no room.
  double of(size_t kind, size_t stage, size_t first, size_t last) const {
    const auto& node = q_.kinds[kind];
    const bool begins = first == 0, ends = last == layers();
    const auto slots = static_cast<uint64_t>(q_.slots[stage]);
    const uint64_t bytes = bytes_[last] - bytes_[first] +
                           slots * (slot_bytes_[last] - slot_bytes_[first]) +
                           (begins ? q_.embedding_bytes : 0) + (ends ? q_.head_bytes : 0);
    if (node.memory_bytes != 0 && bytes > node.memory_bytes) return never;
    return seconds_[kind][last] - seconds_[kind][first] + (begins ? node.embedding_s : 0) +
           (ends ? node.head_s : 0);
  }

 private:
  template <class T>
  static std::vector<T> sums(const std::vector<T>& of) {
    std::vector<T> out{T{}};
    for (const auto& one : of) out.push_back(out.back() + one);
    return out;
  }

  const split_question& q_;
  std::vector<uint64_t> bytes_, slot_bytes_;
  std::vector<std::vector<double>> seconds_;
};

using counts = std::vector<size_t>;  // of nodes, by kind

/// How many nodes of each kind there are among some.
counts counted_kinds(const split_question& q, size_t first, size_t last) {
  counts out(q.kinds.size());
  for (size_t i = first; i < last; ++i) ++out[q.nodes[i]];
  return out;
}

/// All ways to take so many nodes of these kinds.
void ways_to_take(const counts& there, size_t nodes, counts& taken, std::vector<counts>& out) {
  const size_t kind = taken.size();
  if (kind == there.size()) {
    if (nodes == 0) out.push_back(taken);
    return;
  }
  for (size_t n = std::min(nodes, there[kind]) + 1; n-- > 0;) {
    taken.push_back(n);
    ways_to_take(there, nodes - n, taken, out);
    taken.pop_back();
  }
}

struct found_split {
  double slowest = never, sum = never;
  std::vector<int64_t> layers;
  std::vector<counts> kinds;  // of each stage
};

/// Searches the splits of some nodes of each kind.
class splitter {
 public:
  /// `choices`: of each stage, what nodes it may have.
  splitter(const split_question& q, const layer_costs& costs,
           std::vector<std::vector<counts>> choices)
      : costs_(costs),
        there_(counted_kinds(q, 0, q.nodes.size())),
        choices_(std::move(choices)),
        no_choice_(std::ranges::all_of(choices_, [](const auto& c) { return c.size() == 1; })),
        width_(costs.layers() + 1) {
    if (no_choice_) {
      states_ = choices_.size() + 1;
      return;
    }
    for (const auto n : there_) {
      strides_.push_back(states_);
      states_ *= n + 1;
    }
  }

  found_split search() {
    found_split out;
    run(never, [](double before, double stage) { return std::max(before, stage); });
    out.slowest = reached_.back();
    if (!std::isfinite(out.slowest)) return out;
    run(out.slowest, [](double before, double stage) { return before + stage; });
    out.sum = reached_.back();
    walk_back(out);
    return out;
  }

 private:
  struct came_from {
    uint32_t choice = 0, layers = 0;
  };

  size_t number_of(const counts& used) const {
    size_t out = 0;
    for (size_t k = 0; k < used.size(); ++k) out += strides_[k] * used[k];
    return out;
  }
  counts used_in(size_t state) const {
    counts out(there_.size());
    for (size_t k = 0; k < out.size(); ++k) out[k] = state / strides_[k] % (there_[k] + 1);
    return out;
  }
  /// Where stages have no choice a state is how many of them there are.
  size_t states_of(const counts& nodes) const { return no_choice_ ? 1 : number_of(nodes); }
  bool can_take(size_t state, const counts& more) const {
    if (no_choice_) return true;
    const auto used = used_in(state);
    for (size_t k = 0; k < used.size(); ++k)
      if (used[k] + more[k] > there_[k]) return false;
    return true;
  }
  double stage_cost(const std::vector<size_t>& kinds, size_t stage, size_t first,
                    size_t last) const {
    double out = 0;
    for (const size_t k : kinds) out = std::max(out, costs_.of(k, stage, first, last));
    return out;
  }

  /// The least of what `combine` makes of all stages, none of them slower than `most`.
  template <class Combine>
  void run(double most, Combine combine) {
    reached_.assign(states_ * width_, never);
    from_.assign(states_ * width_, {});
    reached_[0] = 0;
    std::vector<size_t> now{0};
    for (size_t stage = 0; stage < choices_.size(); ++stage) {
      std::vector<size_t> next;
      for (const size_t state : now) {
        for (size_t c = 0; c < choices_[stage].size(); ++c) {
          const auto& nodes = choices_[stage][c];
          if (!can_take(state, nodes)) continue;
          const size_t after = state + states_of(nodes);
          extend(stage, state, after, c, most, combine);
          next.push_back(after);
        }
      }
      std::sort(next.begin(), next.end());
      next.erase(std::unique(next.begin(), next.end()), next.end());
      now = std::move(next);
    }
  }

  template <class Combine>
  void extend(size_t stage, size_t state, size_t after, size_t choice, double most,
              Combine combine) {
    std::vector<size_t> kinds;
    for (size_t k = 0; k < there_.size(); ++k)
      if (choices_[stage][choice][k] > 0) kinds.push_back(k);
    const size_t left = choices_.size() - stage - 1;  // stages that need a layer each
    const size_t end = width_ - 1 - left;
    for (size_t first = stage; first < end; ++first) {
      const double before = reached_[state * width_ + first];
      if (!std::isfinite(before)) continue;
      for (size_t last = left == 0 ? end : first + 1; last <= end; ++last) {
        const double cost = stage_cost(kinds, stage, first, last);
        if (!std::isfinite(cost) || cost > most) break;  // more layers cost more (CUT-2)
        const double all = combine(before, cost);
        auto& best = reached_[after * width_ + last];
        if (all >= best) continue;
        best = all;
        from_[after * width_ + last] = {static_cast<uint32_t>(choice),
                                        static_cast<uint32_t>(last - first)};
      }
    }
  }

  void walk_back(found_split& out) const {
    size_t state = states_ - 1, last = width_ - 1;
    for (size_t stage = choices_.size(); stage-- > 0;) {
      const auto& from = from_[state * width_ + last];
      out.layers.push_back(from.layers);
      out.kinds.push_back(choices_[stage][from.choice]);
      last -= from.layers;
      state -= states_of(out.kinds.back());
    }
    std::reverse(out.layers.begin(), out.layers.end());
    std::reverse(out.kinds.begin(), out.kinds.end());
  }

  const layer_costs& costs_;
  counts there_;
  std::vector<std::vector<counts>> choices_;
  bool no_choice_;  // nodes stay
  size_t width_;
  counts strides_;
  size_t states_ = 1;
  std::vector<double> reached_;  // by state and layers done
  std::vector<came_from> from_;
};

/// In how many ways so many nodes can be taken.
double number_of_ways(const counts& there, size_t nodes) {
  std::vector<double> ways(nodes + 1);
  ways[0] = 1;
  for (const auto most : there)
    for (size_t n = nodes; n > 0; --n)  // from the end on: of the kinds before alone
      for (size_t taken = 1; taken <= std::min(most, n); ++taken) ways[n] += ways[n - taken];
  return ways[nodes];
}

/// Steps that the search takes at most; what it keeps in memory counts, too.
double steps_of(const split_question& q, const counts& there) {
  constexpr double steps_of_memory = 100;  // so that split_steps are 16 MB at most
  const auto stages = static_cast<double>(q.slots.size());
  const auto layers = static_cast<double>(q.layer_bytes.size());
  const size_t each = q.nodes.size() / q.slots.size();
  const double wide = layers - stages + 1;
  if (q.nodes_stay)
    return stages * static_cast<double>(each) * wide * (wide + 1) / 2 +
           steps_of_memory * (stages + 1) * (layers + 1);
  double states = 1;
  for (const auto n : there) states *= static_cast<double>(n + 1);
  // Of all states those of a stage's end alone come up.
  const double ends = std::max(stages, states / static_cast<double>(each));
  return ends * number_of_ways(there, each) * wide * (wide + 1) / 2 +
         steps_of_memory * states * (layers + 1);
}

/// Which nodes each stage has: of each kind in the order that they are in.
std::vector<size_t> nodes_by_stage(const split_question& q, const std::vector<counts>& kinds) {
  std::vector<size_t> out;
  std::vector<bool> taken(q.nodes.size());
  for (const auto& of_stage : kinds) {
    auto left = of_stage;
    for (size_t i = 0; i < q.nodes.size(); ++i) {
      if (taken[i] || left[q.nodes[i]] == 0) continue;
      taken[i] = true;
      --left[q.nodes[i]];
      out.push_back(i);
    }
  }
  return out;
}

std::string reason_of(const split_question& q, const stage_split& split) {
  const auto slowest = static_cast<size_t>(
      std::max_element(split.stage_s.begin(), split.stage_s.end()) - split.stage_s.begin());
  auto out = fmt::format("of {} layers the slowest is stage {} with {}: {:.3g} ms a micro-batch",
                         fmt::join(split.layers, ","), slowest, split.layers[slowest],
                         1e3 * split.slowest_s);
  if (split.now_s > 0 && split.layers != q.layers_now)
    out +=
        fmt::format("; with {} it is {:.3g} ms", fmt::join(q.layers_now, ","), 1e3 * split.now_s);
  if (!std::is_sorted(split.nodes.begin(), split.nodes.end())) out += "; nodes change their stages";
  return out;
}

}  // namespace

double slowest_stage_s(const split_question& q, const std::vector<int64_t>& layers) {
  const layer_costs costs(q);
  const size_t each = q.nodes.size() / q.slots.size();
  double out = 0;
  size_t first = 0;
  for (size_t stage = 0; stage < q.slots.size(); ++stage) {
    const size_t last = first + static_cast<size_t>(layers[stage]);
    for (size_t i = stage * each; i < (stage + 1) * each; ++i)
      out = std::max(out, costs.of(q.nodes[i], stage, first, last));
    first = last;
  }
  return std::isfinite(out) ? out : 0;
}

result<stage_split> best_split(const split_question& q) {
  const size_t stages = q.slots.size(), each = q.nodes.size() / stages;
  const layer_costs costs(q);
  const auto there = counted_kinds(q, 0, q.nodes.size());
  if (const double steps = steps_of(q, there); steps > split_steps)
    return split_too_large(q.layer_bytes.size(), q.kinds.size(), steps, split_steps);
  std::vector<std::vector<counts>> as_now;
  for (size_t stage = 0; stage < stages; ++stage)
    as_now.push_back({counted_kinds(q, stage * each, (stage + 1) * each)});
  auto found = splitter(q, costs, std::move(as_now)).search();
  if (!q.nodes_stay) {
    std::vector<counts> ways;
    counts taken;
    ways_to_take(there, each, taken, ways);
    constexpr double equal = 1 + 1e-9;  // sums in another order
    auto moved = splitter(q, costs, std::vector<std::vector<counts>>(stages, ways)).search();
    const bool as_good = found.slowest <= moved.slowest * equal && found.sum <= moved.sum * equal;
    if (!as_good) found = std::move(moved);
  }
  if (!std::isfinite(found.slowest)) return no_split_fits(q.layer_bytes.size(), stages);
  stage_split out;
  out.layers = found.layers;
  out.nodes = nodes_by_stage(q, found.kinds);
  size_t first = 0;
  for (size_t stage = 0; stage < stages; ++stage) {
    const size_t last = first + static_cast<size_t>(out.layers[stage]);
    double slowest = 0;
    for (size_t i = stage * each; i < (stage + 1) * each; ++i)
      slowest = std::max(slowest, costs.of(q.nodes[out.nodes[i]], stage, first, last));
    out.stage_s.push_back(slowest);
    first = last;
  }
  out.slowest_s = *std::max_element(out.stage_s.begin(), out.stage_s.end());
  if (!q.layers_now.empty()) out.now_s = slowest_stage_s(q, q.layers_now);
  out.reason = reason_of(q, out);
  return out;
}

}  // namespace troupe::train
