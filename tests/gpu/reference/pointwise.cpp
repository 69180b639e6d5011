// Embeddings, norms, rotary embedding, activations, casts: by the definition. See
// reference_ops.hpp.
#include <cmath>
#include <vector>

#include "tests/gpu/reference/reference_ops.hpp"

namespace troupe::gpu::reference {

void embedding_forward(const embedding_forward_args& a) {
  for (int64_t i = 0; i < a.batch * a.seq; ++i) {
    for (int64_t c = 0; c < a.width; ++c) {
      double value = get(a.token_table, a.type, a.tokens[i] * a.width + c);
      if (a.position_table != nullptr) {
        const int64_t position = i % a.seq - first_of(a.documents, i);
        value += get(a.position_table, a.type, position * a.width + c);
      }
      put(a.out, a.type, i * a.width + c, value);
    }
  }
}

namespace {

/// table[rows[i]] += dout[i], summed in float64 first.
void scatter_rows(const embedding_backward_args& a, float* table, int64_t rows, bool positions) {
  std::vector<double> sum(static_cast<size_t>(rows * a.width));
  for (int64_t i = 0; i < a.batch * a.seq; ++i) {
    const int64_t row = positions ? i % a.seq - first_of(a.documents, i) : a.tokens[i];
    for (int64_t c = 0; c < a.width; ++c) {
      sum[static_cast<size_t>(row * a.width + c)] += get(a.dout, a.type, i * a.width + c);
    }
  }
  for (size_t i = 0; i < sum.size(); ++i) table[i] = static_cast<float>(table[i] + sum[i]);
}

}  // namespace

void embedding_backward(const embedding_backward_args& a) {
  scatter_rows(a, a.d_token_table, a.vocab, false);
  if (a.d_position_table != nullptr) scatter_rows(a, a.d_position_table, a.seq, true);
}

void norm_forward(const norm_forward_args& a) {
  const auto width = static_cast<double>(a.width);
  std::vector<double> s(static_cast<size_t>(a.width));
  for (int64_t n = 0; n < a.tokens; ++n) {
    double total = 0, squares = 0;
    for (int64_t c = 0; c < a.width; ++c) {
      double& value = s[static_cast<size_t>(c)];
      value = get(a.x, a.type, n * a.width + c);
      if (a.residual != nullptr) value += get(a.residual, a.type, n * a.width + c);
      if (a.sum_out != nullptr) {  // what is normed is what backward will see: the stored sum
        put(a.sum_out, a.type, n * a.width + c, value);
        value = get(a.sum_out, a.type, n * a.width + c);
      }
      total += value;
    }
    const double mean = a.kind == norm_kind::layer ? total / width : 0.0;
    for (double value : s) squares += (value - mean) * (value - mean);
    const double rstd = 1.0 / std::sqrt(squares / width + static_cast<double>(a.eps));
    if (a.mean != nullptr) a.mean[n] = static_cast<float>(mean);
    a.rstd[n] = static_cast<float>(rstd);
    for (int64_t c = 0; c < a.width; ++c) {
      double y = (s[static_cast<size_t>(c)] - mean) * rstd * get(a.weight, a.type, c);
      if (a.bias != nullptr) y += get(a.bias, a.type, c);
      put(a.y, a.type, n * a.width + c, y);
    }
  }
}

void norm_backward(const norm_backward_args& a) {
  const auto width = static_cast<double>(a.width);
  std::vector<double> dweight(static_cast<size_t>(a.width)), dbias(static_cast<size_t>(a.width));
  for (int64_t n = 0; n < a.tokens; ++n) {
    const double mean = a.kind == norm_kind::layer ? a.mean[n] : 0.0;
    const double rstd = a.rstd[n];
    double sum_g = 0, sum_gh = 0;  // of g = dy*weight and of g*h, h the normed value
    for (int64_t c = 0; c < a.width; ++c) {
      const double h = (get(a.x, a.type, n * a.width + c) - mean) * rstd;
      const double dy = get(a.dy, a.type, n * a.width + c);
      const double g = dy * get(a.weight, a.type, c);
      sum_g += g;
      sum_gh += g * h;
      dweight[static_cast<size_t>(c)] += dy * h;
      dbias[static_cast<size_t>(c)] += dy;
    }
    if (a.kind == norm_kind::rms) sum_g = 0;
    for (int64_t c = 0; c < a.width; ++c) {
      const double h = (get(a.x, a.type, n * a.width + c) - mean) * rstd;
      const double g = get(a.dy, a.type, n * a.width + c) * get(a.weight, a.type, c);
      double dx = rstd * (g - sum_g / width - h * sum_gh / width);
      if (a.dresidual != nullptr) dx += get(a.dresidual, a.type, n * a.width + c);
      put(a.dx, a.type, n * a.width + c, dx);
    }
  }
  for (int64_t c = 0; c < a.width; ++c) {
    a.dweight[c] = static_cast<float>(a.dweight[c] + dweight[static_cast<size_t>(c)]);
    if (a.dbias == nullptr) continue;
    a.dbias[c] = static_cast<float>(a.dbias[c] + dbias[static_cast<size_t>(c)]);
  }
}

namespace {

/// Heads of a packed row that are normed, and of all.
struct head_counts {
  int64_t normed, all;
};
template <class Args>
head_counts count_heads(const Args& a) {
  return {a.heads + a.kv_heads, a.heads + 2 * a.kv_heads};
}

}  // namespace

void head_norm_forward(const head_norm_forward_args& a) {
  const auto [normed, all] = count_heads(a);
  const auto width = static_cast<double>(a.head_width);
  for (int64_t i = 0; i < a.batch * a.seq * normed; ++i) {
    const int64_t h = i % normed, at = (i / normed * all + h) * a.head_width;
    double squares = 0;
    for (int64_t d = 0; d < a.head_width; ++d) {
      const double value = get(a.qkv, a.type, at + d);
      put(a.before, a.type, i * a.head_width + d, value);
      squares += value * value;
    }
    const double rstd = 1.0 / std::sqrt(squares / width + static_cast<double>(a.eps));
    a.rstd[i] = static_cast<float>(rstd);
    const void* weight = h < a.heads ? a.q_weight : a.k_weight;
    for (int64_t d = 0; d < a.head_width; ++d)
      put(a.qkv, a.type, at + d, get(a.qkv, a.type, at + d) * rstd * get(weight, a.type, d));
  }
}

void head_norm_backward(const head_norm_backward_args& a) {
  const auto [normed, all] = count_heads(a);
  const auto width = static_cast<double>(a.head_width);
  std::vector<double> dweight(2 * static_cast<size_t>(a.head_width));
  for (int64_t i = 0; i < a.batch * a.seq * normed; ++i) {
    const int64_t h = i % normed, at = (i / normed * all + h) * a.head_width;
    const void* weight = h < a.heads ? a.q_weight : a.k_weight;
    const auto first = static_cast<size_t>(h < a.heads ? 0 : a.head_width);
    const double rstd = a.rstd[i];
    const auto normed_value = [&](int64_t d) {
      return get(a.before, a.type, i * a.head_width + d) * rstd;
    };
    double sum_gh = 0;
    for (int64_t d = 0; d < a.head_width; ++d) {
      const double dy = get(a.dqkv, a.type, at + d), value = normed_value(d);
      sum_gh += dy * get(weight, a.type, d) * value;
      dweight[first + static_cast<size_t>(d)] += dy * value;
    }
    for (int64_t d = 0; d < a.head_width; ++d) {
      const double g = get(a.dqkv, a.type, at + d) * get(weight, a.type, d);
      put(a.dqkv, a.type, at + d, rstd * (g - normed_value(d) * sum_gh / width));
    }
  }
  for (int64_t d = 0; d < a.head_width; ++d) {
    const auto q = static_cast<size_t>(d), k = static_cast<size_t>(a.head_width + d);
    a.dq_weight[d] = static_cast<float>(a.dq_weight[d] + dweight[q]);
    a.dk_weight[d] = static_cast<float>(a.dk_weight[d] + dweight[k]);
  }
}

void rope(const rope_args& a) {
  const int64_t half = a.head_width / 2, row = (a.heads + 2 * a.kv_heads) * a.head_width;
  for (int64_t n = 0; n < a.batch * a.seq; ++n) {
    const int64_t t = a.first_position + n % a.seq - first_of(a.documents, n);
    for (int64_t h = 0; h < a.heads + a.kv_heads; ++h) {
      for (int64_t d = 0; d < half; ++d) {
        const int64_t low = n * row + h * a.head_width + d, high = low + half;
        const double c = a.cosine[t * half + d];
        const double s = a.inverse ? -a.sine[t * half + d] : a.sine[t * half + d];
        const double u = get(a.qkv, a.type, low), v = get(a.qkv, a.type, high);
        put(a.qkv, a.type, low, u * c - v * s);
        put(a.qkv, a.type, high, v * c + u * s);
      }
    }
  }
}

namespace {

constexpr double gelu_c = 0.79788456080286535588;  // sqrt(2/pi)

/// The activation of one value (the gate's silu for swiglu) and its derivative.
struct curve {
  double value, slope;
};

curve evaluate(activation_kind kind, double x) {
  switch (kind) {
    case activation_kind::gelu_tanh: {
      const double t = std::tanh(gelu_c * (x + 0.044715 * x * x * x));
      const double inner = gelu_c * (1 + 3 * 0.044715 * x * x);
      return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner};
    }
    case activation_kind::gelu_erf: {
      const double phi = 0.5 * std::erfc(-x / std::sqrt(2.0));
      return {x * phi, phi + x * std::exp(-0.5 * x * x) * 0.39894228040143267794};
    }
    case activation_kind::swiglu: {
      const double sigma = 1 / (1 + std::exp(-x));
      return {x * sigma, sigma * (1 + x * (1 - sigma))};
    }
  }
  return {};
}

}  // namespace

void activation_forward(const activation_forward_args& a) {
  const bool gated = a.kind == activation_kind::swiglu;
  for (int64_t n = 0; n < a.tokens; ++n) {
    for (int64_t f = 0; f < a.width; ++f) {
      const int64_t at = n * a.width * (gated ? 2 : 1) + f;
      double y = evaluate(a.kind, get(a.x, a.type, at)).value;
      if (gated) y *= get(a.x, a.type, at + a.width);
      put(a.y, a.type, n * a.width + f, y);
    }
  }
}

void activation_backward(const activation_backward_args& a) {
  const bool gated = a.kind == activation_kind::swiglu;
  for (int64_t n = 0; n < a.tokens; ++n) {
    for (int64_t f = 0; f < a.width; ++f) {
      const int64_t at = n * a.width * (gated ? 2 : 1) + f;
      const double dy = get(a.dy, a.type, n * a.width + f);
      const curve c = evaluate(a.kind, get(a.x, a.type, at));
      const double up = gated ? get(a.x, a.type, at + a.width) : 1.0;
      put(a.dx, a.type, at, dy * c.slope * up);
      if (gated) put(a.dx, a.type, at + a.width, dy * c.value);
    }
  }
}

void cast(const cast_args& a) {
  for (int64_t i = 0; i < a.count; ++i) put(a.destination, a.to, i, get(a.source, a.from, i));
}

void add(const add_args& a) {
  for (int64_t i = 0; i < a.count; ++i)
    put(a.y, a.type, i, get(a.y, a.type, i) + get(a.x, a.type, i));
}

}  // namespace troupe::gpu::reference
