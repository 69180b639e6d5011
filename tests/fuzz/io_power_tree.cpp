// Any bytes as a POWER.toml: refused with a text, or read as a budget that can be kept.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "io/config/load.hpp"
#include "io/config/power_tree.hpp"
#include "tests/fuzz/must.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tree =
      config::parse_power_tree({reinterpret_cast<const char*>(data), size}, "power.toml");
  if (!tree) {
    must(!tree.error().message.empty(), "PTR-3: what is refused is told why");
    return 0;
  }
  std::set<std::string> names, certificates;
  int64_t shares_mw = 0;
  for (const auto& c : tree->child) {
    must(0 <= c.paused_w && c.paused_w <= c.floor_w && c.floor_w <= c.static_w &&
             c.static_w <= c.ceiling_w,
         "PTR-1: the watts of a child are in order");
    must(0 <= c.idle_w && c.idle_w <= c.ceiling_w, "PTR-1: no child draws more idle than it can");
    must(names.insert(c.name).second, "PTR-2: names are unique");
    must(tree->tls.enabled() ? certificates.insert(c.certificate).second : c.certificate.empty(),
         "PTR-7: a certificate proves one child");
    shares_mw += config::milliwatts(c.static_w);
  }
  must(!tree->child.empty() && shares_mw <= config::milliwatts(tree->budget_w),
       "PTR-1: static shares fit");
  must(tree->tls.is_whole() && (tree->tls.enabled() || config::is_loopback(tree->listen)),
       "PTR-7: beyond loopback there are certificates");
  must(tree->lease_ttl_ms >= config::least_lease_ms(tree->tick_ms),
       "PTR-4: three reports fit into a lease");
  must(tree->settle_ms < 0 || tree->settle_ms >= config::actuation_ms(tree->tick_ms),
       "PTR-8: no rung before the last one can have been seen");
  must(tree->noise_w >= 0 && !tree->output.empty(), "what was not said is settled");
  return 0;
}
