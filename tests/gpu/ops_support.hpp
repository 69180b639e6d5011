// What the tests of operations share: random tensors, the reference, every back end under test.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/ops.hpp"
#include "tests/gpu/backends.hpp"
#include "tests/gpu/bf16.hpp"
#include "tests/gpu/reference/reference_ops.hpp"

namespace troupe::gpu::testing {

/// A small generator: SplitMix64, so that a seed means the same numbers everywhere.
class random_numbers {
 public:
  explicit random_numbers(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// Uniform in [-1, 1).
  float symmetric() { return static_cast<float>(next() >> 40) / 8388608.0f - 1.0f; }
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(bound));
  }

 private:
  uint64_t state_;
};

/// A tensor in memory of host and back end, with a guard behind it that nobody may touch.
class tensor {
 public:
  tensor() = default;
  tensor(dtype type, int64_t count) : type_(type), count_(count), bytes_(padded_bytes()) {
    fill(std::numeric_limits<float>::quiet_NaN());  // an output that is not written shows
    std::memset(bytes_.data() + count * static_cast<int64_t>(size_of(type)), 0x5a, guard);
  }

  static tensor random(dtype type, int64_t count, uint64_t seed, float scale = 1.0f,
                       float offset = 0.0f) {
    tensor t(type, count);
    random_numbers r(seed);
    for (int64_t i = 0; i < count; ++i) t.set(i, offset + scale * r.symmetric());
    return t;
  }
  static tensor constant(dtype type, int64_t count, float value) {
    tensor t(type, count);
    t.fill(value);
    return t;
  }

  float get(int64_t i) const {
    if (type_ == dtype::bf16) return bf16_to_float(reinterpret_cast<const bf16_bits*>(data())[i]);
    return reinterpret_cast<const float*>(data())[i];
  }
  void set(int64_t i, float value) {
    if (type_ == dtype::bf16) {
      reinterpret_cast<bf16_bits*>(data())[i] = float_to_bf16(value);
    } else {
      reinterpret_cast<float*>(data())[i] = value;
    }
  }
  void fill(float value) {
    for (int64_t i = 0; i < count_; ++i) set(i, value);
  }
  bool guarded() const {
    for (int64_t i = 0; i < guard; ++i) {
      if (bytes_[static_cast<size_t>(count_) * size_of(type_) + static_cast<size_t>(i)] != 0x5a)
        return false;
    }
    return true;
  }

  dtype type() const { return type_; }
  int64_t count() const { return count_; }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  float* floats() { return static_cast<float*>(data()); }
  bool same_bits(const tensor& other) const { return bytes_ == other.bytes_; }
  /// Elements [first, first + count) as a tensor of their own.
  tensor part(int64_t first, int64_t count) const {
    tensor t(type_, count);
    const auto element = static_cast<int64_t>(size_of(type_));
    std::memcpy(t.bytes_.data(), bytes_.data() + first * element,
                static_cast<size_t>(count * element));
    return t;
  }

 private:
  static constexpr int64_t guard = 64;
  size_t padded_bytes() const { return static_cast<size_t>(count_) * size_of(type_) + guard; }

  dtype type_ = dtype::f32;
  int64_t count_ = 0;
  shared_vector<unsigned char> bytes_;
};

/// Of each row, the tokens before which a document ends and the next begins.
using row_borders = std::vector<std::vector<int32_t>>;

/// Rows of several documents, as operations are told of them.
class parted_rows {
 public:
  struct document {
    int64_t first, count;  ///< counted over all rows
  };

  parted_rows() = default;  ///< none: each row is one document
  parted_rows(int64_t seq, const row_borders& borders) {
    for (std::vector<int32_t> ends : borders) {
      const auto row = static_cast<int64_t>(first_.size());
      ends.push_back(static_cast<int32_t>(seq));
      int32_t first = 0;
      for (const int32_t end : ends) {
        list_.push_back({row + first, end - first});
        first_.insert(first_.end(), static_cast<size_t>(end - first), first);
        end_.insert(end_.end(), static_cast<size_t>(end - first), end);
        first = end;
      }
    }
    first_.shrink_to_fit();  // the address sanitizer sees the first number read too many
    end_.shrink_to_fit();
  }

  row_documents arrays() const {
    return first_.empty() ? row_documents{} : row_documents{first_.data(), end_.data()};
  }
  const std::vector<document>& list() const { return list_; }

 private:
  shared_vector<int32_t> first_, end_;
  std::vector<document> list_;
};

/// How far a result may be from the reference: absolute + relative * |expected|.
struct tolerance {
  double relative, absolute;
};

/// Rounding once to bfloat16 costs 2^-9; accumulated in another order it may fall on the other
/// side.
inline tolerance tolerance_of(dtype type, double f32 = 2e-6) {
  return type == dtype::bf16 ? tolerance{1.0 / 128, 4e-3} : tolerance{f32, f32};
}

/// The worst disagreement, as a multiple of the tolerance; NaN counts as infinite.
inline double disagreement(const tensor& actual, const tensor& expected, tolerance t) {
  REQUIRE(actual.count() == expected.count());
  double worst = 0;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double want = expected.get(i), got = actual.get(i);
    if (std::isnan(got) || std::isnan(want)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(got - want) / (t.absolute + t.relative * std::abs(want)));
  }
  return worst;
}

#define CHECK_CLOSE(actual, expected, allowed)                                   \
  do {                                                                           \
    CHECK(troupe::gpu::testing::disagreement(actual, expected, allowed) <= 1.0); \
    CHECK((actual).guarded());                                                   \
  } while (false)

/// Runs `f(ops, stream)` on the reference and waits.
template <class F>
void on_reference(F&& f) {
  static const auto device = make_reference_device();
  static const auto s = std::move(*device->make_stream({"reference", 1}));
  f(device->ops(), *s);
  auto outcome = s->synchronize();
  REQUIRE(outcome);
}

/// Runs `f(ops, stream)` and then `check()` on every back end of this executable.
template <class F, class Check>
void on_every_backend(F&& f, Check&& check) {
  for (const backend& b : backends()) {
    CAPTURE(b.name);
    f(*b.ops, *b.compute);
    auto outcome = b.compute->synchronize();
    REQUIRE(outcome);
    check();
  }
}

}  // namespace troupe::gpu::testing
