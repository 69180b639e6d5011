// Whether a coordinator could listen where its configuration says: asked before anything starts.
#pragma once

#include <cstdint>
#include <string>

#include "io/base/result.hpp"

namespace troupe::cluster {

/// Takes the address for a moment and gives it back. Errors: bad_config for what is no address, or
/// none of this machine; unavailable where somebody has the port; permission.
status can_listen(const std::string& address, uint16_t port);

}  // namespace troupe::cluster
