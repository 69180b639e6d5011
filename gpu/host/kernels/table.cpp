// The table of one variant.
#include "gpu/host/kernels/kernels.hpp"

#define TROUPE_TEXT_OF(x) #x
#define TROUPE_TEXT(x) TROUPE_TEXT_OF(x)

namespace troupe::gpu::host::TROUPE_VARIANT {

extern const kernel_table table;
// clang-format off
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
#define TROUPE_KERNEL(name) .name = name,
    TROUPE_ROW_KERNELS(TROUPE_KERNEL) TROUPE_SHARE_KERNELS(TROUPE_KERNEL)
#undef TROUPE_KERNEL
};
// clang-format on

}  // namespace troupe::gpu::host::TROUPE_VARIANT
