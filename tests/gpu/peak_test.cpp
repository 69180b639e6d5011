// The ceiling of the registers belongs to the machine: what others do beside it is told, not taken
// off.
#include "gpu/host/peak.hpp"

#include <sched.h>

#include <atomic>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

namespace troupe::gpu {

namespace {

/// This thread, and what it starts, on one processor; as before in the end.
class one_processor {
 public:
  one_processor() {
    REQUIRE(sched_getaffinity(0, sizeof before_, &before_) == 0);
    int first = 0;
    while (!CPU_ISSET(first, &before_)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  }
  ~one_processor() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

/// Threads that do nothing but keep a processor busy.
class rivals {
 public:
  explicit rivals(int count) {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([this] {
        while (!over_.load(std::memory_order_relaxed)) {
        }
      });
  }
  ~rivals() {
    over_ = true;
    for (auto& t : threads_) t.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

double best_of(const std::vector<peak_sample>& samples) {
  return samples.front().best;
}

}  // namespace

TEST_CASE("peak: other work on the processor is told and does not lower the ceiling") {
  const one_processor pinned;
  auto alone = measure_peaks(1);
  REQUIRE(alone);
  const rivals others(9);
  auto beside = measure_peaks(1);
  REQUIRE(beside);
  // Of the wall's time it would be a tenth; a core's other thread takes up to a half.
  CHECK(best_of(*beside) > 0.2 * best_of(*alone));
  CHECK(beside->front().others > 0.5);
  CHECK(beside->front().disturbed());
}

TEST_CASE("peak: a rate that varies is disturbed, too") {
  const auto sample = [](double median, double best, double others) {
    return peak_sample{"fma", dtype::f32, 1, median, best, others};
  };
  CHECK_FALSE(sample(95, 100, 0.04).disturbed());
  CHECK(sample(95, 100, 0.06).disturbed());
  CHECK(sample(89, 100, 0).disturbed());
}

TEST_CASE("peak: a meter goes the fastest way of its type, again and again") {
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    auto meter = peak_meter::make(type, 2);
    REQUIRE(meter);
    CHECK(meter->first().threads == 2);
    CHECK(meter->first().best >= meter->first().flops_per_second);
    CHECK(meter->sample() > 0);
    if (type == dtype::f32) CHECK(meter->first().type == dtype::f32);
  }
  CHECK_FALSE(peak_meter::make(dtype::f32, 0));
}

}  // namespace troupe::gpu
