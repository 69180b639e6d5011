// The operations a transformer step is made of, each fused as far as the mathematics allows.
//
// Why an interface: the host (oneDNN + vector kernels), the naive reference and CUDA implement
// the same list; tests run each pair against each other on random input.
//
// Letters: B batch rows, T sequence length, N = B*T tokens, C hidden width, H query heads, K
// key/value heads, D head width, F feed-forward width, V vocabulary. Matrices are row-major.
// "act" is the compute dtype (f32 or bf16) of activations and weights; gradients of parameters
// are always f32 and are accumulated (+=), so that micro-batches add up; statistics (mean, rstd,
// lse) are f32.
//
// Invariants
//   OPS-1  Nothing here allocates on the hot path after the first call with a shape.
//   OPS-2  Reductions over tokens (bias, norm weights, embeddings, loss, norms) have a fixed
//     order (DEV-5).
//   OPS-3  Weights are stored [out, in] for every family; file layouts are the loader's business.
//   OPS-4  A null pointer for an optional argument means "absent", never "skip the result".
//   OPS-5  Operation X takes X_args, and X stands in one list (TROUPE_DEVICE_OPS). Back ends, the
//     profiler's kinds and names and the CUDA launches are made from it; a back end without X does
//     not build, and without a row of the benchmark, or a test, the tests fail.
#pragma once

#include <cstdint>

#include "gpu/device.hpp"
#include "io/base/model_config.hpp"

namespace troupe::gpu {

/// y[N,O] = x[N,I] w[O,I]^T (+ bias[O]) (+ residual[N,O]). With pre_gelu that sum goes there, and y
/// is its GELU in the tanh form, taken of the sum before or after it was rounded.
struct linear_forward_args {
  int64_t tokens, in, out;
  dtype type;  ///< of x, w, bias, residual, y
  const void* x;
  const void* w;
  const void* bias = nullptr;      ///< optional
  const void* residual = nullptr;  ///< optional; may equal y
  void* y;
  uint64_t weight_version =
      0;                     ///< grows when w's values change; lets a back end keep packed copies
  void* pre_gelu = nullptr;  ///< optional [N,O], apart from y; not with a residual
};

/// dx[N,I] = dy[N,O] w[O,I] (+ dx if accumulate). With pre_gelu, x was its GELU (tanh form), and dx
/// is the gradient of pre_gelu.
struct linear_backward_input_args {
  int64_t tokens, in, out;
  dtype type;
  const void* dy;
  const void* w;
  void* dx;
  bool accumulate = false;
  uint64_t weight_version = 0;
  const void* pre_gelu = nullptr;  ///< optional [N,I], apart from dx; not with accumulate
};

/// dw[O,I] += dy[N,O]^T x[N,I]; dbias[O] += column sums of dy.
struct linear_backward_weight_args {
  int64_t tokens, in, out;
  dtype type;  ///< of dy and x
  const void* dy;
  const void* x;
  float* dw;
  float* dbias = nullptr;  ///< optional
};

/// Where in a row each token's document begins and ends, for rows that hold several: attention
/// stays within a document, and positions count from its first token. Null: a row is one document.
/// Both are null or none is; what they hold is checked by the caller.
struct row_documents {
  const int32_t* first = nullptr;  ///< [B,T] the document's first token, counted within the row
  const int32_t* end = nullptr;    ///< [B,T] one behind its last
};

/// out[N,C] = token_table[tokens[i]] (+ position_table[p]); p = i mod T, less the first token of
/// its document.
struct embedding_forward_args {
  int64_t batch, seq, width, vocab;
  dtype type;
  const int32_t* tokens;                 ///< [B,T], each in [0,V): checked by the caller
  const void* token_table;               ///< [V,C]
  const void* position_table = nullptr;  ///< [>=T,C], optional
  void* out;
  row_documents documents = {};
};

/// d_token_table[tokens[i]] += dout[i]; d_position_table[p] += dout[i], p as in forward.
/// Deterministic (OPS-2).
struct embedding_backward_args {
  int64_t batch, seq, width, vocab;
  dtype type;  ///< of dout
  const int32_t* tokens;
  const void* dout;
  float* d_token_table;
  float* d_position_table = nullptr;
  row_documents documents = {};
};

/// s = x (+ residual); y = norm(s) * weight (+ bias). Layer norm: (s - mean) / sqrt(var + eps),
/// biased variance. RMS norm: s / sqrt(mean(s^2) + eps). sum_out receives s where residual is given
/// (may equal x).
struct norm_forward_args {
  norm_kind kind;
  int64_t tokens, width;
  dtype type;  ///< of x, residual, weight, bias, sum_out, y
  float eps;
  const void* x;
  const void* residual = nullptr;
  const void* weight;
  const void* bias = nullptr;
  void* sum_out = nullptr;
  void* y;
  float* mean = nullptr;  ///< [N], layer norm only
  float* rstd;            ///< [N]
};

/// dx = d norm/dx applied to dy (+ dresidual[N,C], the gradient that flows past the norm); dweight,
/// dbias +=.
struct norm_backward_args {
  norm_kind kind;
  int64_t tokens, width;
  dtype type;
  const void* dy;
  const void* x;  ///< the normed sum s
  const void* weight;
  const float* mean = nullptr;
  const float* rstd;
  const void* dresidual = nullptr;  ///< optional; may equal dx
  void* dx;
  float* dweight;
  float* dbias = nullptr;
};

/// Rotary embedding in place on the query and key heads of qkv[N,(H+2K)*D]: pairs (d, d+D/2), angle
/// = position * frequency[d] (HF rotate_half). inverse rotates back: the backward pass.
struct rope_args {
  int64_t batch, seq, heads, kv_heads, head_width;
  dtype type;
  void* qkv;
  const float* cosine;  ///< [>=T, D/2]
  const float* sine;    ///< [>=T, D/2]
  bool inverse = false;
  int64_t first_position = 0;
  row_documents documents = {};
};

/// RMS norm in place of each query and key head of qkv[N,(H+2K)*D]: s / sqrt(mean(s^2) + eps) times
/// a weight that all query heads share, and another of the key heads (Qwen 3). D up to 512.
struct head_norm_forward_args {
  int64_t batch, seq, heads, kv_heads, head_width;
  dtype type;
  float eps;
  void* qkv;
  void* before;          ///< [N,(H+K)*D] the query and key heads as they were; kept for backward
  const void* q_weight;  ///< [D]
  const void* k_weight;  ///< [D]
  float* rstd;           ///< [N,H+K]
};

/// In dqkv[N,(H+2K)*D], the gradient of the normed query and key heads becomes that of the heads
/// before; dq_weight, dk_weight +=.
struct head_norm_backward_args {
  int64_t batch, seq, heads, kv_heads, head_width;
  dtype type;
  void* dqkv;
  const void* before;
  const void* q_weight;
  const void* k_weight;
  const float* rstd;
  float* dq_weight;
  float* dk_weight;
};

/// Causal attention over packed qkv[N,(H+2K)*D] = q heads, k heads, v heads; query head h uses kv
/// head h / (H/K); softmax scale 1/sqrt(D). Query t sees keys max(first, t-window+1)..t, first
/// being its document's first token, 0 without documents; window 0: all of them.
struct attention_forward_args {
  int64_t batch, seq, heads, kv_heads, head_width;
  int64_t window = 0;
  dtype type;
  const void* qkv;
  void* out;   ///< [N, H*D]
  float* lse;  ///< [B,H,T] log-sum-exp of the scaled scores; kept for backward
  row_documents documents = {};
};

/// attention_forward of the last `queries` rows of one batch row alone: what earlier calls wrote to
/// the rows before them is read (a cache of keys and values), and no query of theirs is done again.
struct attention_cached_args {
  int64_t seq;      ///< rows of qkv, the queries' own with them
  int64_t queries;  ///< in [1, seq]
  int64_t heads, kv_heads, head_width;
  int64_t window = 0;
  dtype type;
  const void* qkv;
  void* out;  ///< [queries, H*D]
};

struct attention_backward_args {
  int64_t batch, seq, heads, kv_heads, head_width;
  int64_t window = 0;
  dtype type;
  const void* qkv;
  const void* out;
  const float* lse;
  const void* dout;
  void* dqkv;  ///< [N,(H+2K)*D], overwritten
  row_documents documents = {};
};

struct activation_forward_args {
  activation_kind kind;
  int64_t tokens, width;  ///< width = F
  dtype type;
  const void* x;
  void* y;
};

/// dx from dy and the saved input x. dx may equal x's buffer (x is then gone) or, where both are as
/// wide, dy's.
struct activation_backward_args {
  activation_kind kind;
  int64_t tokens, width;
  dtype type;
  const void* x;
  const void* dy;
  void* dx;
};

/// The head and its loss, without the whole [N,V] logits (a back end works through slabs of
/// tokens):
///   logits = x[N,C] w[V,C]^T;  loss_sum += sum_i (lse_i - logit_i[target_i]);
///   if dx: dx[N,C] = scale * (softmax - onehot) w, dw[V,C] += scale * (softmax - onehot)^T x.
/// Targets < 0 are ignored (no loss, no gradient).
struct head_loss_args {
  int64_t tokens, width, vocab;
  dtype type;  ///< of x, w, dx
  const void* x;
  const void* w;
  const int32_t* targets;  ///< [N]
  float scale = 1.0f;      ///< multiplies gradients, not the loss: 1 / (all targets of the step)
  double* loss_sum;        ///< accumulated
  void* dx = nullptr;      ///< null: evaluate only
  float* dw = nullptr;
  uint64_t weight_version = 0;
};

/// One tensor inside a chunk, for the optimizers.
struct parameter_span {
  int64_t offset;  ///< first element within the chunk
  int64_t count;
  bool decay;  ///< weight decay applies
};

/// AdamW (Loshchilov & Hutter 2019), decoupled decay: w *= 1 - lr*wd first, then
/// w -= lr * (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps). LAMB (You et al. 2020, Algorithm 2, identity
/// phi): r = (m/(1-b1^t)) / (sqrt(v/(1-b2^t)) + eps) + wd*w; w -= lr * (|w|/|r|) * r per tensor,
/// ratio 1 where either norm is 0 (and, unless trust_always, on tensors without decay). One pass:
/// reads the gradient, updates m, v, master, writes the compute copy, zeroes the gradient.
///
/// Where devices hold slices of a chunk, LAMB's norms need all of them: `part` norms moves m and v
/// and adds to the own row of norms; once every device has all rows, `part` apply does the rest.
struct optimizer_step_args {
  enum class rule : uint8_t { adamw, lamb } kind;
  enum class phase : uint8_t { whole, norms, apply };
  int64_t count;                ///< elements of the chunk
  const parameter_span* spans;  ///< cover [0, count) in order
  int64_t span_count;
  float* master;  ///< float32 weights
  void* weight;   ///< compute copy; equals master for f32
  dtype weight_type;
  float* m;
  float* v;
  float* grad;
  const float* grad_scale;  ///< device scalar: the clip factor
  float lr, beta1, beta2, eps, weight_decay;
  int64_t step;              ///< t, from 1
  bool trust_always = true;  ///< LAMB only
  /// The bf16 compute copy is rounded up or down by chance (stochastic_rounding.hpp), which is a
  /// function of this seed, of step and of the element; give every chunk another seed.
  bool stochastic_rounding = false;
  uint64_t rounding_seed = 0;
  int64_t rounding_first = 0;  ///< the number of element 0: not 0 where this is a part of a chunk
  phase part = phase::whole;  ///< the others: LAMB only
  /// Device doubles: |w|^2 and |r|^2 of span i at [2 i] and [2 i + 1]. To norms: the own row, to
  /// which they are added, so that pieces of a slice make one in turn. To apply: the first of
  /// norm_rows rows, norm_stride apart, which are added in order.
  double* norms = nullptr;
  int64_t norm_rows = 1;
  int64_t norm_stride = 0;
};

/// destination[i] = source[i], rounded to bfloat16 by chance as optimizer_step_args says of its
/// copy.
struct round_by_chance_args {
  int64_t count;
  void* destination;  ///< bf16
  const float* source;
  uint64_t seed;
  int64_t step;       ///< whose update made the source
  int64_t first = 0;  ///< the number of element 0
};

/// *sum += sum of squares of each span's gradient in double, and per_span[i] likewise if given
/// (OPS-2).
struct norm_squared_args {
  const float* grad;
  const parameter_span* spans;
  int64_t span_count;
  double* sum;
  double* per_span = nullptr;
};

/// *scale = min(1, max_norm / (sqrt(*norm_squared) + 1e-6)); 1 where max_norm is 0.
struct clip_scale_args {
  const double* norm_squared;
  float max_norm;
  float* scale;
};

/// destination[i] = source[i], converting between f32 and bf16 (round to nearest even).
struct cast_args {
  void* destination;
  dtype to;
  const void* source;
  dtype from;
  int64_t count;
};

/// y[i] += x[i].
struct add_args {
  void* y;
  const void* x;
  dtype type;
  int64_t count;
};

// The list of operations (OPS-5). Those made of matrix products, which a back end composes:
#define TROUPE_PRODUCT_OPS(X) \
  X(linear_forward)           \
  X(linear_backward_input)    \
  X(linear_backward_weight)   \
  X(head_loss)

// and those that are kernels.
#define TROUPE_KERNEL_OPS(X) \
  X(embedding_forward)       \
  X(embedding_backward)      \
  X(norm_forward)            \
  X(norm_backward)           \
  X(head_norm_forward)       \
  X(head_norm_backward)      \
  X(rope)                    \
  X(attention_forward)       \
  X(attention_cached)        \
  X(attention_backward)      \
  X(activation_forward)      \
  X(activation_backward)     \
  X(optimizer_step)          \
  X(norm_squared)            \
  X(clip_scale)              \
  X(cast)                    \
  X(round_by_chance)         \
  X(add)

#define TROUPE_DEVICE_OPS(X) TROUPE_PRODUCT_OPS(X) TROUPE_KERNEL_OPS(X)

/// All mathematics of one device: a function for each operation of the list, called
/// `ops.rope(stream, {.batch = ...})`. Every call enqueues on `s` and returns at once (DEV-1).
class ops {
 public:
  virtual ~ops() = default;

#define TROUPE_OP(name) virtual void name(stream& s, const name##_args& a) = 0;
  TROUPE_DEVICE_OPS(TROUPE_OP)
#undef TROUPE_OP
};

}  // namespace troupe::gpu
