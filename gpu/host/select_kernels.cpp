// Which variants of the kernels this machine can run, asked of the processor once.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "gpu/host/kernels/kernel_table.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace troupe::gpu::host {

namespace generic {
extern const kernel_table table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const kernel_table table;
}
namespace avx512 {
extern const kernel_table table;
}
namespace avx512_bf16 {
extern const kernel_table table;
}
namespace amx_bf16 {
extern const kernel_table table;
}
#endif

namespace {

#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512cd");
}

/// Whether the processor has AMX tiles for bfloat16 and Linux lets this process use them.
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
  if ((d & amx_bf16) == 0 || (d & amx_tile) == 0) return false;
  constexpr int request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int tile_data = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#endif

/// Every variant this machine can run, worst first, no better than TROUPE_ISA where that is set.
std::vector<const kernel_table*> find_runnable() {
  std::vector<const kernel_table*> tables = {&generic::table};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (has_avx2()) tables.push_back(&avx2::table);
  if (has_avx512()) tables.push_back(&avx512::table);
  if (has_avx512() && __builtin_cpu_supports("avx512bf16")) {
    tables.push_back(&avx512_bf16::table);
    if (has_amx()) tables.push_back(&amx_bf16::table);
  }
#endif
  const char* wanted = std::getenv("TROUPE_ISA");
  for (size_t i = 0; wanted != nullptr && i < tables.size(); ++i) {
    if (std::strcmp(tables[i]->name, wanted) == 0) tables.resize(i + 1);
  }
  return tables;
}

const std::vector<const kernel_table*>& runnable() {
  static const std::vector<const kernel_table*> tables = find_runnable();
  return tables;
}

}  // namespace

const kernel_table& select_kernels() {
  return *runnable().back();
}

const kernel_table* const* runnable_kernels(int* count) {
  *count = static_cast<int>(runnable().size());
  return runnable().data();
}

}  // namespace troupe::gpu::host
