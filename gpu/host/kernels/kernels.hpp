// The functions of one variant; kernel_table.hpp says what each does.
#pragma once

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
size_t gemm_memory(const gemm_args& a);
void gemm(const gemm_args& a, void* scratch);
void embedding_forward(const embedding_forward_args& a, int64_t begin, int64_t end);
void embedding_backward_tokens(const embedding_backward_args& a, int member, int members);
void embedding_backward_positions(const embedding_backward_args& a, int64_t begin, int64_t end);
void norm_forward(const norm_forward_args& a, int64_t begin, int64_t end);
void norm_backward(const norm_backward_args& a, int64_t begin, int64_t end, float* sums,
                   float* block);
void rope(const rope_args& a, int64_t begin, int64_t end);
void activation_forward(const activation_forward_args& a, int64_t begin, int64_t end);
void activation_backward(const activation_backward_args& a, int64_t begin, int64_t end);
void add(void* y, const void* x, dtype type, int64_t begin, int64_t end);
void cast(void* destination, dtype to, const void* source, dtype from, int64_t begin, int64_t end);
double softmax_row(const float* logits, int64_t vocab, int32_t target, float scale, void* gradient,
                   dtype type);
attention_scratch attention_memory(int64_t seq, int64_t head_width);
void attention_forward(const attention_forward_args& a, int64_t b, int64_t h, void* scratch);
void attention_backward(const attention_backward_args& a, int64_t b, int64_t kv_head,
                        void* scratch);
double sum_squares(const float* x, int64_t count);
void adamw(const optimizer_args& a, int64_t begin, int64_t end, bool decay);
void lamb_norms(const optimizer_args& a, int64_t begin, int64_t end, bool decay, double* norms);
void lamb_apply(const optimizer_args& a, int64_t begin, int64_t end, bool decay, float ratio);

}  // namespace troupe::gpu::host::TROUPE_VARIANT
