// The host's mathematics behind the asynchronous interface.
#pragma once

#include "gpu/reference/reference_ops.hpp"

namespace troupe::gpu::host {

using host_ops = reference::reference_ops;

}  // namespace troupe::gpu::host
