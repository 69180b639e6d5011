// The table of one variant.
#include "gpu/host/kernels/kernels.hpp"

#define TROUPE_TEXT_OF(x) #x
#define TROUPE_TEXT(x) TROUPE_TEXT_OF(x)

namespace troupe::gpu::host::TROUPE_VARIANT {

extern const kernel_table table;
const kernel_table table = {
    .name = TROUPE_TEXT(TROUPE_VARIANT),
#if defined(__AVX512F__)
    .dnnl_f32 = true,
#else
    .dnnl_f32 = false,
#endif
#if defined(__AMX_BF16__)
    .dnnl_bf16 = true,
#else
    .dnnl_bf16 = false,
#endif
    .burn_f32 = burn_f32,
#if defined(__AVX512BF16__)
    .burn_dot_bf16 = burn_dot_bf16,
#else
    .burn_dot_bf16 = nullptr,
#endif
#if defined(__AMX_BF16__)
    .burn_tiles_bf16 = burn_tiles_bf16,
#else
    .burn_tiles_bf16 = nullptr,
#endif
#if defined(__AMX_BF16__)
    .head_memory = tile_head_memory,
    .head_gradient = tile_head_gradient,
#else
    .head_memory = nullptr,
    .head_gradient = nullptr,
#endif
    .gemm_memory = gemm_memory,
    .gemm = gemm,
    .embedding_forward = embedding_forward,
    .norm_forward = norm_forward,
    .rope = rope,
    .activation_forward = activation_forward,
    .activation_backward = activation_backward,
    .embedding_backward_tokens = embedding_backward_tokens,
    .embedding_backward_positions = embedding_backward_positions,
    .norm_backward = norm_backward,
    .add = add,
    .cast = cast,
    .softmax_row = softmax_row,
    .attention_memory = attention_memory,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .sum_squares = sum_squares,
    .adamw = adamw,
    .lamb_norms = lamb_norms,
    .lamb_apply = lamb_apply,
};

}  // namespace troupe::gpu::host::TROUPE_VARIANT
