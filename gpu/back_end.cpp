// From names to back ends.
#include "gpu/back_end.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "gpu/collective/staged.hpp"
#include "gpu/cuda.hpp"
#include "gpu/host/scratch_plan.hpp"

namespace troupe::gpu {

namespace {

/// N of "cuda:N", 0 of "cuda"; -1 of anything else.
int cuda_ordinal(std::string_view name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return -1;
  name.remove_prefix(5);
  int out = -1;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), out);
  return failed == std::errc{} && end == name.data() + name.size() ? out : -1;
}

/// Of the GPU of that name; empty: it is none, or not known.
cuda_facts facts_of(std::string_view name) {
  const int ordinal = cuda_ordinal(name);
  if (ordinal < 0) return {};
  if (const auto found = list_cuda_devices())
    for (const auto& gpu : *found)
      if (gpu.ordinal == ordinal) return gpu;
  return {};
}

}  // namespace

result<std::unique_ptr<device>> open_device(std::string_view name, int threads) {
  if (name == "host") return make_host_device(threads);
  const int ordinal = cuda_ordinal(name);
  if (ordinal < 0)
    return error{errc::usage, fmt::format("no device is called \"{}\"", name),
                 "devices are host, cuda, cuda:0, cuda:1 ..."};
  return make_cuda_device(ordinal);
}

std::vector<std::string> accelerators() {
  std::vector<std::string> out;
  if (const auto found = list_cuda_devices())
    for (const auto& gpu : *found) out.push_back(gpu.name);
  return out;
}

std::string device_uuid(std::string_view name) {
  return facts_of(name).uuid;
}

uint64_t device_memory_bytes(std::string_view name) {
  return facts_of(name).memory_bytes;
}

io::memory_account& memory_account_of(std::string_view name) {
  const int ordinal = cuda_ordinal(name);
  return ordinal < 0 ? io::process_memory() : io::device_memory(ordinal);
}

uint64_t scratch_bytes(std::string_view device, const model_config& model, const stage_shape& shape,
                       int threads) {
  if (device != "host") return 0;
  return host::scratch_bytes(model, {shape.micro_batch, shape.seq, shape.compute, shape.has_head,
                                     std::max(1, threads)});
}

uint64_t norm_scratch_bytes(std::string_view device, const model_config& model) {
  return device == "host" ? host::norm_scratch_bytes(model) : 0;
}

result<std::unique_ptr<pending_group>> open_group(device& owner, const group_options& options,
                                                  const group_placement& placement) {
  if (owner.host_accessible()) return open_gloo_group(options);
  if (!placement.shared_devices) return open_nccl_group(options, owner);
  TROUPE_TRY(inner, open_gloo_group(options));
  return make_staged_group(owner, std::move(inner));
}

}  // namespace troupe::gpu
