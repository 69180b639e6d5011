// The functions of one variant; kernel_table.hpp says what each does.
#pragma once

#include <type_traits>

#include "gpu/host/kernels/kernel_table.hpp"
#include "gpu/host/kernels/vec.hpp"

namespace troupe::gpu::host::TROUPE_VARIANT {

double burn_f32(int64_t rounds);
#if defined(__AVX512BF16__)
double burn_dot_bf16(int64_t rounds);
#endif
#if defined(__AMX_BF16__)
double burn_tiles_bf16(int64_t rounds);
size_t tile_gemm_memory(const gemm_args& g);
void tile_gemm(const gemm_args& g, void* scratch);
size_t tile_head_memory(int64_t rows, int64_t width, int64_t vocab);
void tile_head_gradient(const head_loss_args& a, int64_t begin, int64_t end, void* gradient,
                        int64_t stride, double* losses, void* scratch);
attention_scratch tile_attention_memory(int64_t seq, int64_t head_width);
void tile_attention_forward(const attention_forward_args& a, int64_t b, int64_t h, void* scratch);
void tile_attention_backward(const attention_backward_args& a, int64_t b, int64_t kv,
                             void* scratch);
#endif
#define TROUPE_KERNEL(name) std::remove_pointer_t<decltype(kernel_table::name)> name;
TROUPE_ROW_KERNELS(TROUPE_KERNEL)
TROUPE_SHARE_KERNELS(TROUPE_KERNEL)
#undef TROUPE_KERNEL

}  // namespace troupe::gpu::host::TROUPE_VARIANT
