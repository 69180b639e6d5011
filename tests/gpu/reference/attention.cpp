// Causal attention by the definition, one query at a time. See reference_ops.hpp.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/gpu/reference/reference_ops.hpp"

namespace troupe::gpu::reference {
namespace {

/// Where things are in packed qkv, for one batch row and query head.
template <class Args>
struct view {
  const Args& a;
  int64_t b, h;

  int64_t row(int64_t t) const {
    return (b * a.seq + t) * (a.heads + 2 * a.kv_heads) * a.head_width;
  }
  int64_t kv_head() const { return h / (a.heads / a.kv_heads); }
  int64_t q_at(int64_t t) const { return row(t) + h * a.head_width; }
  int64_t k_at(int64_t t) const { return row(t) + (a.heads + kv_head()) * a.head_width; }
  int64_t v_at(int64_t t) const {
    return row(t) + (a.heads + a.kv_heads + kv_head()) * a.head_width;
  }
  int64_t out_at(int64_t t) const { return ((b * a.seq + t) * a.heads + h) * a.head_width; }
  int64_t first_key(int64_t t) const {
    const int64_t first = first_of(a.documents, b * a.seq + t);
    return a.window > 0 ? std::max(first, t - a.window + 1) : first;
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(a.head_width)); }

  /// Scaled scores of query t against keys first_key(t)..t.
  void scores(int64_t t, std::vector<double>& out) const {
    out.assign(static_cast<size_t>(a.seq), 0.0);
    for (int64_t u = first_key(t); u <= t; ++u) {
      double sum = 0;
      for (int64_t d = 0; d < a.head_width; ++d) {
        sum += get(a.qkv, a.type, q_at(t) + d) * get(a.qkv, a.type, k_at(u) + d);
      }
      out[static_cast<size_t>(u)] = sum * scale();
    }
  }
};

void forward_head(const attention_forward_args& a, int64_t b, int64_t h) {
  const view<attention_forward_args> at{a, b, h};
  std::vector<double> p;
  for (int64_t t = 0; t < a.seq; ++t) {
    at.scores(t, p);
    double top = -INFINITY, total = 0;
    for (int64_t u = at.first_key(t); u <= t; ++u) top = std::max(top, p[static_cast<size_t>(u)]);
    for (int64_t u = at.first_key(t); u <= t; ++u) {
      total += std::exp(p[static_cast<size_t>(u)] - top);
    }
    const double lse = top + std::log(total);
    a.lse[(b * a.heads + h) * a.seq + t] = static_cast<float>(lse);
    for (int64_t d = 0; d < a.head_width; ++d) {
      double sum = 0;
      for (int64_t u = at.first_key(t); u <= t; ++u) {
        sum += std::exp(p[static_cast<size_t>(u)] - lse) * get(a.qkv, a.type, at.v_at(u) + d);
      }
      put(a.out, a.type, at.out_at(t) + d, sum);
    }
  }
}

/// Adds the gradients of one query head to dqkv (float64, all of it).
void backward_head(const attention_backward_args& a, int64_t b, int64_t h,
                   std::vector<double>& dqkv) {
  const view<attention_backward_args> at{a, b, h};
  const auto grad = [&](int64_t i) -> double& { return dqkv[static_cast<size_t>(i)]; };
  std::vector<double> p;
  for (int64_t t = 0; t < a.seq; ++t) {
    at.scores(t, p);
    const double lse = a.lse[(b * a.heads + h) * a.seq + t];
    double delta = 0;  // sum over d of dout * out = sum over keys of p * dp
    for (int64_t d = 0; d < a.head_width; ++d) {
      delta += get(a.dout, a.type, at.out_at(t) + d) * get(a.out, a.type, at.out_at(t) + d);
    }
    for (int64_t u = at.first_key(t); u <= t; ++u) {
      const double weight = std::exp(p[static_cast<size_t>(u)] - lse);
      double dp = 0;
      for (int64_t d = 0; d < a.head_width; ++d) {
        const double dout = get(a.dout, a.type, at.out_at(t) + d);
        dp += dout * get(a.qkv, a.type, at.v_at(u) + d);
        grad(at.v_at(u) + d) += weight * dout;
      }
      const double ds = weight * (dp - delta) * at.scale();
      for (int64_t d = 0; d < a.head_width; ++d) {
        grad(at.q_at(t) + d) += ds * get(a.qkv, a.type, at.k_at(u) + d);
        grad(at.k_at(u) + d) += ds * get(a.qkv, a.type, at.q_at(t) + d);
      }
    }
  }
}

}  // namespace

void attention_forward(const attention_forward_args& a) {
  for (int64_t b = 0; b < a.batch; ++b) {
    for (int64_t h = 0; h < a.heads; ++h) forward_head(a, b, h);
  }
}

/// The last rows of attention over all of them.
void attention_cached(const attention_cached_args& a) {
  const auto element = static_cast<int64_t>(size_of(a.type));
  std::vector<char> out(static_cast<size_t>(a.seq * a.heads * a.head_width * element));
  std::vector<float> lse(static_cast<size_t>(a.heads * a.seq));
  attention_forward({1, a.seq, a.heads, a.kv_heads, a.head_width, a.window, a.type, a.qkv,
                     out.data(), lse.data()});
  std::copy(out.end() - a.queries * a.heads * a.head_width * element, out.end(),
            static_cast<char*>(a.out));
}

void attention_backward(const attention_backward_args& a) {
  std::vector<double> dqkv(
      static_cast<size_t>(a.batch * a.seq * (a.heads + 2 * a.kv_heads) * a.head_width));
  for (int64_t b = 0; b < a.batch; ++b) {
    for (int64_t h = 0; h < a.heads; ++h) backward_head(a, b, h, dqkv);
  }
  for (size_t i = 0; i < dqkv.size(); ++i) put(a.dqkv, a.type, static_cast<int64_t>(i), dqkv[i]);
}

}  // namespace troupe::gpu::reference
