// Tests of faults say nothing of them: what the actors log of foreign faults is meant to happen.
#pragma once

#include <spdlog/spdlog.h>

namespace troupe {

inline const struct quiet {
  quiet() { spdlog::set_level(spdlog::level::off); }
} no_log;

}  // namespace troupe
