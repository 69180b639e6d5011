// Which port; see setting_port.hpp.
#include "gpu/controls/setting_port.hpp"

#include <utility>

#include "gpu/controls/kernel_settings.hpp"
#include "gpu/controls/nvml_settings.hpp"

namespace troupe::gpu::controls {

result<std::unique_ptr<setting_port>> open_setting_port(const control_place& at,
                                                        const setting_target& target) {
  if (!is_of_gpu(target.kind))
    return std::unique_ptr<setting_port>(std::make_unique<kernel_settings>(at, target.kind));
  TROUPE_TRY(made, nvml_settings::open(at, target));
  return std::unique_ptr<setting_port>(std::move(made));
}

}  // namespace troupe::gpu::controls
