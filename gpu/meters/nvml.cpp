// Reading devices through NVML.
#include "gpu/meters/nvml.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace troupe::gpu::nvml {

namespace {

/// Whether the device itself is gone, rather than one of its numbers.
bool device_is_gone(int answer) {
  return answer == gpu_is_lost || answer == reset_required || answer == uninitialized;
}

/// A text that NVML writes into a buffer of `bytes`; empty when it does not answer.
template <class Call>
std::string text_of(unsigned bytes, Call call) {
  std::string text(bytes, '\0');
  if (call(text.data(), bytes) != success) return {};
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

/// Fields of one device; the first answer that says the device is gone ends it.
class reader {
 public:
  explicit reader(device_handle device) : device_(device) {}

  /// What `call` writes: a value if the function is there and the device reports it (NVM-1).
  template <class Value, class Function, class... Kinds>
  std::optional<Value> get(Function* function, Kinds... kinds) {
    Value value{};
    if (!ask(function, [&] { return function(device_, kinds..., &value); })) return {};
    return value;
  }

  template <class Function, class Call>
  bool ask(Function* function, Call call) {
    if (!function || gone_ != success) return false;
    const int answer = call();
    if (device_is_gone(answer)) gone_ = answer;
    return answer == success;
  }

  int gone() const noexcept { return gone_; }

 private:
  device_handle device_;
  int gone_ = success;
};

/// What it draws at this moment. The older function says a mean of a second on boards that have
/// this one, so that a swing is over before it is seen; it is asked where this is not there.
std::optional<uint64_t> power_of(reader& from, const library& n, device_handle device) {
  field_value instant;
  instant.field = field_power_instant;
  const bool said = from.ask(n.field_values, [&] { return n.field_values(device, 1, &instant); });
  if (said && instant.answer == success && instant.type == type_whole) return instant.value.whole;
  return from.get<unsigned>(n.power);
}

constexpr std::array<const char*, 9> reason_words{
    "idle",           "application clocks", "power cap",       "hardware slowdown",
    "sync boost",     "heat (software)",    "heat (hardware)", "power brake",
    "display clocks",
};

}  // namespace

std::vector<std::string> clock_reasons(uint64_t mask) {
  std::vector<std::string> out;
  for (size_t bit = 0; bit < 64; ++bit) {
    const auto one = uint64_t{1} << bit;
    if (!(mask & one)) continue;
    out.push_back(bit < reason_words.size() ? reason_words[bit] : fmt::format("{:#x}", one));
  }
  return out;
}

// -- session -------------------------------------------------------------------------------------

result<std::shared_ptr<const session>> session::open(const library& functions) {
  if (const int answer = functions.init(); answer != success)
    return error{errc::unavailable,
                 fmt::format("NVML does not start: {}", functions.error_string(answer)),
                 answer == driver_not_loaded ? "load NVIDIA's driver (modprobe nvidia)"
                                             : "nvidia-smi says whether the driver works"};
  std::shared_ptr<session> made(new session(functions));
  unsigned count = 0;
  TROUPE_CHECK(made->explain("NVML", "nvmlDeviceGetCount", functions.count(&count)));
  made->handles_.resize(count);
  for (unsigned i = 0; i < count; ++i)
    if (functions.handle_by_index(i, &made->handles_[i]) != success) made->handles_[i] = nullptr;
  return std::shared_ptr<const session>(std::move(made));
}

device_handle session::handle(unsigned index) const {
  return index < handles_.size() ? handles_[index] : nullptr;
}

status session::explain(const std::string& subject, const char* call, int answer) const {
  if (answer == success) return {};
  auto text = fmt::format("{}: {}: {}", subject, call, functions_.error_string(answer));
  switch (answer) {
    case no_permission:
      return error{errc::permission, std::move(text), "run as root, or leave devices as they are"};
    case not_supported:
      return error{errc::unavailable, std::move(text), "this device cannot do that"};
    case invalid_argument:
      return error{errc::bad_config, std::move(text), "the value is out of the device's range"};
    case gpu_is_lost:
      return gpu_lost(text);
    case reset_required:
      return error{errc::unavailable, std::move(text),
                   "nvidia-smi --gpu-reset, or restart the node"};
    default:
      return error{errc::unavailable, std::move(text), "nvidia-smi says whether the driver works"};
  }
}

// -- meter ---------------------------------------------------------------------------------------

result<std::unique_ptr<gpu_meter>> gpu_meter::open() {
  TROUPE_TRY(functions, load());
  return open(*functions);
}

result<std::unique_ptr<gpu_meter>> gpu_meter::open(const library& functions) {
  TROUPE_TRY(s, session::open(functions));
  if (s->count() == 0)
    return error{errc::unavailable, "no GPU found, though the driver is loaded",
                 "in a container: start it with --gpus all"};
  std::unique_ptr<gpu_meter> made(new gpu_meter(s));
  made->driver_version_ = text_of(version_bytes, functions.driver_version);
  for (unsigned i = 0; i < s->count(); ++i) {
    gpu_identity id{i, {}, {}};
    if (auto device = s->handle(i)) {
      id.name =
          text_of(name_bytes, [&](char* to, unsigned n) { return functions.name(device, to, n); });
      id.uuid =
          text_of(uuid_bytes, [&](char* to, unsigned n) { return functions.uuid(device, to, n); });
    }
    made->devices_.push_back(std::move(id));
  }
  return made;
}

gpu_meter::~gpu_meter() {
  if (events_) (void)session_->functions().free_event_set(events_);
}

result<gpu_reading> gpu_meter::read(unsigned index) const {
  const auto& n = session_->functions();
  const auto subject = fmt::format("GPU {}", index);
  const auto device = session_->handle(index);
  if (!device) return session_->explain(subject, "nvmlDeviceGetHandleByIndex", gpu_is_lost).error();
  reader from(device);
  gpu_reading r;
  r.power_mw = power_of(from, n, device);
  r.power_limit_mw = from.get<unsigned>(n.power_limit);
  r.energy_mj = from.get<unsigned long long>(n.energy);
  r.sm_mhz = from.get<unsigned>(n.clock, int{clock_sm});
  r.memory_mhz = from.get<unsigned>(n.clock, int{clock_memory});
  r.temperature_c = from.get<unsigned>(n.temperature, int{sensor_gpu});
  if (auto busy = from.get<utilization>(n.utilization_rates)) {
    r.busy_percent = busy->gpu;
    r.memory_busy_percent = busy->memory;
  }
  memory_v2 memory;
  memory.version = memory_version_2;
  if (from.ask(n.memory, [&] { return n.memory(device, &memory); })) {
    r.memory_used_bytes = memory.used;
    r.memory_total_bytes = memory.total;
  }
  const auto ecc = [&](int kind) {
    return from.get<unsigned long long>(n.ecc_errors, kind, int{counter_volatile});
  };
  r.ecc_corrected = ecc(error_corrected);
  r.ecc_uncorrected = ecc(error_uncorrected);
  if (auto mask = from.get<unsigned long long>(n.clock_reasons)) {
    r.slowed_by = clock_reasons(*mask);
    r.power_brake = (*mask & reason_power_brake) != 0;
  }
  TROUPE_CHECK(session_->explain(subject, "reading", from.gone()));  // NVM-2
  return r;
}

/// Asks for the events of all devices, once.
status gpu_meter::listen() {
  const auto& n = session_->functions();
  if (!n.make_event_set || !n.free_event_set || !n.register_events || !n.wait_event)
    return session_->explain("NVML", "events", not_supported);
  event_set events = nullptr;
  TROUPE_CHECK(session_->explain("NVML", "nvmlEventSetCreate", n.make_event_set(&events)));
  int listening = 0, refusal = not_supported;
  for (unsigned i = 0; i < session_->count(); ++i) {
    const auto device = session_->handle(i);
    const int answer = device ? n.register_events(device, event_xid, events) : int{gpu_is_lost};
    if (answer == success)
      ++listening;
    else
      refusal = answer;
  }
  if (listening == 0) {
    (void)n.free_event_set(events);
    return session_->explain("NVML", "nvmlDeviceRegisterEvents", refusal);
  }
  events_ = events;
  return {};
}

result<std::optional<xid_event>> gpu_meter::wait_xid(std::chrono::milliseconds at_most) {
  if (!events_) TROUPE_CHECK(listen());
  event_data event;
  const auto ms = std::clamp<int64_t>(at_most.count(), 0, 60'000);
  const int answer = session_->functions().wait_event(events_, &event, static_cast<unsigned>(ms));
  if (answer == timed_out) return std::optional<xid_event>{};
  TROUPE_CHECK(session_->explain("NVML", "nvmlEventSetWait", answer));
  if (event.type != event_xid) return std::optional<xid_event>{};
  for (unsigned i = 0; i < session_->count(); ++i)
    if (session_->handle(i) == event.device) return std::optional(xid_event{i, event.data});
  return std::optional<xid_event>{};
}

}  // namespace troupe::gpu::nvml
