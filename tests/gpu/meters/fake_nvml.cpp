// The functions of a driver that is not there.
#include "tests/gpu/meters/fake_nvml.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::gpu::nvml::fake {

namespace {

machine state;

gpu& of(device_handle device) {
  return *reinterpret_cast<gpu*>(device);
}
device_handle handle_of(gpu& g) {
  return reinterpret_cast<device_handle>(&g);
}

int answer(device_handle device, const char* function) {
  auto& g = of(device);
  if (g.gone != success) return g.gone;
  const auto refusal = g.refusals.find(function);
  return refusal == g.refusals.end() ? int{success} : refusal->second;
}

/// Writes `value` if the function does not refuse.
template <class T>
int give(device_handle device, const char* function, T* to, T value) {
  const int a = answer(device, function);
  if (a == success) *to = value;
  return a;
}

int text(device_handle device, const char* function, char* to, unsigned bytes,
         const std::string& value) {
  const int a = answer(device, function);
  if (a == success) std::strncpy(to, value.c_str(), bytes);
  return a;
}

library readers(library n) {
  n.power = [](device_handle d, unsigned* to) { return give(d, "power", to, 413'250u); };
  n.field_values = [](device_handle d, int count, field_value* to) {
    for (int i = 0; i < count; ++i) {
      const bool is_there = to[i].field == field_power_instant && of(d).instant_mw;
      to[i].answer = is_there ? success : not_supported;
      to[i].type = of(d).instant_type;
      if (is_there) to[i].value.whole = *of(d).instant_mw;
    }
    return answer(d, "field_values");
  };
  n.power_limit = [](device_handle d, unsigned* to) {
    return give(d, "power_limit", to, of(d).power_limit_mw);
  };
  n.energy = [](device_handle d, unsigned long long* to) {
    return give(d, "energy", to, 98'765'432'100ull);
  };
  n.clock = [](device_handle d, int kind, unsigned* to) {
    const auto& lock = of(d).locked_mhz;
    const auto highest = lock && !of(d).lies ? lock->second : 1755u;
    return give(d, "clock", to, kind == clock_sm ? std::min(1755u, highest) : 3201u);
  };
  n.temperature = [](device_handle d, int sensor, unsigned* to) {
    return give(d, "temperature", to, sensor == sensor_gpu ? 61u : 0u);
  };
  n.utilization_rates = [](device_handle d, utilization* to) {
    return give(d, "utilization", to, utilization{97, 42});
  };
  n.memory = [](device_handle d, memory_v2* to) {
    if (to->version != memory_version_2) return int{invalid_argument};
    return give(d, "memory", to, memory_v2{memory_version_2, 150'000, 1'000, 26'000, 123'000});
  };
  n.clock_reasons = [](device_handle d, unsigned long long* to) {
    return give(d, "clock_reasons", to, static_cast<unsigned long long>(state.clock_reasons));
  };
  n.ecc_errors = [](device_handle d, int kind, int, unsigned long long* to) {
    return give(d, "ecc", to, kind == error_corrected ? 3ull : 1ull);
  };
  return n;
}

library events(library n) {
  n.make_event_set = [](event_set* to) {
    ++state.event_sets;
    *to = reinterpret_cast<event_set>(&state);
    return int{success};
  };
  n.free_event_set = [](event_set) {
    --state.event_sets;
    return int{success};
  };
  n.register_events = [](device_handle d, unsigned long long mask, event_set) {
    return mask == event_xid ? answer(d, "events") : int{invalid_argument};
  };
  n.wait_event = [](event_set, event_data* to, unsigned ms) {
    state.waited_ms.push_back(ms);
    if (state.xids.empty()) return int{timed_out};
    const auto [index, xid] = state.xids.front();
    state.xids.erase(state.xids.begin());
    *to = {handle_of(state.gpus[index]), event_xid, xid, 0, 0};
    return int{success};
  };
  return n;
}

library writers(library n) {
  n.power_limits = [](device_handle d, unsigned* lowest, unsigned* highest) {
    *lowest = 200'000;
    return give(d, "power_limits", highest, 700'000u);
  };
  n.chosen_power_limit = [](device_handle d, unsigned* to) {
    return give(d, "chosen_power_limit", to, of(d).power_limit_mw);
  };
  n.set_power_limit = [](device_handle d, unsigned mw) {
    of(d).limits_mw.push_back(mw);
    if (of(d).lies) return answer(d, "set_power_limit");
    return give(d, "set_power_limit", &of(d).power_limit_mw, mw);
  };
  n.mig_mode = [](device_handle d, unsigned* now, unsigned* later) {
    *later = 0;
    return give(d, "mig_mode", now, of(d).is_in_parts ? 1u : 0u);
  };
  n.compute_processes = [](device_handle d, unsigned* count, process_info*) {
    const bool fits = of(d).processes <= *count;
    *count = of(d).processes;
    return fits ? answer(d, "processes") : int{insufficient_size};
  };
  n.memory_clocks = [](device_handle d, unsigned* count, unsigned* to) {
    *count = 2;
    to[1] = 1'593;
    return give(d, "memory_clocks", to, 3'201u);
  };
  n.graphics_clocks = [](device_handle d, unsigned memory, unsigned* count, unsigned* to) {
    constexpr unsigned most = 1'980, least = 345, step = 15;
    if (memory != 3'201) return int{invalid_argument};
    *count = (most - least) / step + 1;
    for (unsigned i = 0; i < *count; ++i) to[i] = most - i * step;
    return answer(d, "graphics_clocks");
  };
  n.lock_clocks = [](device_handle d, unsigned lowest, unsigned highest) {
    return give(d, "lock_clocks", &of(d).locked_mhz, std::optional(std::pair(lowest, highest)));
  };
  n.unlock_clocks = [](device_handle d) { return give(d, "unlock_clocks", &of(d).locked_mhz, {}); };
  return n;
}

}  // namespace

machine& fresh() {
  state = {};
  state.gpus.resize(2);
  state.gpus[1].uuid = "GPU-1";
  return state;
}

machine& current() {
  return state;
}

library functions() {
  library n;
  n.init = [] {
    if (state.init_answer == success) ++state.sessions;
    return state.init_answer;
  };
  n.shutdown = [] {
    --state.sessions;
    return int{success};
  };
  n.error_string = [](int code) { return code == gpu_is_lost ? "GPU is lost" : "refused"; };
  n.driver_version = [](char* to, unsigned bytes) {
    std::strncpy(to, "580.95.05", bytes);
    return int{success};
  };
  n.count = [](unsigned* to) {
    *to = static_cast<unsigned>(state.gpus.size());
    return int{success};
  };
  n.handle_by_index = [](unsigned index, device_handle* to) {
    return give(handle_of(state.gpus[index]), "handle", to, handle_of(state.gpus[index]));
  };
  n.name = [](device_handle d, char* to, unsigned bytes) {
    return text(d, "name", to, bytes, of(d).name);
  };
  n.uuid = [](device_handle d, char* to, unsigned bytes) {
    return text(d, "uuid", to, bytes, of(d).uuid);
  };
  return writers(events(readers(n)));
}

}  // namespace troupe::gpu::nvml::fake
