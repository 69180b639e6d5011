// The operations of CUDA devices; see cuda_ops.hpp.
#include "gpu/cuda/cuda_ops.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "gpu/cuda.hpp"
#include "gpu/cuda/kernels/columns.hpp"
#include "gpu/cuda/kernels/head.hpp"
#include "gpu/cuda/kernels/launch.hpp"
#include "gpu/cuda/stream.hpp"
#include "gpu/cuda/working_memory.hpp"

namespace troupe::gpu::cuda {
namespace {

/// The stream behind the interface: this back end's operations run on this back end's streams only.
cuda_stream& on_cuda(stream& s) {
  return static_cast<cuda_stream&>(s);
}

/// `data` advanced by `elements` of `type`.
const void* at(const void* data, dtype type, int64_t elements) {
  return static_cast<const char*>(data) + elements * static_cast<int64_t>(size_of(type));
}
void* at(void* data, dtype type, int64_t elements) {
  return static_cast<char*>(data) + elements * static_cast<int64_t>(size_of(type));
}

/// Runs `launch(scratch)` with `bytes` of working memory.
template <class F>
status with_scratch(launch_context& c, size_t bytes, const char* what, F&& launch) {
  TROUPE_TRY(scratch, c.scratch(bytes));
  return checked(launch(scratch), what);
}

/// In words; the kernels would answer with a number.
void refuse_norm(cuda_stream& s, const char* what, int64_t width) {
  s.enqueue(what, [width](cudaStream_t) -> status {
    return error{errc::bad_config,
                 fmt::format("rows of {} elements, and norms on a GPU are of {} at most", width,
                             max_norm_width),
                 "set cluster.device = \"host\""};
  });
}

/// The operation `what` by its launch, with the working memory it needs.
template <auto launch, class Args>
void enqueue_kernels(cuda_stream& s, const char* what, const Args& a) {
  if constexpr (requires { a.rstd, a.width; })  // a norm of rows
    if (a.width > max_norm_width) return refuse_norm(s, what, a.width);
  if constexpr (requires { scratch_bytes(a); }) {
    s.enqueue(what, [a](launch_context& c) {
      return with_scratch(c, scratch_bytes(a), "kernels",
                          [&](void* scratch) { return launch(c.stream, a, scratch); });
    });
  } else {
    s.enqueue(what, [a](cudaStream_t raw) { return launch(raw, a, nullptr); });
  }
}

/// Words of the vocabulary that a product takes together.
struct word_range {
  int64_t begin, count;
};

/// All words as far as 8 divides their number, and the rest (COP-4); either may be empty.
struct head_words {
  word_range eights, rest;

  explicit head_words(int64_t vocab)
      : eights{0, vocab / 8 * 8}, rest{eights.count, vocab - eights.count} {}
};

/// A slab: tokens [begin, begin + count), their hidden states, and the gradient of their logits.
struct head_tokens {
  int64_t begin, count;
  const void* x;
  slab_gradient gradient;
};

status multiply_logits(launch_context& c, matmul& products, const head_loss_args& a,
                       const head_plan& p, const head_tokens& t, void* logits) {
  const head_words words(a.vocab);
  for (const word_range& w : {words.eights, words.rest})
    TROUPE_CHECK(products.run(c.stream, {.m = t.count,
                                         .n = w.count,
                                         .k = a.width,
                                         .in = a.type,
                                         .out = dtype::f32,
                                         .a = t.x,
                                         .b = at(a.w, a.type, w.begin * a.width),
                                         .b_transposed = true,
                                         .d = at(logits, dtype::f32, w.begin),
                                         .d_stride = p.stride}));
  return {};
}

/// dx: first of the few words of the rest, then of all others upon it, so that the sum is rounded
/// once and only their small share twice.
status multiply_dx(launch_context& c, matmul& products, const head_loss_args& a,
                   const head_tokens& t) {
  const head_words words(a.vocab);
  void* dx = at(a.dx, a.type, t.begin * a.width);
  for (const word_range& w : {words.rest, words.eights}) {
    if (w.count == 0) continue;
    const bool upon = w.begin < words.rest.begin && words.rest.count > 0;
    TROUPE_CHECK(products.run(c.stream, {.m = t.count,
                                         .n = a.width,
                                         .k = w.count,
                                         .in = a.type,
                                         .out = a.type,
                                         .a = at(t.gradient.data, a.type, w.begin),
                                         .a_stride = t.gradient.stride,
                                         .b = at(a.w, a.type, w.begin * a.width),
                                         .c = upon ? dx : nullptr,
                                         .d = dx}));
  }
  return {};
}

status multiply_dw(launch_context& c, matmul& products, const head_loss_args& a,
                   const head_tokens& t) {
  const head_words words(a.vocab);
  for (const word_range& w : {words.eights, words.rest}) {
    float* dw = a.dw + w.begin * a.width;
    TROUPE_CHECK(products.run(c.stream, {.m = w.count,
                                         .n = a.width,
                                         .k = t.count,
                                         .in = a.type,
                                         .out = dtype::f32,
                                         .a = at(t.gradient.data, a.type, w.begin),
                                         .a_transposed = true,
                                         .a_stride = t.gradient.stride,
                                         .b = t.x,
                                         .c = dw,
                                         .d = dw}));
  }
  return {};
}

/// Losses of tokens [begin, begin + count), and their share of dx and dw.
status head_slab(launch_context& c, matmul& products, const head_loss_args& a, const head_plan& p,
                 void* logits, double* losses, int64_t begin, int64_t count) {
  const head_tokens t{begin, count, at(a.x, a.type, begin * a.width),
                      in_place_gradient(logits, dtype::f32, p.stride, a.type)};
  TROUPE_CHECK(multiply_logits(c, products, a, p, t, logits));
  const bool backward = a.dx != nullptr || a.dw != nullptr;
  TROUPE_CHECK(
      checked(launch_softmax_loss(c.stream, {.rows = count,
                                             .vocab = a.vocab,
                                             .logits_type = dtype::f32,
                                             .logits = logits,
                                             .logits_stride = p.stride,
                                             .targets = a.targets + begin,
                                             .losses = losses + begin,
                                             .scale = a.scale,
                                             .gradient_type = a.type,
                                             .gradient = backward ? t.gradient.data : nullptr,
                                             .gradient_stride = t.gradient.stride}),
              "softmax of the head"));
  if (a.dx != nullptr) TROUPE_CHECK(multiply_dx(c, products, a, t));
  return a.dw != nullptr ? multiply_dw(c, products, a, t) : status{};
}

status head(launch_context& c, matmul& products, const head_loss_args& a, size_t slab_bytes) {
  const head_plan p = plan_head(a.tokens, a.vocab, slab_bytes);
  TROUPE_TRY(scratch, c.scratch(p.bytes()));
  auto* losses = reinterpret_cast<double*>(static_cast<char*>(scratch) + p.logits_bytes);
  for (int64_t begin = 0; begin < a.tokens; begin += p.slab) {
    const int64_t count = std::min(p.slab, a.tokens - begin);
    TROUPE_CHECK(head_slab(c, products, a, p, scratch, losses, begin, count));
  }
  return checked(launch_sum_losses(c.stream, losses, a.tokens, a.loss_sum), "sum of losses");
}

std::atomic<int64_t> fused_epilogues = 0, separate_epilogues = 0;

/// Whether the product takes its epilogue (COP-3), counted.
result<bool> fused(matmul& products, const matmul_args& a) {
  TROUPE_TRY(taken, products.fuses(a));
  (taken ? fused_epilogues : separate_epilogues).fetch_add(1, std::memory_order_relaxed);
  return taken;
}

/// The product, then the activation; both at once where the library has it.
status product_and_gelu(launch_context& c, matmul& products, matmul_args product) {
  TROUPE_TRY(at_once, fused(products, product));
  if (at_once) return products.run(c.stream, product);
  void* y = std::exchange(product.d, product.aux);
  product.after = epilogue::none;
  product.aux = nullptr;
  TROUPE_CHECK(products.run(c.stream, product));
  return checked(launch_activation_forward(c.stream, {activation_kind::gelu_tanh, product.m,
                                                      product.n, product.out, product.d, y}),
                 "GELU behind a product");
}

/// The product, then times the activation's slope.
status product_and_gelu_gradient(launch_context& c, matmul& products, matmul_args product) {
  TROUPE_TRY(at_once, fused(products, product));
  if (at_once) return products.run(c.stream, product);
  product.after = epilogue::none;
  const void* pre_gelu = std::exchange(product.aux, nullptr);
  TROUPE_CHECK(products.run(c.stream, product));
  return checked(
      launch_activation_backward(c.stream, {activation_kind::gelu_tanh, product.m, product.n,
                                            product.out, pre_gelu, product.d, product.d}),
      "gradient of GELU behind a product");
}

status add_column_sums(launch_context& c, const linear_backward_weight_args& a) {
  return with_scratch(c, column_sums_scratch(a.tokens, a.out), "column sums", [&](void* scratch) {
    return launch_add_column_sums(c.stream, a.dy, a.type, a.tokens, a.out, a.dbias, scratch);
  });
}

/// dw and dbias. The library's sums overwrite: they go to working memory and are added from there,
/// so that micro-batches add up.
status product_and_sums(launch_context& c, matmul& products, matmul_args product,
                        const linear_backward_weight_args& a) {
  TROUPE_TRY(sums, c.scratch(static_cast<size_t>(a.out) * sizeof(float)));
  product.after = epilogue::sums_of_a;
  product.aux = sums;
  TROUPE_TRY(at_once, fused(products, product));
  if (!at_once) {
    product.after = epilogue::none;
    product.aux = nullptr;
    TROUPE_CHECK(products.run(c.stream, product));
    return add_column_sums(c, a);
  }
  TROUPE_CHECK(products.run(c.stream, product));
  return checked(launch_add_partial_sums(c.stream, static_cast<const float*>(sums), 1, a.out,
                                         a.dbias, nullptr),
                 "sum of bias gradients");
}

class cuda_ops final : public gpu::ops {
 public:
  cuda_ops(matmul_factory products, const cuda_ops_options& options)
      : products_(std::move(products)), options_(options) {}

  void linear_forward(stream& s, const linear_forward_args& a) override {
    const matmul_args product = {.m = a.tokens,
                                 .n = a.out,
                                 .k = a.in,
                                 .in = a.type,
                                 .out = a.type,
                                 .a = a.x,
                                 .b = a.w,
                                 .b_transposed = true,
                                 .bias = a.bias,
                                 .c = a.residual,
                                 .d = a.y,
                                 .after = a.pre_gelu ? epilogue::gelu : epilogue::none,
                                 .aux = a.pre_gelu};
    enqueue_product(s, "linear_forward", product, a.pre_gelu ? product_and_gelu : nullptr);
  }

  void linear_backward_input(stream& s, const linear_backward_input_args& a) override {
    const matmul_args product = {.m = a.tokens,
                                 .n = a.in,
                                 .k = a.out,
                                 .in = a.type,
                                 .out = a.type,
                                 .a = a.dy,
                                 .b = a.w,
                                 .c = a.accumulate ? a.dx : nullptr,
                                 .d = a.dx,
                                 .after = a.pre_gelu ? epilogue::gelu_gradient : epilogue::none,
                                 .aux = const_cast<void*>(a.pre_gelu)};
    enqueue_product(s, "linear_backward_input", product,
                    a.pre_gelu ? product_and_gelu_gradient : nullptr);
  }

  void linear_backward_weight(stream& s, const linear_backward_weight_args& a) override {
    const matmul_args product = {.m = a.out,
                                 .n = a.in,
                                 .k = a.tokens,
                                 .in = a.type,
                                 .out = dtype::f32,
                                 .a = a.dy,
                                 .a_transposed = true,
                                 .b = a.x,
                                 .c = a.dw,
                                 .d = a.dw};
    if (a.dbias == nullptr) return enqueue_product(s, "linear_backward_weight", product, nullptr);
    on_cuda(s).enqueue("linear_backward_weight", [this, a, product](launch_context& c) -> status {
      TROUPE_TRY(products, products_of(c));
      if (options_.fused_bias_gradients) return product_and_sums(c, *products, product, a);
      TROUPE_CHECK(products->run(c.stream, product));
      return add_column_sums(c, a);
    });
  }

  void head_loss(stream& s, const head_loss_args& a) override {
    on_cuda(s).enqueue("head_loss", [this, a](launch_context& c) -> status {
      TROUPE_TRY(products, products_of(c));
      return head(c, *products, a, options_.slab_bytes.value_or(slab_bytes_for(0)));
    });
  }

#define TROUPE_OP(name)                                   \
  void name(stream& s, const name##_args& a) override {   \
    enqueue_kernels<launch_##name>(on_cuda(s), #name, a); \
  }
  TROUPE_KERNEL_OPS(TROUPE_OP)
#undef TROUPE_OP

 private:
  /// The stream's products, made when first asked for (COP-1).
  result<matmul*> products_of(launch_context& c) const {
    if (c.products == nullptr) {
      TROUPE_TRY(made, products_());
      c.products = std::move(made);
    }
    return c.products.get();
  }

  using composed = status (*)(launch_context&, matmul&, matmul_args);

  /// The product alone, or what `compose` makes of it.
  void enqueue_product(stream& s, const char* what, const matmul_args& a, composed compose) {
    on_cuda(s).enqueue(what, [this, a, compose](launch_context& c) -> status {
      TROUPE_TRY(products, products_of(c));
      return compose ? compose(c, *products, a) : products->run(c.stream, a);
    });
  }

  const matmul_factory products_;
  const cuda_ops_options options_;
};

}  // namespace

std::unique_ptr<gpu::ops> make_cuda_ops(matmul_factory products, const cuda_ops_options& options) {
  return std::make_unique<cuda_ops>(std::move(products), options);
}

}  // namespace troupe::gpu::cuda

namespace troupe::gpu {

epilogue_counts cuda_epilogues() noexcept {
  return {cuda::fused_epilogues.load(), cuda::separate_epilogues.load()};
}

}  // namespace troupe::gpu
