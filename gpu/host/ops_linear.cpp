// Matrix products and the head with its loss, split over the team. See host_ops.hpp.
#include <algorithm>

#include "gpu/host/dnnl_gemm.hpp"
#include "gpu/host/host_ops.hpp"
#include "gpu/host/scratch_demand.hpp"

namespace troupe::gpu::host {
namespace {

constexpr int64_t row_grain = 32;  // rows of C a share is a multiple of: whole tiles

int64_t largest_share(int64_t items, int threads) {
  const int64_t blocks = (items + row_grain - 1) / row_grain;
  return std::min(items, (blocks + threads - 1) / threads * row_grain);
}

/// Which library multiplies: the one that was the faster. Our own products reach what oneDNN's do
/// or more (they fetch ahead and touch C once), but for very deep ones of float32 operands as they
/// lie in memory.
bool by_dnnl(const kernel_table& k, const gemm_args& g) {
  return k.dnnl_f32 && g.type == dtype::f32 && !g.transposed_a && !g.transposed_b && g.k >= 4096;
}

/// One thread's share of a product.
void multiply(const kernel_table& k, const gemm_args& g, std::byte* scratch) {
  by_dnnl(k, g) ? dnnl_gemm(g) : k.gemm(g, scratch);
}

/// How a product is split.
struct gemm_split {
  bool by_rows = true;
  gemm_args largest;  ///< share
  size_t piece = 0;   ///< of scratch for each thread
};

/// By rows of C or by columns: each thread packs all of the operand that is not split, so that is
/// to be the smaller one. Tiles read rows of A where they lie, and there B is the only one.
gemm_split split_of(const kernel_table& k, const gemm_args& whole, int threads) {
  const bool in_place =
      k.burn_tiles_bf16 != nullptr && whole.type == dtype::bf16 && !whole.transposed_a;
  gemm_split out{in_place ? whole.n < threads * row_grain * 4 : whole.m >= whole.n, whole, 0};
  auto& cut = out.by_rows ? out.largest.m : out.largest.n;
  cut = largest_share(cut, threads);
  out.piece = round_to_line(k.gemm_memory(out.largest));
  return out;
}

void team_gemm(const kernel_table& k, compute_context& context, const gemm_args& whole) {
  thread_team& team = context.team;
  const auto split = split_of(k, whole, team.threads());
  const bool by_rows = split.by_rows;
  const size_t piece = split.piece;
  std::byte* scratch = context.packing.get(piece * static_cast<size_t>(team.threads()));
  if (by_rows) {
    team.split(whole.m, row_grain, [&](int64_t begin, int64_t end, int member) {
      gemm_args part = whole;
      part.m = end - begin;
      part.a = at(whole.a, whole.type, whole.transposed_a ? begin : begin * whole.lda);
      part.c = at(whole.c, whole.out_type, begin * whole.ldc);
      if (whole.residual != nullptr) {
        part.residual = at(whole.residual, whole.type, begin * whole.ldc);
      }
      if (whole.a_sums != nullptr) part.a_sums = whole.a_sums + begin;
      multiply(k, part, scratch + piece * static_cast<size_t>(member));
    });
    return;
  }
  team.split(whole.n, row_grain, [&](int64_t begin, int64_t end, int member) {
    gemm_args part = whole;
    part.n = end - begin;
    part.b = at(whole.b, whole.type, whole.transposed_b ? begin * whole.ldb : begin);
    part.c = at(whole.c, whole.out_type, begin);
    if (whole.bias != nullptr) part.bias = at(whole.bias, whole.type, begin);
    if (whole.residual != nullptr) part.residual = at(whole.residual, whole.type, begin);
    if (begin > 0) part.a_sums = nullptr;
    multiply(k, part, scratch + piece * static_cast<size_t>(member));
  });
}

gemm_args product_of(const linear_forward_args& a) {
  return {.m = a.tokens,
          .n = a.out,
          .k = a.in,
          .type = a.type,
          .out_type = a.type,
          .a = a.x,
          .lda = a.in,
          .b = a.w,
          .ldb = a.in,
          .transposed_b = true,
          .c = a.pre_gelu != nullptr ? a.pre_gelu : a.y,
          .ldc = a.out,
          .bias = a.bias,
          .residual = a.residual};
}

gemm_args product_of(const linear_backward_input_args& a) {
  return {.m = a.tokens,
          .n = a.in,
          .k = a.out,
          .type = a.type,
          .out_type = a.type,
          .a = a.dy,
          .lda = a.out,
          .b = a.w,
          .ldb = a.in,
          .c = a.dx,
          .ldc = a.in,
          .accumulate = a.accumulate};
}

gemm_args product_of(const linear_backward_weight_args& a) {
  return {.m = a.out,
          .n = a.in,
          .k = a.tokens,
          .type = a.type,
          .out_type = dtype::f32,
          .a = a.dy,
          .lda = a.out,
          .transposed_a = true,
          .b = a.x,
          .ldb = a.in,
          .c = a.dw,
          .ldc = a.in,
          .accumulate = true,
          .a_sums = a.dbias};
}

}  // namespace

scratch_demand demand_of(const kernel_table& k, const gemm_args& whole, int threads) {
  const auto split = split_of(k, whole, threads);
  const auto all = static_cast<size_t>(threads);
  const bool deep = by_dnnl(k, split.largest);
  return {0, split.piece * all, deep ? dnnl_scratch_bytes(split.largest) * all : 0};
}

scratch_demand demand_of(const kernel_table& k, const linear_forward_args& a, int threads) {
  return demand_of(k, product_of(a), threads);
}

scratch_demand demand_of(const kernel_table& k, const linear_backward_input_args& a, int threads) {
  return demand_of(k, product_of(a), threads);
}

scratch_demand demand_of(const kernel_table& k, const linear_backward_weight_args& a,
                         int threads) {
  return demand_of(k, product_of(a), threads);
}

void host_ops::linear_forward(stream& s, const linear_forward_args& a) {
  on_host(s).enqueue([a, &k = kernels_](compute_context& context) {
    team_gemm(k, context, product_of(a));
  });
  if (a.pre_gelu == nullptr) return;
  activation_forward(s, {activation_kind::gelu_tanh, a.tokens, a.out, a.type, a.pre_gelu, a.y});
}

void host_ops::linear_backward_input(stream& s, const linear_backward_input_args& a) {
  on_host(s).enqueue([a, &k = kernels_](compute_context& context) {
    team_gemm(k, context, product_of(a));
  });
  if (a.pre_gelu == nullptr) return;
  activation_backward(s,
                      {activation_kind::gelu_tanh, a.tokens, a.in, a.type, a.pre_gelu, a.dx, a.dx});
}

void host_ops::linear_backward_weight(stream& s, const linear_backward_weight_args& a) {
  on_host(s).enqueue([a, &k = kernels_](compute_context& context) {
    team_gemm(k, context, product_of(a));
  });
}

namespace {

/// Memory for the logits, or the gradient, of one slab of tokens, at most.
constexpr int64_t slab_bytes = int64_t{128} << 20;

/// Working memory of head_loss: logits of a slab (where the kernels need them), their gradient
/// (the same memory in float32), losses.
struct head_memory {
  float* logits;
  void* gradient;
  double* losses;
};

/// Elements between rows of logits and of their gradient: whole cache lines, and never a multiple
/// of 4 KiB, at which rows would evict each other.
int64_t row_stride(int64_t vocab) {
  const int64_t stride = (vocab + 31) / 32 * 32;
  return stride % 1024 == 0 ? stride + 32 : stride;
}

bool keeps_logits(const kernel_table& k, const head_loss_args& a) {
  return a.type == dtype::f32 || k.head_gradient == nullptr;
}

int64_t slab_tokens(const kernel_table& k, const head_loss_args& a) {
  const int64_t per_token = row_stride(a.vocab) * (keeps_logits(k, a) ? 4 : 2);
  const int64_t most = std::max<int64_t>(row_grain, slab_bytes / per_token);
  const int64_t slabs = (a.tokens + most - 1) / most;  // of equal size, in whole tiles
  const int64_t even = (a.tokens + slabs - 1) / slabs;
  return std::min(a.tokens, (even + row_grain - 1) / row_grain * row_grain);
}

/// Bytes of head_memory's parts.
struct head_sizes {
  size_t logits = 0, gradient = 0, losses = 0;
  size_t all() const { return logits + gradient + losses; }
};

head_sizes sizes_of_head(const kernel_table& k, const head_loss_args& a, int64_t slab) {
  const auto elements = static_cast<size_t>(slab * row_stride(a.vocab));
  return {keeps_logits(k, a) ? round_to_line(elements * sizeof(float)) : 0,
          a.type == dtype::bf16 ? round_to_line(elements * 2) : 0,
          static_cast<size_t>(slab) * sizeof(double)};
}

head_memory head_scratch(const kernel_table& k, const head_loss_args& a, int64_t slab,
                         scratch_memory& scratch) {
  const auto [logits, gradient, losses] = sizes_of_head(k, a, slab);
  std::byte* base = scratch.get(logits + gradient + losses);
  head_memory m{};
  m.logits = reinterpret_cast<float*>(base);
  m.gradient = a.type == dtype::bf16 ? base + logits : base;
  m.losses = reinterpret_cast<double*>(base + logits + gradient);
  return m;
}

gemm_args logits_of(const head_loss_args& a, const head_memory& m, int64_t begin, int64_t count) {
  return {.m = count,
          .n = a.vocab,
          .k = a.width,
          .type = a.type,
          .out_type = dtype::f32,
          .a = at(a.x, a.type, begin * a.width),
          .lda = a.width,
          .b = a.w,
          .ldb = a.width,
          .transposed_b = true,
          .c = m.logits,
          .ldc = row_stride(a.vocab)};
}

gemm_args input_gradient_of(const head_loss_args& a, const head_memory& m, int64_t begin,
                            int64_t count) {
  return {.m = count,
          .n = a.width,
          .k = a.vocab,
          .type = a.type,
          .out_type = a.type,
          .a = m.gradient,
          .lda = row_stride(a.vocab),
          .b = a.w,
          .ldb = a.width,
          .c = at(a.dx, a.type, begin * a.width),
          .ldc = a.width};
}

gemm_args weight_gradient_of(const head_loss_args& a, const head_memory& m, int64_t begin,
                             int64_t count) {
  return {.m = a.vocab,
          .n = a.width,
          .k = count,
          .type = a.type,
          .out_type = dtype::f32,
          .a = m.gradient,
          .lda = row_stride(a.vocab),
          .transposed_a = true,
          .b = at(a.x, a.type, begin * a.width),
          .ldb = a.width,
          .c = a.dw,
          .ldc = a.width,
          .accumulate = true};
}

/// Losses and the gradient of the logits of tokens [begin, begin + count), by way of all their
/// logits.
void head_by_logits(const kernel_table& k, compute_context& context, const head_loss_args& a,
                    const head_memory& m, int64_t begin, int64_t count) {
  team_gemm(k, context, logits_of(a, m, begin, count));
  const bool backward = a.dx != nullptr || a.dw != nullptr;
  const int64_t stride = row_stride(a.vocab);
  context.team.split(count, 1, [&](int64_t first, int64_t last, int) {
    for (int64_t i = first; i < last; ++i) {
      void* gradient = backward ? at(m.gradient, a.type, i * stride) : nullptr;
      m.losses[i] = k.softmax_row(m.logits + i * stride, a.vocab, a.targets[begin + i], a.scale,
                                  gradient, a.type);
    }
  });
}

/// The same by kernels that keep logits in cache.
void head_in_cache(const kernel_table& k, compute_context& context, const head_loss_args& a,
                   const head_memory& m, int64_t begin, int64_t count) {
  const int64_t largest = largest_share(count, context.team.threads());
  const size_t piece = round_to_line(k.head_memory(largest, a.width, a.vocab));
  std::byte* scratch = context.packing.get(piece * static_cast<size_t>(context.team.threads()));
  const bool backward = a.dx != nullptr || a.dw != nullptr;
  const int64_t stride = row_stride(a.vocab);
  context.team.split(count, row_grain, [&](int64_t first, int64_t last, int member) {
    void* gradient = backward ? at(m.gradient, a.type, first * stride) : nullptr;
    k.head_gradient(a, begin + first, begin + last, gradient, stride, m.losses + first,
                    scratch + piece * static_cast<size_t>(member));
  });
}

/// Tokens [begin, begin + count): softmax gradient, then its two products.
void head_slab(const kernel_table& k, compute_context& context, const head_loss_args& a,
               const head_memory& m, int64_t begin, int64_t count) {
  if (keeps_logits(k, a)) {
    head_by_logits(k, context, a, m, begin, count);
  } else {
    head_in_cache(k, context, a, m, begin, count);
  }
  for (int64_t i = 0; i < count; ++i) *a.loss_sum += m.losses[i];  // OPS-2
  if (a.dx != nullptr) {
    team_gemm(k, context, input_gradient_of(a, m, begin, count));
  }
  if (a.dw != nullptr) {
    team_gemm(k, context, weight_gradient_of(a, m, begin, count));
  }
}

}  // namespace

void host_ops::head_loss(stream& s, const head_loss_args& a) {
  on_host(s).enqueue([a, &k = kernels_](compute_context& context) {
    const int64_t slab = slab_tokens(k, a);
    const head_memory memory = head_scratch(k, a, slab, context.scratch);
    for (int64_t begin = 0; begin < a.tokens; begin += slab) {
      head_slab(k, context, a, memory, begin, std::min(slab, a.tokens - begin));
    }
  });
}

scratch_demand demand_of(const kernel_table& k, const head_loss_args& a, int threads) {
  const int64_t slab = slab_tokens(k, a);
  scratch_demand out{sizes_of_head(k, a, slab).all(), 0, 0};
  const auto add = [&](const gemm_args& product) {
    const auto one = demand_of(k, product, threads);
    out.packing = std::max(out.packing, one.packing);
    out.dnnl += one.dnnl;
  };
  const int64_t rest = a.tokens % slab;
  for (const int64_t count : {slab, rest}) {
    if (count == 0) continue;
    if (keeps_logits(k, a)) {
      add(logits_of(a, {}, 0, count));
    } else {
      const auto rows = largest_share(count, threads);
      out.packing = std::max(out.packing, round_to_line(k.head_memory(rows, a.width, a.vocab)) *
                                              static_cast<size_t>(threads));
    }
    add(input_gradient_of(a, {}, 0, count));
    add(weight_gradient_of(a, {}, 0, count));
  }
  return out;
}

}  // namespace troupe::gpu::host
