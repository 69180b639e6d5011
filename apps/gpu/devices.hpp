// The GPUs of this machine as one picture: what the driver says of each, and what CUDA does. Pure
// text out of it.
//
// Why both: they number devices differently (the driver by bus address, CUDA as
// CUDA_VISIBLE_DEVICES says), and see different ones; a device is matched by its UUID.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/cuda.hpp"
#include "gpu/meters/nvml.hpp"

namespace troupe::apps {

/// One device; at least one of the two has seen it.
struct seen_gpu {
  std::optional<gpu::nvml::gpu_identity> driver;
  std::optional<gpu::nvml::gpu_reading> reading;
  std::string trouble;  ///< why there is no reading
  std::optional<gpu::cuda_facts> cuda;
};

struct gpu_picture {
  std::string driver_version;
  std::vector<seen_gpu> devices;
  std::string cuda_trouble;    ///< why CUDA sees none; empty: it sees some
  std::string driver_trouble;  ///< why the driver's library says nothing; empty: it does
  std::vector<gpu::nvml::xid_event> xids;  ///< reported while somebody watched, oldest first
};

/// One look. `meter` may be null (then `why` says so), and CUDA may fail. Fails with unavailable
/// when neither sees a device.
result<gpu_picture> look(const gpu::nvml::gpu_meter* meter, const error& why,
                         const result<std::vector<gpu::cuda_facts>>& cuda);

/// A table, a line for each trouble.
std::string gpu_text(const gpu_picture& picture, int columns);
/// One JSON object and a line end; what is not known is null.
std::string gpu_json(const gpu_picture& picture);

}  // namespace troupe::apps
