// What a build without the CUDA toolkit says when it is asked for a GPU.
#include "gpu/collective/communicator.hpp"
#include "gpu/cuda.hpp"

namespace troupe::gpu {
namespace {

error absent() {
  return error(errc::unavailable, "this build has no CUDA back end",
               "install the CUDA toolkit 13, configure with -DTROUPE_CUDA=ON and build again "
               "(docs/gpu.md), or train on the host");
}

}  // namespace

result<int> cuda_device_count() {
  return absent();
}

result<std::vector<cuda_facts>> list_cuda_devices() {
  return absent();
}

std::string cuda_toolkit_version() {
  return {};
}

result<std::unique_ptr<device>> make_cuda_device(int, const cuda_options&) {
  return absent();
}

std::vector<int> opened_cuda_devices() {
  return {};
}

std::optional<error> lost_cuda_device() {
  return std::nullopt;
}

epilogue_counts cuda_epilogues() noexcept {
  return {};
}

result<std::unique_ptr<pending_group>> open_nccl_group(const group_options&, device&) {
  return absent();
}

}  // namespace troupe::gpu
