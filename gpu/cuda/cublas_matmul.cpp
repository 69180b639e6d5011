// Matrix products by cuBLASLt.
//
// Row-major terms, column-major library: row-major memory of d[M,N] is column-major memory of
// d^T[N,M], so the library is asked for d^T = b^T a^T: its A is our b, its B our a, its m our N and
// its n our M. Its own row order would also do for the product, but its bias runs along the rows of
// the result: added once per row of d^T it is exactly our bias[N], while with the row order
// it would be one of length M; and algorithms for column order are the ones it is tuned for.
//
// Epilogues: GELU with what it was taken of (GELU_AUX, GELU_AUX_BIAS) and its gradient (DGELU) are
// the library's, in its tanh form; aux is laid out as d. Sums over our a's rows are its BGRADB: a
// is its operand B, and "the bias size corresponds to the number of columns of the matrix D", which
// are our rows. They come in d's type and overwrite. What its documentation excludes (rows of a
// length that 8 does not divide) is not asked for, nor is a GELU in float32: that type is for
// checking, and the library's GELU is an approximation of its own. DGELU_BGRAD is not used: it
// would round the sums to d's type, bf16, and gradients of parameters are float32 here.
//
// What is decided once per key (sizes, strides, types, transposes, which of bias and c there are,
// the epilogue, alignments) is kept in a plan: descriptors and the first algorithm of the
// heuristics.
//
// Invariants
// MM-1 A sum is rounded once where matrices lie on 16 bytes and 8 divides the length of rows: of
//      the ways to split K, those that add parts in the output's type are excluded unless that is
//      float32. For other bf16 matrices the library rounds before it adds a bias or c (H100).
// MM-2 In deterministic mode K is split only by partial sums in the workspace, added in one order.
//      The workspace belongs to this object alone, and its stream runs in order.
// MM-3 An algorithm is only used with pointers at least as aligned as those it was chosen for.
// MM-4 Whether an epilogue is the library's is decided once per key, like its algorithm: the same
//      call takes the same way in every step, and costs no second question.
#include <algorithm>
#include <climits>
#include <compare>
#include <map>
#include <string>
#include <utility>

#include "gpu/cuda/check.hpp"
#include "gpu/cuda/cublas_lt.hpp"
#include "gpu/cuda/matmul.hpp"
#include "gpu/cuda/memory.hpp"
#include "io/base/memory_account.hpp"

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
  epilogue after;
  uint32_t a_alignment, b_alignment, c_alignment, d_alignment, bias_alignment, aux_alignment;

  auto operator<=>(const plan_key&) const = default;
};

plan_key key_of(const matmul_args& a, bool no_workspace) {
  return {a.m,
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
          a.after,
          alignment_of(a.a),
          alignment_of(a.b),
          alignment_of(a.c ? a.c : a.d),
          alignment_of(a.d),
          alignment_of(a.bias),
          alignment_of(a.aux)};
}

const char* ending(epilogue after) {
  switch (after) {
    case epilogue::gelu:
      return ", GELU";
    case epilogue::gelu_gradient:
      return ", gradient of GELU";
    case epilogue::sums_of_a:
      return ", sums of a";
    case epilogue::none:
      break;
  }
  return "";
}

std::string describe(const plan_key& k) {
  return std::to_string(k.m) + " x " + std::to_string(k.n) + " x " + std::to_string(k.k) + " of " +
         std::string(to_string(k.in)) + " to " + std::string(to_string(k.out)) +
         (k.a_transposed ? ", a transposed" : "") + (k.b_transposed ? ", b transposed" : "") +
         (k.has_bias ? ", bias" : "") + (k.has_c ? ", c" : "") + ending(k.after);
}

/// What the library calls it.
cublasLtEpilogue_t library_epilogue(const plan_key& k) {
  switch (k.after) {
    case epilogue::gelu:
      return k.has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case epilogue::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case epilogue::sums_of_a:
      return CUBLASLT_EPILOGUE_BGRADB;
    case epilogue::none:
      break;
  }
  return k.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/// Whether the library may be asked for the epilogue at all.
bool may_fuse(const matmul_args& a) {
  if (a.after == epilogue::none || a.after == epilogue::sums_of_a) return true;
  constexpr int64_t ld_divisor = 8;
  return a.out == dtype::bf16 && a.d_stride % ld_divisor == 0 && alignment_of(a.aux) >= 16;
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
  bool fit = true;  ///< false: the library has no algorithm with this epilogue
};

class cublas_matmul final : public matmul {
 public:
  cublas_matmul(const matmul_options& options, const cublas_lt_table& table)
      : options_(options), table_(table) {}
  ~cublas_matmul() override {
    plans_.clear();
    workspace_ = buffer{};
    if (handle_) table_.destroy(handle_);
  }

  status open();
  result<bool> fuses(const matmul_args& a) override;
  status run(cudaStream_t s, const matmul_args& a) override;

 private:
  status check(cublasStatus_t got, const char* call, const std::string& what = {}) const;
  template <class Value>
  status set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name,
             const Value& value) const {
    return check(table_.desc_set(operation, name, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  }
  matmul_args sum_of_nothing(const matmul_args& given) const;
  status set_pointers(cublasLtMatmulDesc_t operation, const matmul_args& a) const;
  status run_empty_sum(cudaStream_t s, const matmul_args& a);
  status multiply(cudaStream_t s, const matmul_args& a, bool no_workspace);
  result<plan*> plan_for(const plan_key& key, const matmul_args& a);
  status describe_operation(plan& p, const plan_key& key, const matmul_args& a) const;
  status set_epilogue(plan& p, const plan_key& key, const matmul_args& a) const;
  result<bool> choose(plan& p, const plan_key& key) const;
  status set_preferences(cublasLtMatmulPreference_t preference, const plan_key& key) const;

  const matmul_options options_;
  const cublas_lt_table table_;
  cublasLtHandle_t handle_ = nullptr;
  buffer workspace_;
  std::map<plan_key, std::unique_ptr<plan>> plans_;
};

status cublas_matmul::check(cublasStatus_t got, const char* call, const std::string& what) const {
  if (got == CUBLAS_STATUS_SUCCESS) return {};
  const std::string text = std::string(call) + (what.empty() ? "" : " for " + what) + ": " +
                           table_.status_string(got) + " (" + table_.status_name(got) + ")";
  const auto failed = [&](const char* hint, errc code = errc::unavailable) {
    return error(code, text, hint, table_.status_name(got));
  };
  switch (got) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return failed("leave more memory of the device free", errc::no_memory);
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return failed(
          "the library has no algorithm for it: align tensors to 16 bytes, or change the model's "
          "widths to multiples of 8");
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return failed("use a GPU that this version of cuBLAS supports");
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return failed("see with nvidia-smi whether the driver sees the GPU and is new enough");
    default:
      return failed("see the device's log: dmesg, nvidia-smi -q");
  }
}

status cublas_matmul::open() {
  TROUPE_CHECK(check(table_.create(&handle_), "cublasLtCreate"));
  if (options_.workspace_bytes > 0) {
    const io::memory_holder holder("scratch of matrix products");
    TROUPE_TRY(made, allocate_uncleared(options_.workspace_bytes));
    workspace_ = std::move(made);
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
  if (a.after == epilogue::none) {
    if (a.aux) return wrong("epilogue is missing, and yet has something to read or write");
    return a;
  }
  const bool gelu = a.after == epilogue::gelu || a.after == epilogue::gelu_gradient;
  if (a.m > 0 && a.n > 0 && !a.aux) return wrong("epilogue has nothing to read or write");
  if ((gelu && a.c) || (a.bias && a.after != epilogue::gelu))
    return wrong("epilogue is one too many");
  return a;
}

result<bool> cublas_matmul::fuses(const matmul_args& given) {
  TROUPE_TRY(a, completed(given));
  if (a.after == epilogue::none || a.m == 0 || a.n == 0) return true;
  if (!may_fuse(a)) return false;
  const bool empty_sum = a.k == 0;
  if (empty_sum) a = sum_of_nothing(a);
  TROUPE_TRY(p, plan_for(key_of(a, empty_sum), a));
  return p->fit;
}

status cublas_matmul::run(cudaStream_t s, const matmul_args& given) {
  TROUPE_TRY(a, completed(given));
  if (a.m == 0 || a.n == 0) return {};
  return a.k == 0 ? run_empty_sum(s, a) : multiply(s, a, false);
}

/// The same with one product of zeros, taken from the workspace, for the library refuses K = 0.
matmul_args cublas_matmul::sum_of_nothing(const matmul_args& given) const {
  matmul_args a = given;
  a.k = 1;
  a.a = a.b = workspace_.data();
  a.a_transposed = true;  // a is [1,M], b is [1,N]
  a.b_transposed = false;
  a.a_stride = a.m;
  a.b_stride = a.n;
  return a;
}

/// d = 0 (+ bias) (+ c).
status cublas_matmul::run_empty_sum(cudaStream_t s, const matmul_args& a) {
  const size_t bytes = static_cast<size_t>(std::max(a.m, a.n)) * size_of(a.in);
  if (bytes > options_.workspace_bytes) {
    return error(errc::usage, "an empty product needs a workspace as long as its longer side");
  }
  TROUPE_CUDA_TRY(cudaMemsetAsync(workspace_.data(), 0, bytes, s));
  return multiply(s, sum_of_nothing(a), true);
}

status cublas_matmul::multiply(cudaStream_t s, const matmul_args& a, bool no_workspace) {
  const void* c = a.c ? a.c : a.d;  // read only where beta is 1
  const plan_key key = key_of(a, no_workspace);
  if (!may_fuse(a)) return check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmul", describe(key));
  TROUPE_TRY(p, plan_for(key, a));
  if (!p->fit) return check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmul", describe(key));
  TROUPE_CHECK(set_pointers(p->operation, a));
  const float alpha = 1, beta = a.c ? 1 : 0;
  return check(table_.matmul(handle_, p->operation, &alpha, a.b, p->a, a.a, p->b, &beta, c, p->d,
                             a.d, p->d, &p->algorithm, no_workspace ? nullptr : workspace_.data(),
                             p->workspace_bytes, s),
               "cublasLtMatmul", describe(key));
}

/// Those that are part of the operation. Sums of an operand go where biases come from.
status cublas_matmul::set_pointers(cublasLtMatmulDesc_t operation, const matmul_args& a) const {
  const void* vector = a.after == epilogue::sums_of_a ? a.aux : a.bias;
  if (vector) TROUPE_CHECK(set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector));
  if (!a.aux || a.after == epilogue::sums_of_a) return {};
  return set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, a.aux);
}

/// The plan of the key, made when the key is new. A failed one is not kept; one that has no
/// algorithm for its epilogue is.
result<plan*> cublas_matmul::plan_for(const plan_key& key, const matmul_args& a) {
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second.get();
  auto made = std::make_unique<plan>(table_);
  TROUPE_CHECK(describe_operation(*made, key, a));
  TROUPE_TRY(found, choose(*made, key));
  made->fit = found;
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
  return set_epilogue(p, key, a);
}

status cublas_matmul::set_epilogue(plan& p, const plan_key& key, const matmul_args& a) const {
  const cublasLtEpilogue_t ending = library_epilogue(key);
  if (ending == CUBLASLT_EPILOGUE_DEFAULT) return {};
  TROUPE_CHECK(set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, ending));
  if (key.has_bias || key.after == epilogue::sums_of_a) {
    const int32_t type = cuda_type(key.out);
    TROUPE_CHECK(set(p.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type));
  }
  if (key.after == epilogue::gelu || key.after == epilogue::gelu_gradient) {
    TROUPE_CHECK(set(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.d_stride));
  }
  return set_pointers(p.operation, a);  // heuristics see how aligned
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

/// The first algorithm of the heuristics that they themselves find fit to run. False where there is
/// none because of the epilogue; without one that is an error.
result<bool> cublas_matmul::choose(plan& p, const plan_key& key) const {
  cublasLtMatmulPreference_t preference = nullptr;
  TROUPE_CHECK(check(table_.preference_create(&preference), "cublasLtMatmulPreferenceCreate"));
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                        cublasStatus_t (*)(cublasLtMatmulPreference_t)>
      guard(preference, table_.preference_destroy);
  TROUPE_CHECK(set_preferences(preference, key));
  constexpr int most = 4;
  cublasLtMatmulHeuristicResult_t found[most] = {};
  int count = 0;
  const cublasStatus_t asked =
      table_.heuristic(handle_, p.operation, p.a, p.b, p.d, p.d, preference, most, found, &count);
  const bool may_lack = key.after != epilogue::none;
  if (may_lack && (asked == CUBLAS_STATUS_NOT_SUPPORTED || asked == CUBLAS_STATUS_INVALID_VALUE))
    return false;
  TROUPE_CHECK(check(asked, "cublasLtMatmulAlgoGetHeuristic", describe(key)));
  for (int i = 0; i < std::min(count, most); ++i) {
    if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
    p.algorithm = found[i].algo;
    p.workspace_bytes = found[i].workspaceSize;
    return true;
  }
  if (may_lack) return false;
  TROUPE_CHECK(check(count > 0 ? found[0].state : CUBLAS_STATUS_NOT_SUPPORTED,
                     "cublasLtMatmulAlgoGetHeuristic", describe(key)));
  return false;
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
