// The signs of budgets.
#include "apps/power/budget_sign.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::apps {

namespace {

constexpr std::string_view sign_kind = ".power";

nlohmann::ordered_json sign_of_budget(const served_budget& here) {
  return {{"budget", here.name},
          {"pid", here.pid},
          {"address", here.address},
          {"secret", absolute_path(here.secret.string())}};
}

}  // namespace

budget_sign::budget_sign(const served_budget& here)
    : file_(here.pid, sign_kind, sign_of_budget(here),
            "jobs will not find this budget by themselves") {}

std::vector<served_budget> served_budgets() {
  std::vector<served_budget> out;
  for (const auto& sign : living_signs(sign_kind, "budget"))
    out.push_back({sign.value("budget", ""), sign.value("pid", 0), sign.value("address", ""),
                   sign.value("secret", "")});
  return out;
}

result<served_budget> the_served_budget(const std::string& name) {
  auto here = served_budgets();
  std::erase_if(here, [&](const auto& b) { return !name.empty() && b.name != name; });
  if (here.size() == 1) return std::move(here.front());
  if (here.empty())
    return error{errc::not_found,
                 name.empty()
                     ? "no power budget of yours is served on this machine"
                     : fmt::format("no power budget named {} is served on this machine", name),
                 "serve one with: troupe power serve POWER.toml"};
  std::vector<std::string> names;
  for (const auto& b : here) names.push_back(fmt::format("{} at {}", b.name, b.address));
  return error{
      errc::usage,
      fmt::format("{} power budgets are served here: {}", here.size(), fmt::join(names, ", ")),
      "name one of them, or say HOST:PORT"};
}

}  // namespace troupe::apps
