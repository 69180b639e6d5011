// A job that exists on paper: ranks that run 1F1B with times that a test gives, told as the spans a
// trace would hold. It keeps its own account of who waits for whom, so that the graph has something
// to be compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "trace/whatif_graph.hpp"

namespace troupe::trace {

struct paper_job {
  int data = 1, stages = 1, batches = 4, steps = 3;
  /// Seconds that an operation takes of a step, data rank, stage and micro-batch.
  std::function<double(whatif_op, int, int, int, int)> takes = [](whatif_op op, int, int, int,
                                                                  int) { return usual(op); };
  /// Seconds that a rank dawdles before each of its computations.
  std::function<double(int, int)> dawdles = [](int, int) { return 0.0; };

  static double usual(whatif_op op) {
    switch (op) {
      case whatif_op::forward:
        return 1;
      case whatif_op::backward:
        return 2;
      case whatif_op::reduce_scatter:
        return 0.5;
      case whatif_op::update:
        return 0.25;
      default:
        return 0.01;
    }
  }

  std::vector<whatif_span> spans() {
    std::vector<whatif_span> out;
    for (int step = 0; step < steps; ++step) {
      step_ = step;
      ends_.clear();
      for (int d = 0; d < data; ++d)
        for (int p = 0; p < stages; ++p) tell_batches(d, p, out);
      for (int p = 0; p < stages; ++p) tell_end(p, out);
    }
    return out;
  }

  whatif_layout layout() const {
    whatif_layout l;
    l.data = data;
    l.pipeline = stages;
    return l;
  }

 private:
  struct piece {
    double begin = 0, end = 0;
  };

  /// What a stage computes, in its order: warm-up, pairs, cool-down.
  std::vector<std::pair<whatif_op, int>> order(int p) const {
    const int warm = std::min(batches, stages - p - 1);
    std::vector<std::pair<whatif_op, int>> out;
    int f = 0, b = 0;
    while (f < warm) out.emplace_back(whatif_op::forward, f++);
    while (f < batches) {
      out.emplace_back(whatif_op::forward, f++);
      out.emplace_back(whatif_op::backward, b++);
    }
    while (b < batches) out.emplace_back(whatif_op::backward, b++);
    return out;
  }

  piece compute(whatif_op op, int d, int p, int m) {
    const auto key = std::tuple(op, d, p, m);
    if (const auto it = ends_.find(key); it != ends_.end()) return it->second;
    const auto mine = order(p);
    const auto at = std::find(mine.begin(), mine.end(), std::pair(op, m)) - mine.begin();
    double ready = 0;
    if (at > 0) {
      const auto [before, number] = mine[static_cast<size_t>(at - 1)];
      ready = compute(before, d, p, number).end;
    }
    if (comes_from(op, p) >= 0) ready = std::max(ready, transfer(op, d, p, m).end);
    piece out;
    out.begin = ready + dawdles(d, p);
    out.end = out.begin + takes(op, step_, d, p, m);
    return ends_[key] = out;
  }

  int comes_from(whatif_op op, int p) const {
    const int from = op == whatif_op::forward ? p - 1 : p + 1;
    return from < stages ? from : -1;
  }

  static whatif_op receive(whatif_op op) {
    return op == whatif_op::forward ? whatif_op::receive_activation : whatif_op::receive_gradient;
  }

  /// Of what a computation needs: begin is when the receive was posted.
  piece transfer(whatif_op op, int d, int p, int m) {
    const auto posted = m > 0 ? compute(op, d, p, m - 1).end : 0;
    const auto sent = compute(op, d, comes_from(op, p), m).end;
    return {posted, std::max(posted, sent) + takes(receive(op), step_, d, p, m)};
  }

  void add(std::vector<whatif_span>& out, whatif_op op, int d, int p, int m, piece at) const {
    const auto ns = [&](double s) { return std::llround((s + 1000.0 * step_) * 1e9); };
    whatif_span s;
    s.step = static_cast<uint64_t>(step_) + 1;
    s.data = d;
    s.pipeline = p;
    s.op = op;
    s.number = m;
    s.begin_ns = ns(at.begin);
    s.end_ns = ns(at.end);
    out.push_back(s);
  }

  void tell_batches(int d, int p, std::vector<whatif_span>& out) {
    for (const auto& [op, m] : order(p)) {
      const auto own = compute(op, d, p, m);
      add(out, op, d, p, m, own);
      if (const auto from = comes_from(op, p); from >= 0) {
        const auto moved = transfer(op, d, p, m);
        add(out, receive(op), d, p, m, moved);
        const auto sent =
            op == whatif_op::forward ? whatif_op::send_activation : whatif_op::send_gradient;
        add(out, sent, d, from, m, {compute(op, d, from, m).end, moved.end});
      }
    }
  }

  void tell_end(int p, std::vector<whatif_span>& out) {
    std::vector<double> done;
    for (int d = 0; d < data; ++d) {
      const auto [op, m] = order(p).back();
      done.push_back(compute(op, d, p, m).end + dawdles(d, p));
    }
    const auto came = *std::max_element(done.begin(), done.end());
    for (int d = 0; d < data; ++d) {
      const auto moved = came + takes(whatif_op::reduce_scatter, step_, d, p, 0);
      add(out, whatif_op::reduce_scatter, d, p, 0, {done[static_cast<size_t>(d)], moved});
      add(out, whatif_op::update, d, p, 0,
          {moved, moved + takes(whatif_op::update, step_, d, p, 0)});
    }
  }

  int step_ = 0;
  std::map<std::tuple<whatif_op, int, int, int>, piece> ends_;
};

}  // namespace troupe::trace
