// `troupe version`: enough to tell two builds apart in a bug report.
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/base/hardware.hpp"
#include "apps/built_with.hpp"
#include "apps/commands.hpp"
#include "gpu/host/peak.hpp"

namespace troupe::apps {

namespace {

std::string version_line() {
  return fmt::format("troupe {} ({}, {})", cluster::own_version(), build_type(), compiler_text());
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
      for (const auto& [name, version] : versions())
        if (name != "program") facts[name] = version;
      facts["instruction_sets"] = gpu::instruction_sets();
      TROUPE_CHECK(print(facts.dump() + "\n"));
    } else {
      TROUPE_CHECK(print(version_line() + "\n"));
    }
    return 0;
  });
}

}  // namespace troupe::apps
