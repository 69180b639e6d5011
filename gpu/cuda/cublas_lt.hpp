// The functions of cuBLASLt that the products use, as a table that is filled when first needed.
//
// Why a table: linked, the library is 200 MB and 50 ms in every command's start, and absent from
// most machines (shared_library.hpp); and tests put a fake in its place.
#pragma once

#include <cublasLt.h>

#include <initializer_list>

#include "gpu/cuda/shared_library.hpp"

namespace troupe::gpu::cuda {

/// Named as the library's functions without their prefix.
struct cublas_lt_table {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetStatusName) status_name = nullptr;
  decltype(&cublasLtGetStatusString) status_string = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
};

/// Loads the first of `names` that is there. Fails with unavailable: none is, or it is too old.
result<cublas_lt_table> load_cublas_lt(std::initializer_list<const char*> names);

/// The machine's own: version 13, else 12; as the dynamic linker finds it, else where the toolkit
/// installs it. Loaded once; a failure is not remembered.
result<cublas_lt_table> load_cublas_lt();

}  // namespace troupe::gpu::cuda
