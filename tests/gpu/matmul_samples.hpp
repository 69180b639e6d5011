// Random products, with the row-major loops that say what they are: for the tests of matmul.
#pragma once

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gpu/cuda/matmul.hpp"
#include "tests/gpu/bf16.hpp"

namespace troupe::gpu::cuda::testing {

/// SplitMix64.
class rng {
 public:
  explicit rng(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t bound) { return static_cast<int64_t>(next() % uint64_t(bound)); }
  float symmetric() { return static_cast<float>(next() >> 40) / 8388608.0f - 1.0f; }

 private:
  uint64_t state_;
};

/// Rows of a matrix somewhere inside memory that is otherwise poison.
class matrix {
 public:
  matrix(dtype type, int64_t rows, int64_t columns, int64_t stride, int64_t first, rng& d)
      : type_(type),
        rows_(rows),
        columns_(columns),
        stride_(stride ? stride : columns),
        first_(first),
        blocks_(size_t(first + rows * stride_ + 4) * size_of(type) / 256 + 1) {
    std::memset(static_cast<void*>(blocks_.data()), 0x7f, blocks_.size() * sizeof(block));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) set(r, c, d.symmetric());
  }
  float get(int64_t r, int64_t c) const {
    if (type_ == dtype::bf16) return bf16_to_float(at<bf16_bits>()[r * stride_ + c]);
    return at<float>()[r * stride_ + c];
  }
  void set(int64_t r, int64_t c, double value) {
    const auto rounded = static_cast<float>(value);
    if (type_ == dtype::bf16)
      at<bf16_bits>()[r * stride_ + c] = float_to_bf16(rounded);
    else
      at<float>()[r * stride_ + c] = rounded;
  }
  void* data() const {
    return reinterpret_cast<char*>(blocks_.data()) + first_ * int64_t(size_of(type_));
  }
  int64_t bytes() const { return static_cast<int64_t>(blocks_.size() * sizeof(block)); }
  /// The memory around and between the rows included.
  void* memory() const { return blocks_.data(); }
  /// How far data() lies behind memory().
  int64_t offset() const { return first_ * int64_t(size_of(type_)); }
  /// The largest absolute value.
  double most() const {
    double out = 0;
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < columns_; ++c) out = std::max(out, std::abs(double{get(r, c)}));
    return out;
  }
  /// Elements as near as that, everything around them untouched.
  bool near(const matrix& o, double relative, double absolute) const {
    matrix mine = *this, other = o;
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < columns_; ++c) {
        const double x = get(r, c), y = o.get(r, c);
        if (!(std::abs(x - y) <= absolute + relative * std::abs(y))) return false;
        mine.set(r, c, 0);
        other.set(r, c, 0);
      }
    }
    return mine == other;
  }
  /// Every byte, gaps too.
  bool operator==(const matrix& o) const {
    return blocks_.size() == o.blocks_.size() &&
           std::memcmp(blocks_.data(), o.blocks_.data(), blocks_.size() * sizeof(block)) == 0;
  }

 private:
  struct alignas(256) block {
    char bytes[256];
  };
  template <class T>
  T* at() const {
    return reinterpret_cast<T*>(blocks_.data()) + first_;
  }
  dtype type_;
  int64_t rows_, columns_, stride_, first_;
  mutable std::vector<block> blocks_;
};

/// One random product and its operands.
struct sample {
  int64_t m, n, k;
  dtype in, out;
  bool a_transposed, b_transposed, has_bias;
  int c_kind;  ///< 0 none, 1 another matrix, 2 d itself
  int64_t a_stride, b_stride, d_stride;
  matrix a, b, bias, c, d;

  static int64_t stride(rng& d, int64_t row) { return d.below(2) ? 0 : row + d.below(6); }
  static sample draw(rng& d, bool empty_sum = false) {
    const int64_t m = 1 + d.below(37), n = 1 + d.below(41), k = empty_sum ? 0 : 1 + d.below(43);
    const dtype in = d.below(2) ? dtype::bf16 : dtype::f32;
    const dtype out = d.below(2) ? in : dtype::f32;
    const bool at = d.below(2), bt = d.below(2);
    const int64_t as = stride(d, at ? m : k), bs = stride(d, bt ? k : n), ds = stride(d, n);
    const bool has_bias = d.below(2);
    const int c_kind = static_cast<int>(d.below(3));
    return {m,
            n,
            k,
            in,
            out,
            at,
            bt,
            has_bias,
            c_kind,
            as,
            bs,
            ds,
            matrix(in, at ? k : m, at ? m : k, as, d.below(4), d),
            matrix(in, bt ? n : k, bt ? k : n, bs, d.below(4), d),
            matrix(out, 1, n, 0, d.below(4), d),
            matrix(out, m, n, ds, d.below(4), d),
            matrix(out, m, n, ds, d.below(4), d)};
  }
  matmul_args args(matrix& to) const {
    return {.m = m,
            .n = n,
            .k = k,
            .in = in,
            .out = out,
            .a = a.data(),
            .a_transposed = a_transposed,
            .a_stride = a_stride,
            .b = b.data(),
            .b_transposed = b_transposed,
            .b_stride = b_stride,
            .bias = has_bias ? bias.data() : nullptr,
            .c = c_kind == 0   ? nullptr
                 : c_kind == 1 ? c.data()
                               : to.data(),
            .d = to.data(),
            .d_stride = d_stride};
  }
  /// d as it should be: the textbook's three loops; without bias and c, what they are added to.
  matrix expected(bool whole = true) const {
    matrix to = d;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t x = 0; x < k; ++x) {
          sum += double(a_transposed ? a.get(x, i) : a.get(i, x)) *
                 double(b_transposed ? b.get(j, x) : b.get(x, j));
        }
        if (whole && has_bias) sum += bias.get(0, j);
        if (whole && c_kind) sum += c_kind == 1 ? c.get(i, j) : d.get(i, j);
        to.set(i, j, sum);
      }
    }
    return to;
  }
};

/// What the device of these products does before them: a thread of its own may make a context.
inline void choose_device() {
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

/// A stream of the runtime, real or emulated.
struct raw_stream {
  raw_stream() {
    choose_device();
    REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~raw_stream() { (void)cudaStreamDestroy(s); }
  raw_stream(const raw_stream&) = delete;
  raw_stream& operator=(const raw_stream&) = delete;
  void wait() { REQUIRE(cudaStreamSynchronize(s) == cudaSuccess); }
  cudaStream_t s = nullptr;
};

}  // namespace troupe::gpu::cuda::testing
