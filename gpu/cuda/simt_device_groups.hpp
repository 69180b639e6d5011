// The words of simt.hpp for products by a warpgroup, in sm_90a's instructions (wgmma). Included by
// simt_device.hpp under nvcc only. Compiled for any other architecture they trap: who launches such
// a kernel asks has_group_products() first.
#pragma once

#include <cstdint>

namespace troupe::gpu::cuda {

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TROUPE_GROUPS(...) \
  do {                     \
    __trap();              \
  } while (false)
#else
#define TROUPE_GROUPS(...) asm volatile(__VA_ARGS__)
#endif

/// The descriptor of the PTX manual: address, leading and stride offset in units of 16 bytes, a
/// swizzle of 128 bytes.
struct shared_operand {
  uint64_t bits;

  __device__ __forceinline__ shared_operand at(int bytes) const {
    return {bits + static_cast<uint64_t>(bytes >> 4)};
  }
};

__device__ __forceinline__ shared_operand operand_of(const void* tile, int leading_bytes,
                                                     int stride_bytes) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  return {uint64_t{(address & 0x3ffffu) >> 4} | uint64_t{leading_bytes / 16u} << 16 |
          uint64_t{stride_bytes / 16u} << 32 | uint64_t{1} << 62};
}

__device__ __forceinline__ void fence_shared() {
  TROUPE_GROUPS("fence.proxy.async.shared::cta;" ::: "memory");
}
/// No instruction: what writes the registers stays before it, what reads them behind it.
template <int N>
__device__ __forceinline__ void pin(float (&d)[1][N][4]) {
  SIMT_UNROLL
  for (int i = 0; i < 4 * N; ++i) asm volatile("" : "+f"(d[0][i / 4][i % 4])::"memory");
}
template <int N>
__device__ __forceinline__ void pin(uint32_t (&a)[N][4]) {
  SIMT_UNROLL
  for (int i = 0; i < 4 * N; ++i) asm volatile("" : "+r"(a[i / 4][i % 4])::"memory");
}

template <class... Registers>
__device__ __forceinline__ void group_products_begin(Registers&... written) {
  (pin(written), ...);
  TROUPE_GROUPS("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void group_products_commit() {
  TROUPE_GROUPS("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N, class... Registers>
__device__ __forceinline__ void group_products_wait(Registers&... read) {
  TROUPE_GROUPS("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
  (pin(read), ...);
}

#define TROUPE_D4(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define TROUPE_D16(i) TROUPE_D4(i), TROUPE_D4(i + 1), TROUPE_D4(i + 2), TROUPE_D4(i + 3)
#define TROUPE_D64 TROUPE_D16(0), TROUPE_D16(4)
#define TROUPE_D128 TROUPE_D64, TROUPE_D16(8), TROUPE_D16(12)
#define TROUPE_R64                                                                \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21" \
  ",%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define TROUPE_R128                                                              \
  TROUPE_R64                                                                     \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50" \
  ",%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

template <int N>
__device__ __forceinline__ void group_multiply(float (&d)[N / 8][4], const shared_operand& a,
                                               const shared_operand& b, bool fresh) {
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64) {
    TROUPE_GROUPS(
        "{.reg .pred add; setp.eq.b32 add, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" TROUPE_R64
        "}, %32, %33, add, 1, 1, 0, 0;}"
        : TROUPE_D64
        : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(fresh)));
  } else {
    TROUPE_GROUPS(
        "{.reg .pred add; setp.eq.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" TROUPE_R128
        "}, %64, %65, add, 1, 1, 0, 0;}"
        : TROUPE_D128
        : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(fresh)));
  }
}

template <int N>
__device__ __forceinline__ void group_multiply_add(float (&d)[N / 8][4], const uint32_t (&a)[4],
                                                   const shared_operand& b) {
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64) {
    TROUPE_GROUPS("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" TROUPE_R64
                  "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
                  : TROUPE_D64
                  : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits));
  } else {
    TROUPE_GROUPS("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" TROUPE_R128
                  "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
                  : TROUPE_D128
                  : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits));
  }
}

#undef TROUPE_D4
#undef TROUPE_D16
#undef TROUPE_D64
#undef TROUPE_D128
#undef TROUPE_R64
#undef TROUPE_R128
#undef TROUPE_GROUPS

}  // namespace troupe::gpu::cuda
