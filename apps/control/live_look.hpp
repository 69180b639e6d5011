// What a running cluster shows of itself, once or again and again.
#pragma once

#include <functional>
#include <string>

#include "apps/control/session.hpp"
#include "io/base/result.hpp"
#include "messages/schemas/control_generated.h"

namespace troupe::apps {

/// How it is looked at.
struct live_look {
  bool follow = false;  ///< every half second, until a signal or the cluster's end
  bool json = false;    ///< one object a look; else it is shown over itself on a terminal
};

/// Prints what `shown` makes of the cluster's actors; `columns`: of the terminal, 0 where there is
/// none. Errors: as session::open's and session::view's.
result<int> look(const connect_options& connect, const live_look& how,
                 const std::function<std::string(const fbs::ClusterViewT&, int columns)>& shown);

}  // namespace troupe::apps
