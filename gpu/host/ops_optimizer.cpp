// The optimizers and the norm of gradients, split over the team. See host_ops.hpp.
#include <algorithm>
#include <cmath>

#include "gpu/host/host_ops.hpp"
#include "gpu/host/scratch_demand.hpp"

namespace troupe::gpu::host {
namespace {

/// Elements summed by one thread into one double; sums of blocks are added in order (OPS-2), so a
/// norm does not depend on the number of threads.
constexpr int64_t sum_block = 65536;

int64_t blocks_of(const parameter_span& span) {
  return norm_blocks(span.count);
}

/// Calls f(block's first element, count, block's number within the span) over the span's blocks.
template <class F>
void each_block(thread_team& team, const parameter_span& span, F&& f) {
  team.for_each(blocks_of(span), [&](int64_t block, int) {
    const int64_t begin = block * sum_block;
    f(span.offset + begin, std::min(sum_block, span.count - begin), block);
  });
}

void adamw(const kernel_table& k, compute_context& context, const optimizer_step_args& a) {
  context.team.split(a.count, 1024, [&](int64_t begin, int64_t end, int) {
    for (int64_t s = 0; s < a.span_count; ++s) {
      const int64_t first = std::max(begin, a.spans[s].offset);
      const int64_t last = std::min(end, a.spans[s].offset + a.spans[s].count);
      if (first < last) k.adamw(a, first, last, a.spans[s].decay);
    }
  });
}

struct lamb_sums {
  double w2 = 0, r2 = 0;
};

/// Moves m and v of a span.
lamb_sums lamb_norms(const kernel_table& k, compute_context& context, const optimizer_step_args& a,
                     const parameter_span& span) {
  auto* norms = reinterpret_cast<double*>(
      context.scratch.get(static_cast<size_t>(2 * blocks_of(span)) * sizeof(double)));
  each_block(context.team, span, [&](int64_t begin, int64_t count, int64_t block) {
    k.lamb_norms(a, begin, begin + count, span.decay, norms + 2 * block);
  });
  lamb_sums out;
  for (int64_t block = 0; block < blocks_of(span); ++block) {
    out.w2 += norms[2 * block];
    out.r2 += norms[2 * block + 1];
  }
  return out;
}

void lamb_apply(const kernel_table& k, compute_context& context, const optimizer_step_args& a,
                const parameter_span& span, const lamb_sums& sums) {
  const bool trust = (span.decay || a.trust_always) && sums.w2 > 0 && sums.r2 > 0;
  const auto ratio = trust ? static_cast<float>(std::sqrt(sums.w2) / std::sqrt(sums.r2)) : 1.0f;
  each_block(context.team, span, [&](int64_t begin, int64_t count, int64_t) {
    k.lamb_apply(a, begin, begin + count, span.decay, ratio);
  });
}

/// What all rows say of span s, added in their order.
lamb_sums sums_of_rows(const optimizer_step_args& a, int64_t s) {
  lamb_sums out;
  for (int64_t row = 0; row < a.norm_rows; ++row) {
    out.w2 += a.norms[row * a.norm_stride + 2 * s];
    out.r2 += a.norms[row * a.norm_stride + 2 * s + 1];
  }
  return out;
}

void lamb(const kernel_table& k, compute_context& context, const optimizer_step_args& a) {
  using phase = optimizer_step_args::phase;
  for (int64_t s = 0; s < a.span_count; ++s) {
    const parameter_span& span = a.spans[s];
    const auto sums = a.part == phase::apply ? sums_of_rows(a, s) : lamb_norms(k, context, a, span);
    if (a.part == phase::norms) {
      a.norms[2 * s] += sums.w2;
      a.norms[2 * s + 1] += sums.r2;
    } else {
      lamb_apply(k, context, a, span, sums);
    }
  }
}

}  // namespace

int64_t norm_blocks(int64_t elements) {
  return (elements + sum_block - 1) / sum_block;
}

void host_ops::optimizer_step(stream& s, const optimizer_step_args& a) {
  on_host(s).enqueue([a, &k = kernels_](compute_context& context) {
    a.kind == optimizer_step_args::rule::adamw ? adamw(k, context, a) : lamb(k, context, a);
  });
}

void host_ops::norm_squared(stream& s, const norm_squared_args& a) {
  on_host(s).enqueue([a, &k = kernels_](compute_context& context) {
    for (int64_t i = 0; i < a.span_count; ++i) {
      const int64_t blocks = blocks_of(a.spans[i]);
      auto* part = reinterpret_cast<double*>(
          context.scratch.get(static_cast<size_t>(blocks) * sizeof(double)));
      each_block(context.team, a.spans[i], [&](int64_t begin, int64_t count, int64_t block) {
        part[block] = k.sum_squares(a.grad + begin, count);
      });
      double squares = 0;
      for (int64_t block = 0; block < blocks; ++block) squares += part[block];
      *a.sum += squares;
      if (a.per_span != nullptr) a.per_span[i] += squares;
    }
  });
}

void host_ops::clip_scale(stream& s, const clip_scale_args& a) {
  on_host(s).enqueue([a](compute_context&) {
    const double factor = a.max_norm / (std::sqrt(*a.norm_squared) + 1e-6);
    *a.scale = a.max_norm == 0 ? 1.0f : static_cast<float>(std::min(1.0, factor));
  });
}

}  // namespace troupe::gpu::host
