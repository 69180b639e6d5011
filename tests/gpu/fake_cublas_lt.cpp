// The fake library: descriptors are structs of ours behind the library's opaque pointers.
#include "tests/gpu/fake_cublas_lt.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "tests/gpu/bf16.hpp"
#include "tests/gpu/emulator/runtime.hpp"

namespace troupe::gpu::cuda::testing {
namespace {

fake_cublas_lt_state state;

struct layout {
  cudaDataType type;
  uint64_t rows, columns;
  int64_t ld;
};

struct operation {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int32_t bias_type = -1;
  void* aux = nullptr;
  int64_t aux_ld = 0;

  bool has(uint32_t bits) const { return (epilogue & bits) == bits; }
  bool adds_bias() const { return has(CUBLASLT_EPILOGUE_BIAS); }
  bool sums_operand() const {
    return epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
  }
  bool uses_aux() const { return has(128); }  // the library's bit for all of them
};

struct preference {
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

/// What the 64 opaque bytes of an algorithm hold.
struct algorithm {
  uint32_t m, n, k;
  uint32_t alignment[4];
  uint8_t ops, in, out, reduction;
  uint16_t epilogue, bias_alignment, aux_alignment;
  uint32_t workspace;
};
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t));

template <class Ours, class Opaque>
Ours* ours(Opaque* p) {
  return reinterpret_cast<Ours*>(p);
}

/// Every call that can fail: counted, and told to fail at its turn.
bool fails(const char* function) {
  if (++state.calls != state.fail_at) return false;
  state.failed = function;
  return true;
}
#define FAKE_CALL(name) \
  if (fails(name)) return CUBLAS_STATUS_EXECUTION_FAILED

cublasStatus_t refuse(const char* why) {
  state.refused = why;
  return CUBLAS_STATUS_INVALID_VALUE;
}

template <class Value>
cublasStatus_t assign(Value& to, const void* from, size_t bytes) {
  if (!from || bytes != sizeof to) return refuse("an attribute of the wrong size");
  std::memcpy(&to, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t create(cublasLtHandle_t* handle) {
  FAKE_CALL("cublasLtCreate");
  ++state.live;
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t destroy(cublasLtHandle_t handle) {
  --state.live;
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

const char* status_name(cublasStatus_t s) {
  return s == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_OTHER";
}
const char* status_string(cublasStatus_t s) {
  return s == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported, the fake says" : fake_words;
}
size_t version() {
  return 130000;
}

cublasStatus_t layout_create(cublasLtMatrixLayout_t* to, cudaDataType type, uint64_t rows,
                             uint64_t columns, int64_t ld) {
  FAKE_CALL("cublasLtMatrixLayoutCreate");
  ++state.live;
  *to = reinterpret_cast<cublasLtMatrixLayout_t>(new layout{type, rows, columns, ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t layout_destroy(cublasLtMatrixLayout_t p) {
  --state.live;
  delete ours<layout>(p);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t desc_create(cublasLtMatmulDesc_t* to, cublasComputeType_t compute,
                           cudaDataType_t scale) {
  FAKE_CALL("cublasLtMatmulDescCreate");
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return refuse("not plain float32");
  ++state.live;
  *to = reinterpret_cast<cublasLtMatmulDesc_t>(new operation);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t desc_destroy(cublasLtMatmulDesc_t p) {
  --state.live;
  delete ours<operation>(p);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t desc_set(cublasLtMatmulDesc_t p, cublasLtMatmulDescAttributes_t name,
                        const void* from, size_t bytes) {
  FAKE_CALL("cublasLtMatmulDescSetAttribute");
  operation& o = *ours<operation>(p);
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(o.a, from, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(o.b, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(o.epilogue, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(o.bias, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return assign(o.bias_type, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return assign(o.aux, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return assign(o.aux_ld, from, bytes);
    default:
      return refuse("an attribute of an operation that the fake does not know");
  }
}

cublasStatus_t preference_create(cublasLtMatmulPreference_t* to) {
  FAKE_CALL("cublasLtMatmulPreferenceCreate");
  ++state.live;
  *to = reinterpret_cast<cublasLtMatmulPreference_t>(new preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t preference_destroy(cublasLtMatmulPreference_t p) {
  --state.live;
  delete ours<preference>(p);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t preference_set(cublasLtMatmulPreference_t p,
                              cublasLtMatmulPreferenceAttributes_t name, const void* from,
                              size_t bytes) {
  FAKE_CALL("cublasLtMatmulPreferenceSetAttribute");
  preference& x = *ours<preference>(p);
  switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return assign(x.workspace, from, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return assign(x.reductions, from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return assign(x.alignment[0], from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return assign(x.alignment[1], from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return assign(x.alignment[2], from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return assign(x.alignment[3], from, bytes);
    default:
      return refuse("a preference that the fake does not know");
  }
}

uint32_t power_of_two_in(const void* p) {
  uint32_t power = 256;
  while (reinterpret_cast<uintptr_t>(p) % power != 0) power /= 2;
  return power;
}

/// Whether the epilogue goes with what it needs.
cublasStatus_t epilogue_fits(const operation& o, const layout& d) {
  const uint32_t known[] = {CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_BIAS,
                            CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                            CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_BGRADA,
                            CUBLASLT_EPILOGUE_BGRADB};
  if (std::find(std::begin(known), std::end(known), o.epilogue) == std::end(known)) {
    return refuse("an epilogue that the fake does not know");
  }
  const bool plain =
      o.epilogue == CUBLASLT_EPILOGUE_DEFAULT || o.epilogue == CUBLASLT_EPILOGUE_BIAS;
  if (!plain && state.refuse_epilogues) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (o.adds_bias() || o.sums_operand()) {
    if (!o.bias) return refuse("no bias behind the pointer");
    if (o.bias_type != -1 && o.bias_type != static_cast<int32_t>(d.type)) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
  }
  if (!o.uses_aux()) return CUBLAS_STATUS_SUCCESS;
  if (!o.aux) return refuse("no aux behind the pointer");
  if (reinterpret_cast<uintptr_t>(o.aux) % 16 != 0) return refuse("aux is not on 16 bytes");
  if (o.aux_ld % 8 != 0) return refuse("aux's leading dimension is not divisible by 8");
  if (o.aux_ld < static_cast<int64_t>(d.rows)) return refuse("aux's leading dimension is short");
  return CUBLAS_STATUS_SUCCESS;
}

/// Whether descriptors go together, and what an algorithm for them would be.
cublasStatus_t problem_of(const operation& o, const layout& a, const layout& b, const layout& c,
                          const layout& d, algorithm& out) {
  for (const layout* l : {&a, &b, &c, &d}) {
    if (l->rows == 0 || l->columns == 0) return refuse("a matrix without elements");
    if (l->ld < static_cast<int64_t>(l->rows)) return refuse("ld below the number of rows");
  }
  const uint64_t m = o.a == CUBLAS_OP_N ? a.rows : a.columns;
  const uint64_t k = o.a == CUBLAS_OP_N ? a.columns : a.rows;
  const uint64_t n = o.b == CUBLAS_OP_N ? b.columns : b.rows;
  if (k != (o.b == CUBLAS_OP_N ? b.rows : b.columns)) return refuse("K differs");
  if (d.rows != m || d.columns != n) return refuse("D is not m x n");
  if (c.rows != m || c.columns != n) return refuse("C is not m x n");
  const bool known = a.type == b.type && c.type == d.type &&
                     ((a.type == CUDA_R_32F && d.type == CUDA_R_32F) ||
                      (a.type == CUDA_R_16BF && (d.type == CUDA_R_16BF || d.type == CUDA_R_32F)));
  if (!known) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (const auto fit = epilogue_fits(o, d); fit != CUBLAS_STATUS_SUCCESS) return fit;
  out = {};
  out.m = static_cast<uint32_t>(m);
  out.n = static_cast<uint32_t>(n);
  out.k = static_cast<uint32_t>(k);
  out.ops = static_cast<uint8_t>(o.a * 16 + o.b);
  out.epilogue = static_cast<uint16_t>(o.epilogue);
  out.in = static_cast<uint8_t>(a.type);
  out.out = static_cast<uint8_t>(d.type);
  const bool vector = o.adds_bias() || o.sums_operand();
  out.bias_alignment = static_cast<uint16_t>(vector ? power_of_two_in(o.bias) : 1);
  out.aux_alignment = static_cast<uint16_t>(o.uses_aux() ? power_of_two_in(o.aux) : 1);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t o, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                         cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t p, int wanted,
                         cublasLtMatmulHeuristicResult_t* results, int* count) {
  ++state.heuristics;
  FAKE_CALL("cublasLtMatmulAlgoGetHeuristic");
  const preference& x = *ours<preference>(p);
  state.reductions = x.reductions;
  state.workspace = x.workspace;
  *count = 0;
  if (wanted < 1) return refuse("no algorithm asked for");
  algorithm chosen;
  const cublasStatus_t fit = problem_of(*ours<operation>(o), *ours<layout>(a), *ours<layout>(b),
                                        *ours<layout>(c), *ours<layout>(d), chosen);
  if (fit != CUBLAS_STATUS_SUCCESS) return fit;
  const bool plain = chosen.epilogue <= CUBLASLT_EPILOGUE_BIAS;
  if (state.no_algorithm || (state.no_epilogues && !plain)) return CUBLAS_STATUS_SUCCESS;
  std::memcpy(chosen.alignment, x.alignment, sizeof chosen.alignment);
  if ((x.reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) && chosen.k > 8) {
    chosen.reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    chosen.workspace = x.workspace < 1024 ? 0 : 1024;
  }
  *count = 0;
  if (state.unfit_first) {  // and nothing else of it is valid
    if (wanted < 2) return refuse("no room for the algorithm that is fit");
    std::memset(&results[*count], 0x7f, sizeof results[0]);
    results[(*count)++].state = CUBLAS_STATUS_NOT_SUPPORTED;
  }
  results[*count] = {};
  std::memcpy(&results[*count].algo, &chosen, sizeof chosen);
  results[(*count)++].workspaceSize = chosen.workspace;
  return CUBLAS_STATUS_SUCCESS;
}

double load(const void* p, cudaDataType type, uint64_t i) {
  if (type == CUDA_R_16BF) return bf16_to_float(static_cast<const bf16_bits*>(p)[i]);
  return static_cast<const float*>(p)[i];
}

struct product {
  operation o;
  layout a, b, c, d;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  float alpha, beta;
  void* workspace;
  uint64_t workspace_bytes;
};

void store(void* p, cudaDataType type, uint64_t i, double value) {
  const auto rounded = static_cast<float>(value);
  if (type == CUDA_R_16BF) {
    static_cast<bf16_bits*>(p)[i] = float_to_bf16(rounded);
  } else {
    static_cast<float*>(p)[i] = rounded;
  }
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  const double du = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x), t = std::tanh(u);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * du;
}

/// What becomes of element (row, column) of D on its way to memory.
double finished(const product& p, uint64_t row, uint64_t column, double value) {
  const uint64_t at = row + column * static_cast<uint64_t>(p.o.aux_ld);
  if (p.o.has(CUBLASLT_EPILOGUE_DGELU)) return value * gelu_slope(load(p.o.aux, p.d.type, at));
  if (!p.o.has(CUBLASLT_EPILOGUE_GELU_AUX)) return value;
  store(p.o.aux, p.d.type, at, value);
  return gelu(value);
}

/// BGRADA sums rows of op(A), BGRADB columns of op(B).
void sum_operand(const product& p) {
  const bool of_a = p.o.epilogue == CUBLASLT_EPILOGUE_BGRADA;
  const layout& l = of_a ? p.a : p.b;
  const bool along_rows = of_a ? p.o.a != CUBLAS_OP_N : p.o.b == CUBLAS_OP_N;  // K runs there
  const auto ld = static_cast<uint64_t>(l.ld);
  for (uint64_t i = 0; i < (along_rows ? l.columns : l.rows); ++i) {
    double sum = 0;
    for (uint64_t k = 0; k < (along_rows ? l.rows : l.columns); ++k) {
      sum += load(of_a ? p.a_data : p.b_data, l.type, along_rows ? k + i * ld : i + k * ld);
    }
    store(p.o.bias, p.d.type, i, sum);
  }
}

/// Columns: element (r, c) lies at r + c * ld.
void compute(const product& p) {
  if (p.workspace) std::memset(p.workspace, 0x7f, p.workspace_bytes);  // an algorithm's own
  const uint64_t inner = p.o.a == CUBLAS_OP_N ? p.a.columns : p.a.rows;
  const auto at = [](const layout& l, uint64_t row, uint64_t column) {
    return row + column * static_cast<uint64_t>(l.ld);
  };
  for (uint64_t column = 0; column < p.d.columns; ++column) {
    for (uint64_t row = 0; row < p.d.rows; ++row) {
      double sum = 0;
      for (uint64_t k = 0; k < inner; ++k) {
        sum += load(p.a_data, p.a.type, p.o.a == CUBLAS_OP_N ? at(p.a, row, k) : at(p.a, k, row)) *
               load(p.b_data, p.b.type,
                    p.o.b == CUBLAS_OP_N ? at(p.b, k, column) : at(p.b, column, k));
      }
      double value = p.alpha * sum;
      if (p.o.adds_bias()) value += load(p.o.bias, p.d.type, row);
      if (p.beta != 0) value += p.beta * load(p.c_data, p.c.type, at(p.c, row, column));
      store(p.d_data, p.d.type, at(p.d, row, column), finished(p, row, column, value));
    }
  }
  if (p.o.sums_operand()) sum_operand(p);
}

cublasStatus_t matmul_call(cublasLtHandle_t, cublasLtMatmulDesc_t o, const void* alpha,
                           const void* a, cublasLtMatrixLayout_t al, const void* b,
                           cublasLtMatrixLayout_t bl, const void* beta, const void* c,
                           cublasLtMatrixLayout_t cl, void* d, cublasLtMatrixLayout_t dl,
                           const cublasLtMatmulAlgo_t* algo, void* workspace,
                           size_t workspace_bytes, cudaStream_t s) {
  FAKE_CALL("cublasLtMatmul");
  const product p = {*ours<operation>(o),
                     *ours<layout>(al),
                     *ours<layout>(bl),
                     *ours<layout>(cl),
                     *ours<layout>(dl),
                     a,
                     b,
                     c,
                     d,
                     *static_cast<const float*>(alpha),
                     *static_cast<const float*>(beta),
                     workspace,
                     workspace_bytes};
  algorithm chosen, wanted;
  std::memcpy(&chosen, algo, sizeof chosen);
  const cublasStatus_t fit = problem_of(p.o, p.a, p.b, p.c, p.d, wanted);
  if (fit != CUBLAS_STATUS_SUCCESS) return fit;
  if (wanted.m != chosen.m || wanted.n != chosen.n || wanted.k != chosen.k ||
      wanted.ops != chosen.ops || wanted.epilogue != chosen.epilogue || wanted.in != chosen.in ||
      wanted.out != chosen.out) {
    return refuse("an algorithm of another problem");
  }
  if (wanted.bias_alignment < chosen.bias_alignment) return refuse("the bias is not so aligned");
  if (wanted.aux_alignment < chosen.aux_alignment) return refuse("aux is not so aligned");
  const void* pointers[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) {
    if (!pointers[i]) return refuse("a null matrix");
    if (power_of_two_in(pointers[i]) < chosen.alignment[i]) return refuse("less aligned than said");
  }
  if (chosen.workspace > workspace_bytes || (chosen.workspace && !workspace)) {
    return refuse("the workspace is too small");
  }
  ++state.products;
  state.epilogue = p.o.epilogue;
  troupe_emulator_enqueue(s, [p] { compute(p); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

fake_cublas_lt_state& fake_cublas_lt() {
  return state;
}

cublas_lt_table fake_cublas_lt_table() {
  return {create,         destroy,       status_name,       status_string,
          version,        layout_create, layout_destroy,    desc_create,
          desc_destroy,   desc_set,      preference_create, preference_destroy,
          preference_set, heuristic,     matmul_call};
}

}  // namespace troupe::gpu::cuda::testing
