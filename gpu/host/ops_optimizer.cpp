// The optimizers and the norm of gradients, split over the team. See host_ops.hpp.
#include <algorithm>
#include <cmath>

#include "gpu/host/host_ops.hpp"

namespace troupe::gpu::host {
namespace {

/// Elements summed by one thread into one double; sums of blocks are added in order (OPS-2), so a
/// norm does not depend on the number of threads.
constexpr int64_t sum_block = 65536;

int64_t blocks_of(const parameter_span& span) {
  return (span.count + sum_block - 1) / sum_block;
}

/// Calls f(block's first element, count, block's number within the span) over the span's blocks.
template <class F>
void each_block(thread_team& team, const parameter_span& span, F&& f) {
  team.for_each(blocks_of(span), [&](int64_t block, int) {
    const int64_t begin = block * sum_block;
    f(span.offset + begin, std::min(sum_block, span.count - begin), block);
  });
}

void adamw(const kernel_table& k, compute_context& context, const optimizer_args& a) {
  context.team.split(a.count, 1024, [&](int64_t begin, int64_t end, int) {
    for (int64_t s = 0; s < a.span_count; ++s) {
      const int64_t first = std::max(begin, a.spans[s].offset);
      const int64_t last = std::min(end, a.spans[s].offset + a.spans[s].count);
      if (first < last) k.adamw(a, first, last, a.spans[s].decay);
    }
  });
}

void lamb(const kernel_table& k, compute_context& context, const optimizer_args& a) {
  for (int64_t s = 0; s < a.span_count; ++s) {
    const parameter_span& span = a.spans[s];
    auto* norms = reinterpret_cast<double*>(
        context.scratch.get(static_cast<size_t>(2 * blocks_of(span)) * sizeof(double)));
    each_block(context.team, span, [&](int64_t begin, int64_t count, int64_t block) {
      k.lamb_norms(a, begin, begin + count, span.decay, norms + 2 * block);
    });
    double w2 = 0, r2 = 0;
    for (int64_t block = 0; block < blocks_of(span); ++block) {
      w2 += norms[2 * block];
      r2 += norms[2 * block + 1];
    }
    const bool trust = (span.decay || a.trust_always) && w2 > 0 && r2 > 0;
    const auto ratio = trust ? static_cast<float>(std::sqrt(w2) / std::sqrt(r2)) : 1.0f;
    each_block(context.team, span, [&](int64_t begin, int64_t count, int64_t) {
      k.lamb_apply(a, begin, begin + count, span.decay, ratio);
    });
  }
}

}  // namespace

void host_ops::optimizer_step(stream& s, const optimizer_args& a) {
  on_host(s).enqueue([a, &k = kernels_](compute_context& context) {
    a.kind == optimizer_args::rule::adamw ? adamw(k, context, a) : lamb(k, context, a);
  });
}

void host_ops::norm_squared(stream& s, const float* grad, const parameter_span* spans,
                            int64_t span_count, double* sum, double* per_span) {
  on_host(s).enqueue([=, &k = kernels_](compute_context& context) {
    for (int64_t i = 0; i < span_count; ++i) {
      const int64_t blocks = blocks_of(spans[i]);
      auto* part = reinterpret_cast<double*>(
          context.scratch.get(static_cast<size_t>(blocks) * sizeof(double)));
      each_block(context.team, spans[i], [&](int64_t begin, int64_t count, int64_t block) {
        part[block] = k.sum_squares(grad + begin, count);
      });
      double squares = 0;
      for (int64_t block = 0; block < blocks; ++block) squares += part[block];
      *sum += squares;
      if (per_span != nullptr) per_span[i] += squares;
    }
  });
}

void host_ops::clip_scale(stream& s, const double* norm_squared, float max_norm, float* scale) {
  on_host(s).enqueue([=](compute_context&) {
    const double factor = max_norm / (std::sqrt(*norm_squared) + 1e-6);
    *scale = max_norm == 0 ? 1.0f : static_cast<float>(std::min(1.0, factor));
  });
}

}  // namespace troupe::gpu::host
