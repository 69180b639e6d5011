// Any bytes as files of the kernel: numbers that are told are in their bounds.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "io/machine/kernel_counters.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto p = io::parse_pressure(text);
  for (const auto& share : {p.some_percent, p.full_percent})
    must(!share || (std::isfinite(*share) && *share >= 0 && *share <= 100), "a share is a share");
  if (const auto t = io::parse_cpu_ticks(text)) must(t->stolen <= t->all, "a part is no more");
  (void)io::parse_process_ticks(text);
  const auto m = io::parse_memory(text);
  for (const auto& bytes : {m.total, m.available})
    must(!bytes || *bytes % 1024 == 0, "memory is in KiB");
  (void)io::parse_packet_errors(text);
  (void)io::parse_throttled_us(text);
  if (const auto path = io::parse_unified_cgroup(text))
    must(path->starts_with('/') && path->find('\n') == path->npos, "a path is one line");
  for (const auto mhz : {io::parse_cpu_mhz(text), io::parse_scaling_mhz(text)})
    must(!mhz || (*mhz >= 1 && *mhz <= 100'000), "a clock is one");
  return 0;
}
