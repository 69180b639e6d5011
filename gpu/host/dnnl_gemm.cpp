// oneDNN's matmul behind dnnl_gemm.hpp: primitives cached by shape, per thread.
#include "gpu/host/dnnl_gemm.hpp"

#include <omp.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <string_view>
#include <unordered_map>

#include "gpu/host/kernels/kernel_table.hpp"
#include "gpu/host/memory.hpp"
#include "io/base/memory_account.hpp"

namespace troupe::gpu::host {
namespace {

/// Everything a primitive depends on.
struct shape {
  int64_t m, n, k, lda, ldb, ldc;
  bool ta, tb, accumulate, bias, residual;
  dtype type, out_type;

  bool operator==(const shape&) const = default;
};

struct shape_hash {
  size_t operator()(const shape& s) const noexcept {
    size_t h = 0;
    for (int64_t v : {s.m, s.n, s.k, s.lda, s.ldb, s.ldc, int64_t{s.ta}, int64_t{s.tb},
                      int64_t{s.accumulate}, int64_t{s.bias}, int64_t{s.residual},
                      static_cast<int64_t>(s.type), static_cast<int64_t>(s.out_type)}) {
      h = h * 0x9E3779B97F4A7C15u + static_cast<size_t>(v) + (h >> 29);
    }
    return h;
  }
};

dnnl::memory::data_type to_dnnl(dtype type) {
  return type == dtype::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// A primitive and the memory objects it is run with; only their data pointers change.
struct prepared {
  dnnl::matmul primitive;
  dnnl::memory a, b, c, bias, residual, scratch;
  std::unordered_map<int, dnnl::memory> arguments;
  buffer scratch_block;
};

/// The oneDNN state of one thread.
class thread_state {
 public:
  thread_state() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    omp_set_num_threads(1);  // of this thread only: the team has already split the work
  }

  prepared& get(const shape& s) {
    auto& slot = cache_[s];
    if (slot == nullptr) {
      static std::mutex one_at_a_time;  // oneDNN's own cache of primitives is shared by threads
      std::lock_guard lock(one_at_a_time);
      slot = prepare(s);
    }
    return *slot;
  }
  dnnl::stream& stream() { return stream_; }

 private:
  std::unique_ptr<prepared> prepare(const shape& s) const;

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::unordered_map<shape, std::unique_ptr<prepared>, shape_hash> cache_;
};

dnnl::memory::desc matrix(int64_t rows, int64_t columns, dtype type, int64_t stride,
                          bool transposed) {
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1};
  return {dnnl::memory::dims{rows, columns}, to_dnnl(type), strides};
}

dnnl::matmul::primitive_desc describe(const dnnl::engine& engine, const shape& s,
                                      const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                      const dnnl::memory::desc& c, const dnnl::memory::desc& bias) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops post;
  if (s.accumulate) post.append_sum(1.0f);
  if (s.residual) {
    post.append_binary(dnnl::algorithm::binary_add, matrix(s.m, s.n, s.type, s.ldc, false));
  }
  attributes.set_post_ops(post);
#if DNNL_VERSION_MAJOR >= 3
  if (s.bias) return {engine, a, b, bias, c, attributes};
  return {engine, a, b, c, attributes};
#else
  if (s.bias) return {dnnl::matmul::desc(a, b, bias, c), attributes, engine};
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
#endif
}

std::unique_ptr<prepared> thread_state::prepare(const shape& s) const {
  const auto a = matrix(s.m, s.k, s.type, s.lda, s.ta);
  const auto b = matrix(s.k, s.n, s.type, s.ldb, s.tb);
  const auto c = matrix(s.m, s.n, s.out_type, s.ldc, false);
  const auto bias = matrix(1, s.n, s.type, s.n, false);
  const auto description = describe(engine_, s, a, b, c, bias);

  auto made = std::make_unique<prepared>();
  made->primitive = dnnl::matmul(description);
  made->a = dnnl::memory(a, engine_, DNNL_MEMORY_NONE);
  made->b = dnnl::memory(b, engine_, DNNL_MEMORY_NONE);
  made->c = dnnl::memory(c, engine_, DNNL_MEMORY_NONE);
  made->arguments = {{DNNL_ARG_SRC, made->a}, {DNNL_ARG_WEIGHTS, made->b}, {DNNL_ARG_DST, made->c}};
  if (s.bias) {
    made->bias = dnnl::memory(bias, engine_, DNNL_MEMORY_NONE);
    made->arguments.emplace(DNNL_ARG_BIAS, made->bias);
  }
  if (s.residual) {
    made->residual =
        dnnl::memory(matrix(s.m, s.n, s.type, s.ldc, false), engine_, DNNL_MEMORY_NONE);
    const int position = s.accumulate ? 1 : 0;
    made->arguments.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(position) | DNNL_ARG_SRC_1,
                            made->residual);
  }
  const auto scratch = description.scratchpad_desc();
  if (scratch.get_size() > 0) {
    const io::memory_holder holder("scratch of matrix products");
    auto block = allocate_memory(scratch.get_size());
    if (!block) throw io::memory_refused(block.error());
    made->scratch_block = std::move(*block);
    made->scratch = dnnl::memory(scratch, engine_, made->scratch_block.data());
    made->arguments.emplace(DNNL_ARG_SCRATCHPAD, made->scratch);
  }
  return made;
}

/// DNNL-2: once per process, before the first primitive.
void hold_to_instruction_set() {
#if defined(__x86_64__)
  const std::string_view name = select_kernels().name;
  if (name == "generic") dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
  if (name == "avx2") dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
  if (name == "avx512") dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core);
  if (name == "avx512_bf16") dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
#endif
}

thread_state& this_thread() {
  static std::once_flag once;
  std::call_once(once, hold_to_instruction_set);
  thread_local thread_state state;
  return state;
}

void* writable(const void* p) {
  return const_cast<void*>(p);  // oneDNN's handles are not const; inputs are only read
}

shape shape_of(const gemm_args& a) {
  const bool in_place = a.residual == a.c;
  return {.m = a.m,
          .n = a.n,
          .k = a.k,
          .lda = a.lda,
          .ldb = a.ldb,
          .ldc = a.ldc,
          .ta = a.transposed_a,
          .tb = a.transposed_b,
          .accumulate = a.accumulate || (a.residual != nullptr && in_place),
          .bias = a.bias != nullptr,
          .residual = a.residual != nullptr && !in_place,
          .type = a.type,
          .out_type = a.out_type};
}

}  // namespace

size_t dnnl_scratch_bytes(const gemm_args& a) {
  static std::once_flag once;
  std::call_once(once, hold_to_instruction_set);
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const shape s = shape_of(a);
  const auto description = describe(
      engine, s, matrix(s.m, s.k, s.type, s.lda, s.ta), matrix(s.k, s.n, s.type, s.ldb, s.tb),
      matrix(s.m, s.n, s.out_type, s.ldc, false), matrix(1, s.n, s.type, s.n, false));
  return description.scratchpad_desc().get_size();
}

void dnnl_gemm(const gemm_args& a) {
  thread_state& thread = this_thread();
  const shape s = shape_of(a);
  prepared& p = thread.get(s);
  p.a.set_data_handle(writable(a.a));
  p.b.set_data_handle(writable(a.b));
  p.c.set_data_handle(a.c);
  if (s.bias) p.bias.set_data_handle(writable(a.bias));
  if (s.residual) p.residual.set_data_handle(writable(a.residual));
  p.primitive.execute(thread.stream(), p.arguments);
}

std::string dnnl_version_text() {
  const auto* v = dnnl::version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

}  // namespace troupe::gpu::host
