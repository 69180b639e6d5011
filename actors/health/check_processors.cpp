// A known product on each core, one after the other, and on each GPU.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include <algorithm>
#include <string>
#include <vector>

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
  size_t all = 0;          ///< that this thread may run on
  std::vector<int> cores;  ///< those that were asked
  std::vector<uint64_t> wrong, hashes;
};

/// A product on each core, while there is time; more of them in a deep check. Processes of one host
/// begin with different cores.
core_answers ask_cores(checkup_under_way& c, gpu::known_product& product) {
  core_answers out;
  const pinned here;
  auto cores = here.cores();
  out.all = cores.size();
  if (!cores.empty())
    std::rotate(cores.begin(), cores.begin() + getpid() % static_cast<int>(cores.size()),
                cores.end());
  const deadline all(c, "cpu_product");
  const double share =
      (all.end() - gpu::seconds_now(gpu::time_kind::wall)) / static_cast<double>(cores.size() + 1);
  for (const int core : cores) {
    if (c.stop.stop_requested() || (!out.cores.empty() && all.over())) break;  // EXM-1
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

/// Of one core its name, else how many; of how many, where there was no time for all.
std::string name_of(const core_answers& a) {
  if (a.cores.size() < a.all) return fmt::format("{} of {} cpus", a.cores.size(), a.all);
  return a.all == 1 ? fmt::format("cpu{}", a.cores.front()) : fmt::format("{} cpus", a.all);
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
    c.add("cpu_product", name_of(a)).seen = 0;
    return;
  }
  for (size_t i = 0; i < a.cores.size(); ++i)
    if (a.wrong[i] > 0)
      c.add("cpu_product", fmt::format("cpu{}", a.cores[i])).seen =
          static_cast<double>(a.wrong[i]);
}

/// A process of a cluster looks at those that its ranks use: another one is somebody else's, and a
/// context on it takes memory there.
void check_gpus(checkup_under_way& c) {
  if (c.options.gpus == gpu_choice::none) return;
  std::vector<int> ordinals;
  if (c.options.gpus == gpu_choice::opened) {
    ordinals = gpu::opened_cuda_devices();
  } else if (const auto count = gpu::cuda_device_count()) {
    for (int i = 0; i < *count; ++i) ordinals.push_back(i);
  } else {
    c.add("gpu_product").text = count.error().message;
    return;
  }
  if (ordinals.empty()) c.add("gpu_product").text = "no rank of this process computes on a GPU";
  const gpu::known_product product;
  for (size_t i = 0; i < ordinals.size() && !c.stop.stop_requested(); ++i)
    check_gpu(c, product, ordinals[i]);
}

}  // namespace troupe::health
