// Small whole numbers, multiplied by a loop over integers and by the kernels.
#include "gpu/known_product.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "gpu/host/kernels/kernel_table.hpp"
#include "gpu/ops.hpp"

namespace troupe::gpu {

namespace {

constexpr int64_t line = 64;  // bytes

/// The upper half, rounded to the nearest, ties to the even one: exact for small whole numbers.
uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

std::vector<uint16_t> bf16_of(const std::vector<float>& values) {
  std::vector<uint16_t> out;
  out.reserve(values.size());
  for (const float v : values) out.push_back(bf16_of(v));
  return out;
}

/// Numbers without a pattern, the same ones each time.
class sequence {
 public:
  explicit sequence(uint64_t seed) : at_(seed) {}
  uint32_t next() {
    at_ = at_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(at_ >> 33);
  }

 private:
  uint64_t at_;
};

uint64_t hash_of(std::span<const float> values) {
  uint64_t h = 14695981039346656037u;  // FNV-1a
  for (const float v : values) h = (h ^ std::bit_cast<uint32_t>(v)) * 1099511628211u;
  return h;
}

host::gemm_args gemm_of(dtype type, const void* x, const void* w, float* y) {
  return {.m = known_product::tokens,
          .n = known_product::out,
          .k = known_product::in,
          .type = type,
          .out_type = dtype::f32,
          .a = x,
          .lda = known_product::in,
          .b = w,
          .ldb = known_product::in,
          .transposed_b = true,
          .c = y,
          .ldc = known_product::out};
}

template <class T>
result<buffer> uploaded(device& owner, stream& s, const std::vector<T>& values) {
  TROUPE_TRY(memory, owner.allocate(values.size() * sizeof(T)));
  s.copy(memory.data(), values.data(), memory.bytes());
  return memory;
}

/// y = x w^T on a device, brought back.
template <class T>
result<std::vector<T>> product_of(device& owner, dtype type, const std::vector<T>& x,
                                  const std::vector<T>& w) {
  TROUPE_TRY(s, owner.make_stream({.name = "known product", .replay = false}));
  TROUPE_TRY(x_there, uploaded(owner, *s, x));
  TROUPE_TRY(w_there, uploaded(owner, *s, w));
  std::vector<T> y(static_cast<size_t>(known_product::tokens * known_product::out));
  TROUPE_TRY(y_there, owner.allocate(y.size() * sizeof(T)));
  owner.ops().linear_forward(
      *s, {known_product::tokens, known_product::in, known_product::out, type, x_there.data(),
           w_there.data(), nullptr, nullptr, y_there.data()});
  s->copy(y.data(), y_there.data(), y_there.bytes());
  TROUPE_CHECK(s->synchronize());
  return y;
}

}  // namespace

known_product::known_product() {
  constexpr int32_t largest = 127;  // KNP-2: 512 x 127 x 127 is below 2^24
  static_assert(in * largest * largest < int64_t{1} << 24);
  sequence next(16);
  const auto whole = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (auto& v : values)
      v = static_cast<float>(static_cast<int32_t>(next.next() % (2 * largest + 1)) - largest);
    return values;
  };
  const auto full = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (auto& v : values) v = std::ldexp(static_cast<float>(next.next() >> 7), -23) - 0.5f;
    return values;
  };
  x_ = whole(tokens * in);
  w_ = whole(out * in);
  full_x_ = full(tokens * in);
  full_w_ = full(out * in);
  for (int64_t t = 0; t < tokens; ++t)  // KNP-1
    for (int64_t o = 0; o < out; ++o) {
      int32_t sum = 0;
      for (int64_t i = 0; i < in; ++i)
        sum += static_cast<int32_t>(x_[static_cast<size_t>(t * in + i)]) *
               static_cast<int32_t>(w_[static_cast<size_t>(o * in + i)]);
      wanted_.push_back(static_cast<float>(sum));
    }
  x_bf16_ = bf16_of(x_);
  w_bf16_ = bf16_of(w_);
  wanted_bf16_ = bf16_of(wanted_);
  product_.resize(wanted_.size());
  const auto& k = host::select_kernels();
  scratch_.resize(line + std::max(k.gemm_memory(gemm_of(dtype::f32, nullptr, nullptr, nullptr)),
                                  k.gemm_memory(gemm_of(dtype::bf16, nullptr, nullptr, nullptr))));
}

uint64_t known_product::wrong_in(std::span<const float> product) const {
  uint64_t wrong = 0;
  for (size_t i = 0; i < wanted_.size(); ++i)
    wrong += std::bit_cast<uint32_t>(product[i]) != std::bit_cast<uint32_t>(wanted_[i]) ? 1 : 0;
  return wrong;
}

uint64_t known_product::wrong_in(std::span<const uint16_t> product) const {
  uint64_t wrong = 0;
  for (size_t i = 0; i < wanted_bf16_.size(); ++i) wrong += product[i] != wanted_bf16_[i] ? 1 : 0;
  return wrong;
}

known_product::answer known_product::on_this_thread(const spoiler& spoil) {
  const auto& k = host::select_kernels();
  void* scratch = scratch_.data();
  size_t room = scratch_.size();
  std::align(line, 1, scratch, room);
  answer got;
  const auto multiply = [&](dtype type, const void* x, const void* w) {
    std::fill(product_.begin(), product_.end(), -1.0f);  // what is not written is wrong
    k.gemm(gemm_of(type, x, w, product_.data()), scratch);
    if (spoil) spoil(product_);
  };
  multiply(dtype::f32, x_.data(), w_.data());
  got.wrong += wrong_in(product_);
  multiply(dtype::bf16, x_bf16_.data(), w_bf16_.data());
  got.wrong += wrong_in(product_);
  multiply(dtype::f32, full_x_.data(), full_w_.data());
  got.hash = hash_of(product_);
  return got;
}

result<known_product::answer> known_product::on_device(device& owner, const spoiler& spoil) const {
  TROUPE_TRY(product, product_of(owner, dtype::f32, x_, w_));
  if (spoil) spoil(product);
  TROUPE_TRY(product_bf16, product_of(owner, dtype::bf16, x_bf16_, w_bf16_));
  return answer{wrong_in(product) + wrong_in(product_bf16), 0};
}

std::vector<size_t> minority(std::span<const uint64_t> hashes) {
  std::map<uint64_t, size_t> counts;
  for (const auto h : hashes) ++counts[h];
  std::vector<size_t> out;
  for (size_t i = 0; i < hashes.size(); ++i)
    if (2 * counts[hashes[i]] <= hashes.size()) out.push_back(i);
  return out;
}

}  // namespace troupe::gpu
