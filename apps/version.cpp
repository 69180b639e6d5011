// `troupe version`: enough to tell two builds apart in a bug report.
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/base/hardware.hpp"
#include "apps/commands.hpp"
#include "gpu/host/peak.hpp"

namespace troupe::apps {

namespace {

#if defined(__clang__)
constexpr auto compiler = "clang " __clang_version__;
#else
constexpr auto compiler = "gcc " __VERSION__;
#endif

std::string version_line() {
  return fmt::format("troupe {} ({}, {})", cluster::own_version(), TROUPE_BUILD_TYPE, compiler);
}

}  // namespace

void add_version(shell& sh) {
  sh.app.version(version_line);
  auto* verb = sh.app.add_subcommand("version", "Print the version and how it was built");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "As one JSON object");
  on_run(sh, verb, [json]() -> result<int> {
    if (*json) {
      nlohmann::ordered_json facts;
      facts["version"] = cluster::own_version();
      facts["build"] = TROUPE_BUILD_TYPE;
      facts["compiler"] = compiler;
      facts["instruction_sets"] = gpu::instruction_sets();
      TROUPE_CHECK(print(facts.dump() + "\n"));
    } else {
      TROUPE_CHECK(print(version_line() + "\n"));
    }
    return 0;
  });
}

}  // namespace troupe::apps
