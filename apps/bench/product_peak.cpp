// Square products in a row, timed by the device.
#include "apps/bench/product_peak.hpp"

#include <algorithm>

#include "apps/bench/ops_cases.hpp"
#include "gpu/ops.hpp"

namespace troupe::apps {

result<product_peak> product_peak::make(gpu::device& owner, gpu::dtype type, int threads,
                                        int64_t side) {
  product_peak out;
  if (owner.host_accessible()) {
    TROUPE_TRY(made, ceiling::make(type, threads));
    out.registers_ = std::make_unique<ceiling>(std::move(made));
    return out;
  }
  out.owner_ = &owner;
  out.type_ = type;
  out.side_ = side;
  TROUPE_TRY(stream, owner.make_stream({.name = "compute peak"}));
  out.stream_ = std::move(stream);
  for (int i = 0; i < 3; ++i) {
    TROUPE_TRY(memory, owner.allocate(static_cast<size_t>(side * side) * gpu::size_of(type)));
    out.matrices_.push_back(std::move(memory));
  }
  TROUPE_CHECK(out.fill());
  TROUPE_CHECK(out.sample());  // the library chooses its algorithm
  out.best_ = 0;
  return out;
}

/// What is multiplied is no zeros: a device that draws less for them clocks higher.
status product_peak::fill() {
  constexpr int64_t piece = 1 << 20;
  const auto numbers = noise(piece, 1, 0);
  TROUPE_TRY(source, owner_->allocate(numbers.size() * sizeof(float)));
  stream_->copy(source.data(), numbers.data(), source.bytes());
  const int64_t all = side_ * side_;
  for (int i = 0; i < 2; ++i)
    for (int64_t at = 0; at < all; at += piece)
      owner_->ops().cast(*stream_,
                         {matrices_[i].as<char>() + at * static_cast<int64_t>(gpu::size_of(type_)),
                          type_, source.data(), gpu::dtype::f32, std::min(piece, all - at)});
  return stream_->synchronize();
}

status product_peak::sample() {
  if (registers_) {
    registers_->sample();
    return {};
  }
  constexpr int products = 8;
  double seconds = 0;
  stream_->measure(
      [&] {
        for (int i = 0; i < products; ++i)
          owner_->ops().linear_forward(
              *stream_, {side_, side_, side_, type_, matrices_[0].data(), matrices_[1].data(),
                         nullptr, nullptr, matrices_[2].data()});
      },
      [&](double s) { seconds = s; });
  TROUPE_CHECK(stream_->synchronize());
  const auto side = static_cast<double>(side_);
  best_ = std::max(best_, 2 * side * side * side * products / seconds);
  return {};
}

}  // namespace troupe::apps
