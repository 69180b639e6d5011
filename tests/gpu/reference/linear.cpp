// Matrix products and the head, by the definition. See reference_ops.hpp.
#include <cmath>
#include <vector>

#include "tests/gpu/reference/reference_ops.hpp"

namespace troupe::gpu::reference {

void linear_forward(const linear_forward_args& a) {
  for (int64_t n = 0; n < a.tokens; ++n) {
    for (int64_t o = 0; o < a.out; ++o) {
      double sum = a.bias != nullptr ? get(a.bias, a.type, o) : 0.0;
      for (int64_t i = 0; i < a.in; ++i) {
        sum += get(a.x, a.type, n * a.in + i) * get(a.w, a.type, o * a.in + i);
      }
      if (a.residual != nullptr) sum += get(a.residual, a.type, n * a.out + o);
      put(a.pre_gelu != nullptr ? a.pre_gelu : a.y, a.type, n * a.out + o, sum);
    }
  }
  if (a.pre_gelu == nullptr) return;
  activation_forward({activation_kind::gelu_tanh, a.tokens, a.out, a.type, a.pre_gelu, a.y});
}

void linear_backward_input(const linear_backward_input_args& a) {
  for (int64_t n = 0; n < a.tokens; ++n) {
    for (int64_t i = 0; i < a.in; ++i) {
      double sum = a.accumulate ? get(a.dx, a.type, n * a.in + i) : 0.0;
      for (int64_t o = 0; o < a.out; ++o) {
        sum += get(a.dy, a.type, n * a.out + o) * get(a.w, a.type, o * a.in + i);
      }
      put(a.dx, a.type, n * a.in + i, sum);
    }
  }
  if (a.pre_gelu == nullptr) return;
  activation_backward({activation_kind::gelu_tanh, a.tokens, a.in, a.type, a.pre_gelu, a.dx, a.dx});
}

void linear_backward_weight(const linear_backward_weight_args& a) {
  for (int64_t o = 0; o < a.out; ++o) {
    for (int64_t i = 0; i < a.in; ++i) {
      double sum = a.dw[o * a.in + i];
      for (int64_t n = 0; n < a.tokens; ++n) {
        sum += get(a.dy, a.type, n * a.out + o) * get(a.x, a.type, n * a.in + i);
      }
      a.dw[o * a.in + i] = static_cast<float>(sum);
    }
    if (a.dbias == nullptr) continue;
    double sum = a.dbias[o];
    for (int64_t n = 0; n < a.tokens; ++n) sum += get(a.dy, a.type, n * a.out + o);
    a.dbias[o] = static_cast<float>(sum);
  }
}

namespace {

/// Turns one row of logits into scale * (softmax - onehot); returns lse - logit of the target.
double softmax_gradient(std::vector<double>& row, int32_t target, double scale) {
  double top = -INFINITY, total = 0;
  for (double logit : row) top = std::max(top, logit);
  for (double logit : row) total += std::exp(logit - top);
  const double lse = top + std::log(total);
  const double loss = lse - row[static_cast<size_t>(target)];
  for (double& logit : row) logit = scale * std::exp(logit - lse);
  row[static_cast<size_t>(target)] -= scale;
  return loss;
}

}  // namespace

void head_loss(const head_loss_args& a) {
  std::vector<double> row(static_cast<size_t>(a.vocab));
  std::vector<double> dw(a.dw != nullptr ? static_cast<size_t>(a.vocab * a.width) : 0);
  for (int64_t n = 0; n < a.tokens; ++n) {
    for (int64_t c = 0; a.dx != nullptr && c < a.width; ++c) put(a.dx, a.type, n * a.width + c, 0);
    if (a.targets[n] < 0) continue;
    for (int64_t v = 0; v < a.vocab; ++v) {
      double sum = 0;
      for (int64_t c = 0; c < a.width; ++c) {
        sum += get(a.x, a.type, n * a.width + c) * get(a.w, a.type, v * a.width + c);
      }
      row[static_cast<size_t>(v)] = sum;
    }
    *a.loss_sum += softmax_gradient(row, a.targets[n], a.scale);
    for (int64_t c = 0; a.dx != nullptr && c < a.width; ++c) {
      double sum = 0;
      for (int64_t v = 0; v < a.vocab; ++v) {
        sum += row[static_cast<size_t>(v)] * get(a.w, a.type, v * a.width + c);
      }
      put(a.dx, a.type, n * a.width + c, sum);
    }
    for (int64_t i = 0; i < static_cast<int64_t>(dw.size()); ++i) {
      dw[static_cast<size_t>(i)] +=
          row[static_cast<size_t>(i / a.width)] * get(a.x, a.type, n * a.width + i % a.width);
    }
  }
  for (size_t i = 0; i < dw.size(); ++i) a.dw[i] = static_cast<float>(a.dw[i] + dw[i]);
}

}  // namespace troupe::gpu::reference
