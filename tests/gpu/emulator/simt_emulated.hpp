// The vocabulary of simt.hpp on the emulated machine. Included by simt.hpp under g++ only; each
// word means what its twin in simt_device.hpp says.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#include "tests/gpu/emulator/machine.hpp"

#define SIMT_ASSERT(condition) \
  ((condition) ? void() : troupe::gpu::cuda::emulator::stop("assertion failed: " #condition))
#define SIMT_UNROLL
#define SIMT_BLOCK(threads, blocks)

/// Runs `fn` in the order of an emulated stream (emulator/runtime.hpp).
void troupe_emulator_enqueue(cudaStream_t stream, std::function<void()> fn);

namespace troupe::gpu::cuda {

inline int thread_index() {
  return emulator::place().thread;
}
inline int block_threads() {
  return emulator::place().block_threads;
}
inline int block_index() {
  return emulator::place().block_x;
}
inline int block_index_y() {
  return emulator::place().block_y;
}
inline int block_index_z() {
  return emulator::place().block_z;
}
inline int grid_blocks() {
  return emulator::place().grid_x;
}

template <class T>
T* shared_memory() {
  return static_cast<T*>(emulator::shared());
}

inline void sync_block() {
  emulator::block_barrier();
}
inline void sync_warp() {
  emulator::warp_exchange(emulator::warp_operation::sync, nullptr, 0);
}
template <class T>
T shuffle(T v, int from_lane) {
  const auto* all = emulator::warp_exchange(emulator::warp_operation::shuffle, &v, sizeof v);
  T out;
  std::memcpy(&out, all + 64 * (from_lane & 31), sizeof out);
  return out;
}
template <class T>
T shuffle_xor(T v, int mask) {
  return shuffle(v, (thread_index() & 31) ^ mask);
}

inline float bits_to_float(uint32_t bits) {
  float v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}
inline uint32_t float_to_bits(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}
inline bf16 to_bf16(float v) {
  const uint32_t bits = float_to_bits(v);
  if (std::isnan(v)) return {static_cast<uint16_t>(0x7fff)};
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}
inline uint32_t pack_bf16(float low, float high) {
  return to_bf16(low).bits | static_cast<uint32_t>(to_bf16(high).bits) << 16;
}
inline float exp2_fast(float v) {
  return std::exp2(v);
}

inline float reciprocal_fast(float v) {
  return 1.0f / v;
}

inline void copy_async_16(void* to_shared, const void* from_global, bool valid) {
  emulator::copy_later(to_shared, from_global, valid);
}
inline void copy_async_commit() {
  emulator::commit_copies();
}
template <int N>
void copy_async_wait() {
  emulator::wait_for_copies(N);
}

void load_matrices(uint32_t (&r)[4], const void* shared_row);
void load_matrices_transposed(uint32_t (&r)[4], const void* shared_row);
void multiply_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

/// A matrix in panels (simt.hpp).
struct shared_operand {
  const unsigned char* from;
  int leading_bytes, stride_bytes;

  shared_operand at(int bytes) const { return {from + bytes, leading_bytes, stride_bytes}; }
};

shared_operand operand_of(const void* tile, int leading_bytes, int stride_bytes);
inline void fence_shared() {
  emulator::fence_copies();
}
template <class... Registers>
void group_products_begin(Registers&...) {
  emulator::begin_products();
}
inline void group_products_commit() {
  emulator::commit_products();
}
template <int N, class... Registers>
void group_products_wait(Registers&...) {
  emulator::wait_for_products(N);
}
/// The two products of N columns (simt.hpp).
void group_multiply(float (*d)[4], int columns, const shared_operand& a, const shared_operand& b,
                    bool fresh);
void group_multiply_add(float (*d)[4], int columns, const uint32_t (&a)[4],
                        const shared_operand& b);
template <int N>
void group_multiply(float (&d)[N / 8][4], const shared_operand& a, const shared_operand& b,
                    bool fresh) {
  group_multiply(d, N, a, b, fresh);
}
template <int N>
void group_multiply_add(float (&d)[N / 8][4], const uint32_t (&a)[4], const shared_operand& b) {
  group_multiply_add(d, N, a, b);
}

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), grid_size grid, int block, size_t shared_bytes,
                   cudaStream_t s, Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
  if (!emulator::launchable(grid, block, shared_bytes)) return cudaErrorInvalidConfiguration;
  troupe_emulator_enqueue(s, [=, all = std::tuple<Parameters...>(arguments...)] {
    emulator::run_grid(grid, block, shared_bytes, [&] { std::apply(kernel, all); });
  });
  return cudaSuccess;
}

}  // namespace troupe::gpu::cuda
