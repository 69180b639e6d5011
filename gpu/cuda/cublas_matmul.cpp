// Matrix products by cuBLASLt.
//
// Row-major terms, column-major library: row-major memory of d[M,N] is column-major memory of
// d^T[N,M], so the library is asked for d^T = b^T a^T: its A is our b, its B our a, its m our N and
// its n our M. Its own row order would also do for the product, but its bias runs along the rows of
// the result: added once per row of d^T it is exactly our bias[N], while with the row order
// it would be one of length M; and algorithms for column order are the ones it is tuned for.
//
// What is decided once per key (sizes, strides, types, transposes, which of bias and c there are,
// alignments) is kept in a plan: descriptors and the first algorithm of the heuristics.
//
// Invariants
// MM-1 A sum is rounded once: of the ways to split K, those that add parts in the output's type are
//      excluded unless that is float32.
// MM-2 In deterministic mode K is split only by partial sums in the workspace, added in one order.
//      The workspace belongs to this object alone, and its stream runs in order.
// MM-3 An algorithm is only used with pointers at least as aligned as those it was chosen for.
#include <algorithm>
#include <climits>
#include <compare>
#include <map>
#include <string>
#include <utility>

#include "gpu/cuda/check.hpp"
#include "gpu/cuda/cublas_lt.hpp"
#include "gpu/cuda/matmul.hpp"

namespace troupe::gpu::cuda {
namespace {

cudaDataType_t cuda_type(dtype type) {
  return type == dtype::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// The largest power of two, up to 256, that divides the address (256 for none).
uint32_t alignment_of(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p) | 256;
  return static_cast<uint32_t>(address & (~address + 1));
}

/// All that the choice of an algorithm depends on.
struct plan_key {
  int64_t m, n, k, a_stride, b_stride, d_stride;
  dtype in, out;
  bool a_transposed, b_transposed, has_bias, has_c;
  bool no_workspace;
  uint32_t a_alignment, b_alignment, c_alignment, d_alignment, bias_alignment;

  auto operator<=>(const plan_key&) const = default;
};

std::string describe(const plan_key& k) {
  return std::to_string(k.m) + " x " + std::to_string(k.n) + " x " + std::to_string(k.k) + " of " +
         std::string(to_string(k.in)) + " to " + std::string(to_string(k.out)) +
         (k.a_transposed ? ", a transposed" : "") + (k.b_transposed ? ", b transposed" : "") +
         (k.has_bias ? ", bias" : "") + (k.has_c ? ", c" : "");
}

/// Handles of the library, each given back by its own function.
struct plan {
  explicit plan(const cublas_lt_table& t) : table(t) {}
  ~plan() {
    if (operation) table.desc_destroy(operation);
    for (auto layout : {a, b, d})
      if (layout) table.layout_destroy(layout);
  }
  plan(const plan&) = delete;
  plan& operator=(const plan&) = delete;

  const cublas_lt_table& table;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;  // d's is c's too
  cublasLtMatmulAlgo_t algorithm = {};
  size_t workspace_bytes = 0;
};

class cublas_matmul final : public matmul {
 public:
  cublas_matmul(const matmul_options& options, const cublas_lt_table& table)
      : options_(options), table_(table) {}
  ~cublas_matmul() override {
    plans_.clear();
    if (workspace_) forget(cudaFree(workspace_));
    if (handle_) table_.destroy(handle_);
  }

  status open();
  status run(cudaStream_t s, const matmul_args& a) override;

 private:
  status check(cublasStatus_t got, const char* call, const std::string& what = {}) const;
  template <class Value>
  status set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name,
             const Value& value) const {
    return check(table_.desc_set(operation, name, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  }
  status run_empty_sum(cudaStream_t s, const matmul_args& a);
  status multiply(cudaStream_t s, const matmul_args& a, bool no_workspace);
  result<plan*> plan_for(const plan_key& key, const matmul_args& a);
  status describe_operation(plan& p, const plan_key& key, const matmul_args& a) const;
  status choose(plan& p, const plan_key& key) const;
  status set_preferences(cublasLtMatmulPreference_t preference, const plan_key& key) const;

  const matmul_options options_;
  const cublas_lt_table table_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<plan_key, std::unique_ptr<plan>> plans_;
};

status cublas_matmul::check(cublasStatus_t got, const char* call, const std::string& what) const {
  if (got == CUBLAS_STATUS_SUCCESS) return {};
  const std::string text = std::string(call) + (what.empty() ? "" : " for " + what) + ": " +
                           table_.status_string(got) + " (" + table_.status_name(got) + ")";
  switch (got) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return error(errc::no_memory, text, "leave more memory of the device free");
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return error(errc::unavailable, text,
                   "the library has no algorithm for it: align tensors to 16 bytes, or change the "
                   "model's widths to multiples of 8");
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return error(errc::unavailable, text, "use a GPU that this version of cuBLAS supports");
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return error(errc::unavailable, text,
                   "see with nvidia-smi whether the driver sees the GPU and is new enough");
    default:
      return error(errc::unavailable, text, "see the device's log: dmesg, nvidia-smi -q");
  }
}

status cublas_matmul::open() {
  TROUPE_CHECK(check(table_.create(&handle_), "cublasLtCreate"));
  if (options_.workspace_bytes > 0) {
    TROUPE_CUDA_TRY(cudaMalloc(&workspace_, options_.workspace_bytes));
  }
  return {};
}

/// Strides as they are meant: 0 is packed.
result<matmul_args> completed(const matmul_args& given) {
  matmul_args a = given;
  const auto wrong = [](const char* why) {
    return error(errc::usage, std::string("a matrix product's ") + why);
  };
  if (a.m < 0 || a.n < 0 || a.k < 0) return wrong("size is negative");
  for (int64_t size : {a.m, a.n, a.k})
    if (size > INT_MAX) return wrong("size is beyond 2^31 - 1");
  if (a.in == dtype::i32 || (a.out != a.in && a.out != dtype::f32)) return wrong("types do not go");
  const int64_t a_row = a.a_transposed ? a.m : a.k, b_row = a.b_transposed ? a.k : a.n;
  if (a.a_stride == 0) a.a_stride = a_row;
  if (a.b_stride == 0) a.b_stride = b_row;
  if (a.d_stride == 0) a.d_stride = a.n;
  if (a.a_stride < a_row || a.b_stride < b_row || a.d_stride < a.n) {
    return wrong("rows are closer together than they are long");
  }
  if (a.m > 0 && a.n > 0 && (!a.d || (a.k > 0 && (!a.a || !a.b)))) return wrong("operand is null");
  return a;
}

status cublas_matmul::run(cudaStream_t s, const matmul_args& given) {
  TROUPE_TRY(a, completed(given));
  if (a.m == 0 || a.n == 0) return {};
  return a.k == 0 ? run_empty_sum(s, a) : multiply(s, a, false);
}

/// d = 0 (+ bias) (+ c): the library refuses K = 0, so one product of zeros, taken from the
/// workspace, stands for none.
status cublas_matmul::run_empty_sum(cudaStream_t s, const matmul_args& given) {
  const size_t bytes = static_cast<size_t>(std::max(given.m, given.n)) * size_of(given.in);
  if (bytes > options_.workspace_bytes) {
    return error(errc::usage, "an empty product needs a workspace as long as its longer side");
  }
  TROUPE_CUDA_TRY(cudaMemsetAsync(workspace_, 0, bytes, s));
  matmul_args a = given;
  a.k = 1;
  a.a = a.b = workspace_;
  a.a_transposed = true;  // a is [1,M], b is [1,N]
  a.b_transposed = false;
  a.a_stride = a.m;
  a.b_stride = a.n;
  return multiply(s, a, true);
}

status cublas_matmul::multiply(cudaStream_t s, const matmul_args& a, bool no_workspace) {
  const void* c = a.c ? a.c : a.d;  // read only where beta is 1
  const plan_key key = {a.m,
                        a.n,
                        a.k,
                        a.a_stride,
                        a.b_stride,
                        a.d_stride,
                        a.in,
                        a.out,
                        a.a_transposed,
                        a.b_transposed,
                        a.bias != nullptr,
                        a.c != nullptr,
                        no_workspace,
                        alignment_of(a.a),
                        alignment_of(a.b),
                        alignment_of(c),
                        alignment_of(a.d),
                        alignment_of(a.bias)};
  TROUPE_TRY(p, plan_for(key, a));
  if (a.bias) TROUPE_CHECK(set(p->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, a.bias));
  const float alpha = 1, beta = a.c ? 1 : 0;
  return check(
      table_.matmul(handle_, p->operation, &alpha, a.b, p->a, a.a, p->b, &beta, c, p->d, a.d, p->d,
                    &p->algorithm, no_workspace ? nullptr : workspace_, p->workspace_bytes, s),
      "cublasLtMatmul", describe(key));
}

/// The plan of the key, made when the key is new. A failed one is not kept.
result<plan*> cublas_matmul::plan_for(const plan_key& key, const matmul_args& a) {
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second.get();
  auto made = std::make_unique<plan>(table_);
  TROUPE_CHECK(describe_operation(*made, key, a));
  TROUPE_CHECK(choose(*made, key));
  return plans_.emplace(key, std::move(made)).first->second.get();
}

/// d^T[N,M] = op(A) op(B), all in columns. Rows of ours are columns of the library's.
status cublas_matmul::describe_operation(plan& p, const plan_key& key, const matmul_args& a) const {
  const auto layout = [&](cublasLtMatrixLayout_t& to, dtype type, int64_t rows, int64_t row_length,
                          int64_t stride) {
    return check(table_.layout_create(&to, cuda_type(type), static_cast<uint64_t>(row_length),
                                      static_cast<uint64_t>(rows), stride),
                 "cublasLtMatrixLayoutCreate", describe(key));
  };
  const auto [b_rows, b_length] =
      key.b_transposed ? std::pair(key.n, key.k) : std::pair(key.k, key.n);
  const auto [a_rows, a_length] =
      key.a_transposed ? std::pair(key.k, key.m) : std::pair(key.m, key.k);
  TROUPE_CHECK(layout(p.a, key.in, b_rows, b_length, key.b_stride));
  TROUPE_CHECK(layout(p.b, key.in, a_rows, a_length, key.a_stride));
  TROUPE_CHECK(layout(p.d, key.out, key.m, key.n, key.d_stride));
  TROUPE_CHECK(check(table_.desc_create(&p.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                     "cublasLtMatmulDescCreate"));
  const cublasOperation_t of_a = key.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t of_b = key.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  TROUPE_CHECK(set(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, of_a));
  TROUPE_CHECK(set(p.operation, CUBLASLT_MATMUL_DESC_TRANSB, of_b));
  if (!key.has_bias) return {};
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  const cudaDataType_t bias_type = cuda_type(key.out);
  TROUPE_CHECK(set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
  TROUPE_CHECK(set(p.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type));
  return set(p.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, a.bias);  // heuristics see how aligned
}

status cublas_matmul::set_preferences(cublasLtMatmulPreference_t preference,
                                      const plan_key& key) const {
  const auto put = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    return check(table_.preference_set(preference, name, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
  };
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;  // MM-1, MM-2
  if (!options_.deterministic && key.out == dtype::f32) {
    reductions |= CUBLASLT_REDUCTION_SCHEME_INPLACE;
  }
  const uint64_t workspace = key.no_workspace ? 0 : options_.workspace_bytes;
  TROUPE_CHECK(put(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace));
  TROUPE_CHECK(put(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions));
  TROUPE_CHECK(put(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment));  // MM-3
  TROUPE_CHECK(put(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment));
  TROUPE_CHECK(put(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c_alignment));
  return put(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.d_alignment);
}

/// The first algorithm of the heuristics that they themselves find fit to run.
status cublas_matmul::choose(plan& p, const plan_key& key) const {
  cublasLtMatmulPreference_t preference = nullptr;
  TROUPE_CHECK(check(table_.preference_create(&preference), "cublasLtMatmulPreferenceCreate"));
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                        cublasStatus_t (*)(cublasLtMatmulPreference_t)>
      guard(preference, table_.preference_destroy);
  TROUPE_CHECK(set_preferences(preference, key));
  constexpr int most = 4;
  cublasLtMatmulHeuristicResult_t found[most] = {};
  int count = 0;
  TROUPE_CHECK(check(
      table_.heuristic(handle_, p.operation, p.a, p.b, p.d, p.d, preference, most, found, &count),
      "cublasLtMatmulAlgoGetHeuristic", describe(key)));
  for (int i = 0; i < std::min(count, most); ++i) {
    if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
    p.algorithm = found[i].algo;
    p.workspace_bytes = found[i].workspaceSize;
    return {};
  }
  return check(count > 0 ? found[0].state : CUBLAS_STATUS_NOT_SUPPORTED,
               "cublasLtMatmulAlgoGetHeuristic", describe(key));
}

}  // namespace

result<std::unique_ptr<matmul>> make_cublas_matmul(const matmul_options& options,
                                                   const cublas_lt_table& table) {
  auto made = std::make_unique<cublas_matmul>(options, table);
  TROUPE_CHECK(made->open());
  return std::unique_ptr<matmul>(std::move(made));
}

result<std::unique_ptr<matmul>> make_cublas_matmul(const matmul_options& options) {
  TROUPE_TRY(table, load_cublas_lt());
  return make_cublas_matmul(options, table);
}

}  // namespace troupe::gpu::cuda
