// The host back end in every variant this machine can run, with 1, 2 and 3 threads.
#include <cstdlib>

#include "gpu/host/host_ops.hpp"
#include "tests/gpu/backends.hpp"

namespace troupe::gpu::testing {
namespace {

struct all_of_host {
  std::unique_ptr<device> owner = make_host_device(2);
  std::vector<std::unique_ptr<stream>> streams;
  std::vector<std::unique_ptr<host::host_ops>> ops;
  std::vector<backend> list;

  all_of_host() {
    int count = 0;
    const auto* const* tables = host::runnable_kernels(&count);
    for (int i = 0; i < count; ++i) ops.push_back(std::make_unique<host::host_ops>(*tables[i]));
    for (int threads : {1, 2, 3}) {
      const stream_options options{"compute", threads};
      streams.push_back(std::move(*owner->make_stream(options)));
      for (int i = 0; i < count; ++i) {
        list.push_back({std::string(tables[i]->name) + ", threads: " + std::to_string(threads),
                        ops[static_cast<size_t>(i)].get(), owner.get(), options,
                        streams.back().get(), false});
      }
    }
  }
};

}  // namespace

const std::vector<backend>& backends() {
  static const all_of_host all;
  return all.list;
}

void* allocate_shared(size_t bytes) {
  return ::operator new (bytes, std::align_val_t{256});
}

void release_shared(void* p) {
  ::operator delete (p, std::align_val_t{256});
}

}  // namespace troupe::gpu::testing
