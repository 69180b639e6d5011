// The kernels of one instruction set, as a table of functions.
//
// Why: each kernel file is compiled once per instruction set; what runs is chosen once, at
// start-up, by asking the processor (select_kernels). A kernel does one thread's share, named by
// a range of rows or elements; who runs which share is decided in ops_*.cpp.
//
// Invariants
//   KT-1  A kernel allocates nothing and throws nothing.
//   KT-2  What a kernel computes for one row does not depend on the range it is called with.
#pragma once

#include <cstdint>

#include "gpu/ops.hpp"

namespace troupe::gpu::host {

/// One head's share of attention works in memory of this many bytes.
struct attention_scratch {
  size_t forward_bytes;
  size_t backward_bytes;
  size_t cached_bytes;  ///< of a query of attention_cached, however many rows it sees
};

/// One product of one thread: C[M,N] = A[M,K] B[K,N] (+ bias) (+ residual), or += if accumulate.
/// Rows of C are contiguous; A and B may be transposed in memory.
struct gemm_args {
  int64_t m, n, k;
  dtype type;      ///< of A, B, bias, residual
  dtype out_type;  ///< of C: type, or f32
  const void* a;
  int64_t lda;                ///< elements between rows of A in memory
  bool transposed_a = false;  ///< memory holds A^T [K,M]
  const void* b;
  int64_t ldb;
  bool transposed_b = false;  ///< memory holds B^T [N,K]
  void* c;
  int64_t ldc;
  bool accumulate = false;         ///< C += instead of =
  const void* bias = nullptr;      ///< [N], optional
  const void* residual = nullptr;  ///< [M,N] with C's row stride, optional; may be C itself
  float* a_sums = nullptr;         ///< [M] += sums of A over K, optional; A transposed only
};

// Operations whose kernel does rows, or elements, [begin, end):
#define TROUPE_ROW_KERNELS(X) \
  X(embedding_forward)        \
  X(norm_forward)             \
  X(head_norm_forward)        \
  X(rope)                     \
  X(activation_forward)       \
  X(activation_backward)      \
  X(cast)                     \
  X(add)

// and the other kernels that every variant has, in the order of the table.
#define TROUPE_SHARE_KERNELS(X)   \
  X(gemm_memory)                  \
  X(gemm)                         \
  X(embedding_backward_tokens)    \
  X(embedding_backward_positions) \
  X(norm_backward)                \
  X(head_norm_backward)           \
  X(softmax_row)                  \
  X(attention_memory)             \
  X(attention_forward)            \
  X(attention_cached)             \
  X(attention_backward)           \
  X(sum_squares)                  \
  X(adamw)                        \
  X(lamb_norms)                   \
  X(lamb_apply)

struct kernel_table {
  const char* name;  ///< "generic", "avx2", "avx512", "avx512_bf16", "amx_bf16"

  bool dnnl_f32;   ///< oneDNN multiplies float32 faster than `gemm` does on such a machine
  bool dnnl_bf16;  ///< likewise bfloat16

  /// Multiply-adds on registers alone; return the floating-point operations done. Null where
  /// there are none.
  double (*burn_f32)(int64_t rounds);
  double (*burn_dot_bf16)(int64_t rounds);    ///< VDPBF16PS
  double (*burn_tiles_bf16)(int64_t rounds);  ///< TDPBF16PS

  /// bfloat16 only, null where there is none: for tokens [begin, end), losses[0..] and (unless
  /// null) rows of scale * (softmax - onehot) to gradient[0..][stride], without logits in memory.
  size_t (*head_memory)(int64_t rows, int64_t width, int64_t vocab);
  void (*head_gradient)(const head_loss_args& a, int64_t begin, int64_t end, void* gradient,
                        int64_t stride, double* losses, void* scratch);

#define TROUPE_KERNEL(op) void (*op)(const op##_args& a, int64_t begin, int64_t end);
  TROUPE_ROW_KERNELS(TROUPE_KERNEL)
#undef TROUPE_KERNEL

  /// Bytes of working memory gemm needs for this product.
  size_t (*gemm_memory)(const gemm_args& a);
  void (*gemm)(const gemm_args& a, void* scratch);

  /// Adds the rows' share of d_token_table to the table rows v with v % members == member.
  void (*embedding_backward_tokens)(const embedding_backward_args& a, int member, int members);
  /// Positions [begin, end) of d_position_table.
  void (*embedding_backward_positions)(const embedding_backward_args& a, int64_t begin,
                                       int64_t end);

  /// dx of rows [begin, end); sums[2 * width] receives dweight and dbias of these rows
  /// (overwritten); block[2 * width] is working memory.
  void (*norm_backward)(const norm_backward_args& a, int64_t begin, int64_t end, float* sums,
                        float* block);

  /// Tokens [begin, end) of dqkv; sums[2 * D] receives dq_weight and dk_weight of these
  /// (overwritten); block[2 * D] is working memory.
  void (*head_norm_backward)(const head_norm_backward_args& a, int64_t begin, int64_t end,
                             float* sums, float* block);

  /// One row of logits, in place or to `gradient`: scale * (softmax - onehot). Returns lse -
  /// logit of the target. gradient null: loss only. Target < 0: zero gradient, zero loss.
  double (*softmax_row)(const float* logits, int64_t vocab, int32_t target, float scale,
                        void* gradient, dtype type);

  /// Bytes of working memory attention needs per thread.
  attention_scratch (*attention_memory)(int64_t seq, int64_t head_width);
  void (*attention_forward)(const attention_forward_args& a, int64_t b, int64_t h, void* scratch);
  /// One query head of query `i`.
  void (*attention_cached)(const attention_cached_args& a, int64_t i, int64_t h, void* scratch);
  /// One key/value head with all its query heads.
  void (*attention_backward)(const attention_backward_args& a, int64_t b, int64_t kv_head,
                             void* scratch);

  /// Sum of squares in double.
  double (*sum_squares)(const float* x, int64_t count);
  /// Elements [begin, end), all with the same decay.
  void (*adamw)(const optimizer_step_args& a, int64_t begin, int64_t end, bool decay);
  /// First pass of LAMB: m and v; norms[0] = |w|^2, norms[1] = |r|^2 of these elements.
  void (*lamb_norms)(const optimizer_step_args& a, int64_t begin, int64_t end, bool decay,
                     double* norms);
  /// Second pass: w -= lr * ratio * r, compute copy, zeroed gradient.
  void (*lamb_apply)(const optimizer_step_args& a, int64_t begin, int64_t end, bool decay,
                     float ratio);
};

/// The best table this machine can run; TROUPE_ISA in the environment asks for a lesser one by
/// name.
const kernel_table& select_kernels();

/// Every table this machine can run, worst first: for tests.
const kernel_table* const* runnable_kernels(int* count);

}  // namespace troupe::gpu::host
