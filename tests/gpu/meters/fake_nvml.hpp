// A machine with GPUs that exist on paper: what each of its functions answers is set by the test.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/meters/nvml_library.hpp"

namespace troupe::gpu::nvml::fake {

struct gpu {
  std::string name = "NVIDIA H200";
  std::string uuid = "GPU-0";
  int gone = success;  ///< what every function of the device answers instead
  /// By function, e.g. "energy": what it answers instead of success.
  std::map<std::string, int> refusals;
  unsigned power_limit_mw = 700'000;
  std::optional<unsigned> instant_mw;  ///< none: the field is not there
  int instant_type = type_whole;
  std::optional<std::pair<unsigned, unsigned>> locked_mhz;
  std::vector<unsigned> limits_mw;  ///< that were set, in order
  bool is_in_parts = false, lies = false;
  unsigned processes = 1;
};

struct machine {
  int init_answer = success;
  int sessions = 0;    ///< initialised and not shut down
  int event_sets = 0;  ///< made and not freed
  std::vector<gpu> gpus;
  uint64_t clock_reasons = 0;
  /// Xids to come, by device; then a wait times out.
  std::vector<std::pair<unsigned, uint64_t>> xids;
  std::vector<unsigned> waited_ms;
};

/// The one that library() speaks of; fresh after this.
machine& fresh();
machine& current();
/// All functions; a test may set some to null.
library functions();

}  // namespace troupe::gpu::nvml::fake
