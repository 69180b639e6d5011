// The host device: facts, streams, memory.
#include "gpu/device.hpp"

#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <system_error>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "gpu/host/host_ops.hpp"
#include "gpu/host/memory.hpp"
#include "gpu/host/stream.hpp"

namespace troupe::gpu {
namespace host {
namespace {

/// Cores this process may run on: what taskset, cgroup cpusets and containers left us.
int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
}

/// The processor's own name for itself, or the architecture's.
std::string processor_name() {
#if defined(__x86_64__)
  char text[49] = {};
  unsigned words[4];
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    if (!__get_cpuid(0x80000002u + leaf, &words[0], &words[1], &words[2], &words[3])) break;
    std::memcpy(text + 16 * leaf, words, sizeof words);
  }
  std::string name = text;
  name.erase(0, name.find_first_not_of(' '));
  name.erase(name.find_last_not_of(' ') + 1);
  return name.empty() ? "x86-64" : name;
#else
  return "unknown processor";
#endif
}

class host_device final : public device {
 public:
  explicit host_device(int threads) : threads_(threads > 0 ? threads : usable_cores()) {}

  device_facts facts() const override {
    const auto pages = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES));
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const std::string isa = select_kernels().name;
    return {"host: " + processor_name() + ", " + isa, isa, threads_, pages * page};
  }

  result<std::unique_ptr<stream>> make_stream(const stream_options& options) override {
    try {
      return std::unique_ptr<stream>(std::make_unique<host_stream>(*this, options));
    } catch (const std::system_error& e) {
      return error(errc::unavailable, std::string("cannot start a stream's threads: ") + e.what(),
                   "raise the limit on threads (ulimit -u), or use fewer");
    }
  }

  result<buffer> allocate(size_t bytes) override { return allocate_memory(bytes); }
  bool host_accessible() const noexcept override { return true; }
  gpu::ops& ops() noexcept override { return ops_; }

 private:
  const int threads_;
  host_ops ops_;
};

}  // namespace
}  // namespace host

std::unique_ptr<device> make_host_device(int threads) {
  return std::make_unique<host::host_device>(threads);
}

}  // namespace troupe::gpu
