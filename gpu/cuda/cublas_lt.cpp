// Fills the table of cuBLASLt's functions.
#include "gpu/cuda/cublas_lt.hpp"

#include <mutex>
#include <optional>

namespace troupe::gpu::cuda {

result<cublas_lt_table> load_cublas_lt(std::initializer_list<const char*> names) {
  TROUPE_TRY(library, shared_library::open(names,
                                           "install NVIDIA's libcublas 13 or 12, or name its "
                                           "folder in LD_LIBRARY_PATH"));
  cublas_lt_table t;
  TROUPE_CHECK(library.find(t.create, "cublasLtCreate"));
  TROUPE_CHECK(library.find(t.destroy, "cublasLtDestroy"));
  TROUPE_CHECK(library.find(t.status_name, "cublasLtGetStatusName"));
  TROUPE_CHECK(library.find(t.status_string, "cublasLtGetStatusString"));
  TROUPE_CHECK(library.find(t.version, "cublasLtGetVersion"));
  TROUPE_CHECK(library.find(t.layout_create, "cublasLtMatrixLayoutCreate"));
  TROUPE_CHECK(library.find(t.layout_destroy, "cublasLtMatrixLayoutDestroy"));
  TROUPE_CHECK(library.find(t.desc_create, "cublasLtMatmulDescCreate"));
  TROUPE_CHECK(library.find(t.desc_destroy, "cublasLtMatmulDescDestroy"));
  TROUPE_CHECK(library.find(t.desc_set, "cublasLtMatmulDescSetAttribute"));
  TROUPE_CHECK(library.find(t.preference_create, "cublasLtMatmulPreferenceCreate"));
  TROUPE_CHECK(library.find(t.preference_destroy, "cublasLtMatmulPreferenceDestroy"));
  TROUPE_CHECK(library.find(t.preference_set, "cublasLtMatmulPreferenceSetAttribute"));
  TROUPE_CHECK(library.find(t.heuristic, "cublasLtMatmulAlgoGetHeuristic"));
  TROUPE_CHECK(library.find(t.matmul, "cublasLtMatmul"));
  return t;
}

result<cublas_lt_table> load_cublas_lt() {
  static std::mutex mutex;
  static std::optional<cublas_lt_table> loaded;
  std::lock_guard lock(mutex);
  if (!loaded) {
    TROUPE_TRY(table, load_cublas_lt({"libcublasLt.so.13", "libcublasLt.so.12",
                                      "/usr/local/cuda/lib64/libcublasLt.so.13",
                                      "/usr/local/cuda/lib64/libcublasLt.so.12"}));
    loaded = table;
  }
  return *loaded;
}

}  // namespace troupe::gpu::cuda
