// Plain loops behind the seam of the products. A row of d at a time, so that the inner loop runs
// along rows of b (which are made first where b lies transposed).
#include "tests/gpu/emulator/loop_matmul.hpp"

#include <cmath>
#include <vector>

#include "gpu/cuda/cuda_ops.hpp"
#include "tests/gpu/bf16.hpp"
#include "tests/gpu/emulator/runtime.hpp"

namespace troupe::gpu::cuda {
namespace {

float load(const void* p, dtype type, int64_t i) {
  if (type == dtype::bf16) return bf16_to_float(static_cast<const bf16_bits*>(p)[i]);
  return static_cast<const float*>(p)[i];
}

void store(void* p, dtype type, int64_t i, double value) {
  const auto rounded = static_cast<float>(value);
  if (type == dtype::bf16) {
    static_cast<bf16_bits*>(p)[i] = float_to_bf16(rounded);
  } else {
    static_cast<float*>(p)[i] = rounded;
  }
}

/// The operand as packed float32 rows.
std::vector<float> unpacked(const void* p, dtype type, int64_t rows, int64_t columns,
                            bool transposed, int64_t stride) {
  if (stride == 0) stride = transposed ? rows : columns;
  std::vector<float> out(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      out[static_cast<size_t>(r * columns + c)] =
          load(p, type, transposed ? c * stride + r : r * stride + c);
    }
  }
  return out;
}

/// GELU in its tanh form, and its slope.
struct curve {
  double value, slope;
};
curve gelu(double x) {
  const double c = std::sqrt(2 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
  return {0.5 * x * (1 + t),
          0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)};
}

/// Stores the sum of element `i` of d as the epilogue says.
void store_sum(const matmul_args& a, int64_t i, double sum) {
  if (a.after == epilogue::gelu) {
    store(a.aux, a.out, i, sum);
    sum = gelu(sum).value;
  }
  if (a.after == epilogue::gelu_gradient) sum *= gelu(load(a.aux, a.out, i)).slope;
  store(a.d, a.out, i, sum);
}

void multiply(const matmul_args& a) {
  const auto left = unpacked(a.a, a.in, a.m, a.k, a.a_transposed, a.a_stride);
  const auto right = unpacked(a.b, a.in, a.k, a.n, a.b_transposed, a.b_stride);
  const int64_t stride = a.d_stride ? a.d_stride : a.n;
  std::vector<double> row(static_cast<size_t>(a.n));
  for (int64_t i = 0; i < a.m; ++i) {
    row.assign(row.size(), 0.0);
    double of_a = 0;
    for (int64_t k = 0; k < a.k; ++k) {
      const double factor = left[static_cast<size_t>(i * a.k + k)];
      const float* b = right.data() + k * a.n;
      for (size_t j = 0; j < row.size(); ++j) row[j] += factor * b[j];
      of_a += factor;
    }
    if (a.after == epilogue::sums_of_a) store(a.aux, a.out, i, of_a);
    for (int64_t j = 0; j < a.n; ++j) {
      double value = row[static_cast<size_t>(j)];
      if (a.bias) value += load(a.bias, a.out, j);
      if (a.c) value += load(a.c, a.out, i * stride + j);
      store_sum(a, i * stride + j, value);
    }
  }
}

class loop_matmul final : public matmul {
 public:
  explicit loop_matmul(bool fuses) : fuses_(fuses) {}
  result<bool> fuses(const matmul_args& a) override { return fuses_ || a.after == epilogue::none; }
  status run(cudaStream_t s, const matmul_args& a) override {
    if (a.after == epilogue::none && a.aux) return error(errc::usage, "aux without an epilogue");
    if (a.m > 0 && a.n > 0) troupe_emulator_enqueue(s, [a] { multiply(a); });
    return {};
  }

 private:
  const bool fuses_;
};

}  // namespace

std::unique_ptr<matmul> make_loop_matmul() {
  return std::make_unique<loop_matmul>(true);
}

std::unique_ptr<matmul> make_plain_loop_matmul() {
  return std::make_unique<loop_matmul>(false);
}

result<std::unique_ptr<gpu::ops>> make_device_ops(cuda_device&, const cuda_ops_options& options) {
  return make_cuda_ops(make_loop_matmul, options);
}

}  // namespace troupe::gpu::cuda
