// A known product on each core, one after the other, and on each GPU.
#include <pthread.h>
#include <sched.h>
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "actors/health/checks.hpp"
#include "gpu/cuda.hpp"
#include "gpu/known_product.hpp"

namespace troupe::health {

namespace {

/// The cores that this thread may run on; it gets them back at the end.
class pinned {
 public:
  pinned() : known_(pthread_getaffinity_np(pthread_self(), sizeof all_, &all_) == 0) {}
  pinned(const pinned&) = delete;
  pinned& operator=(const pinned&) = delete;
  ~pinned() {
    if (known_) pthread_setaffinity_np(pthread_self(), sizeof all_, &all_);
  }

  std::vector<int> cores() const {
    std::vector<int> out;
    for (int i = 0; known_ && i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(i, &all_)) out.push_back(i);
    return out;
  }
  bool go_to(int core) const {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
  }

 private:
  cpu_set_t all_{};
  bool known_;
};

struct core_answers {
  std::vector<int> cores;
  std::vector<uint64_t> wrong, hashes;
};

/// At least one product on each core; more of them while there is time.
core_answers ask_cores(checkup_under_way& c, gpu::known_product& product) {
  core_answers out;
  const pinned here;
  const auto cores = here.cores();
  const deadline all(c, "cpu_product");
  const double share =
      (all.end() - gpu::seconds_now(gpu::time_kind::wall)) / static_cast<double>(cores.size() + 1);
  for (const int core : cores) {
    if (c.stop.stop_requested()) break;
    if (!here.go_to(core)) continue;
    const busy_time measured(c);
    const auto spoil = [&](std::span<float> p) {
      if (c.options.spoil_product) c.options.spoil_product(core, p);
    };
    auto a = product.on_this_thread(spoil);
    const double end = gpu::seconds_now(gpu::time_kind::wall) + share;
    while (c.deep && gpu::seconds_now(gpu::time_kind::wall) < end && !all.over()) {
      const auto again = product.on_this_thread(spoil);
      a.wrong += again.wrong + (again.hash != a.hash ? 1 : 0);
    }
    out.cores.push_back(core);
    out.wrong.push_back(a.wrong);
    out.hashes.push_back(a.hash);
  }
  return out;
}

void check_gpu(checkup_under_way& c, const gpu::known_product& product, int ordinal) {
  auto& result = c.add("gpu_product", fmt::format("gpu{}", ordinal));
  auto device = gpu::make_cuda_device(ordinal);
  if (!device) {
    result.text = device.error().message;
    return;
  }
  const deadline until(c, "gpu_product");
  double wrong = 0;
  do {
    const auto a = product.on_device(**device);
    if (!a) {
      result.text = a.error().message;
      return;
    }
    wrong += static_cast<double>(a->wrong);
  } while (c.deep && !until.over());
  result.seen = wrong;
}

}  // namespace

void check_cores(checkup_under_way& c) {
  gpu::known_product product;
  auto a = ask_cores(c, product);
  for (const auto place : gpu::minority(a.hashes)) ++a.wrong[place];
  if (a.cores.empty()) {
    c.add("cpu_product").text = "no core could be chosen";
    return;
  }
  const bool well = std::all_of(a.wrong.begin(), a.wrong.end(), [](auto n) { return n == 0; });
  if (well) {  // one line for all of them
    const auto name = a.cores.size() == 1 ? fmt::format("cpu{}", a.cores.front())
                                          : fmt::format("{} cpus", a.cores.size());
    c.add("cpu_product", name).seen = 0;
    return;
  }
  for (size_t i = 0; i < a.cores.size(); ++i)
    if (a.wrong[i] > 0)
      c.add("cpu_product", fmt::format("cpu{}", a.cores[i])).seen =
          static_cast<double>(a.wrong[i]);
}

void check_gpus(checkup_under_way& c) {
  if (!c.options.gpus) return;
  const auto count = gpu::cuda_device_count();
  if (!count) {
    c.add("gpu_product").text = count.error().message;
    return;
  }
  const gpu::known_product product;
  for (int i = 0; i < *count && !c.stop.stop_requested(); ++i) check_gpu(c, product, i);
}

}  // namespace troupe::health
