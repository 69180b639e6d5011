// A process that ends with the one that started it.
#pragma once

#include "io/base/result.hpp"

namespace troupe::apps {

/// The kernel kills this process when its parent ends, however it ends. 0: nothing is tied. Errors:
/// unavailable where the parent is another one by now.
status tie_to_parent(int parent);

}  // namespace troupe::apps
