// The signs of budgets.
#include "apps/power/budget_sign.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::apps {

namespace {

constexpr std::string_view sign_kind = ".power";

/// Of all names of children in a sign.
constexpr size_t names_bytes = 32 * 1024;

nlohmann::ordered_json sign_of_budget(const served_budget& here) {
  nlohmann::ordered_json out{{"budget", here.name},
                             {"pid", here.pid},
                             {"address", here.address},
                             {"secret", absolute_path(here.secret.string())}};
  size_t bytes = 0;
  for (const auto& name : here.children) bytes += name.size();
  if (bytes <= names_bytes) out["children"] = here.children;
  return out;
}

std::vector<std::string> children_in(const nlohmann::json& sign) {
  std::vector<std::string> out;
  const auto it = sign.find("children");
  if (it == sign.end() || !it->is_array()) return out;
  for (const auto& name : *it)
    if (name.is_string()) out.push_back(name.get<std::string>());
  return out;
}

/// An empty name is nobody's.
std::vector<served_budget> served_budgets_but(const std::string& name) {
  auto out = served_budgets();
  std::erase_if(out, [&](const auto& b) { return !name.empty() && b.name == name; });
  return out;
}

std::string places_of(const std::vector<served_budget>& budgets) {
  std::vector<std::string> out;
  for (const auto& b : budgets) out.push_back(fmt::format("{} at {}", b.name, b.address));
  return fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace

budget_sign::budget_sign(const served_budget& here)
    : file_(here.pid, sign_kind, sign_of_budget(here),
            "jobs will not find this budget by themselves") {}

std::vector<served_budget> served_budgets() {
  std::vector<served_budget> out;
  for (const auto& sign : living_signs(sign_kind, "budget"))
    out.push_back({sign.value("budget", ""), sign.value("pid", 0), sign.value("address", ""),
                   sign.value("secret", ""), children_in(sign)});
  return out;
}

result<served_budget> the_served_budget(const std::string& name, const std::string& but) {
  auto here = served_budgets_but(but);
  std::erase_if(here, [&](const auto& b) { return !name.empty() && b.name != name; });
  if (here.size() == 1) return std::move(here.front());
  if (here.empty())
    return error{errc::not_found,
                 name.empty()
                     ? fmt::format("no {}power budget of yours is served on this machine",
                                   but.empty() ? "" : "other ")
                     : fmt::format("no power budget named {} is served on this machine", name),
                 "serve one with: troupe power serve POWER.toml"};
  return error{errc::usage,
               fmt::format("{} power budgets are served here: {}", here.size(), places_of(here)),
               "name one of them, or say HOST:PORT"};
}

result<served_budget> served_budget_of(const std::string& child, const std::string& but) {
  const auto here = served_budgets_but(but);
  if (here.size() <= 1) return the_served_budget("", but);
  std::vector<served_budget> having, unknown;
  for (const auto& b : here) {
    if (b.children.empty())
      unknown.push_back(b);
    else if (std::find(b.children.begin(), b.children.end(), child) != b.children.end())
      having.push_back(b);
  }
  const auto& fitting = having.empty() ? unknown : having;
  if (fitting.size() == 1) return fitting.front();
  if (fitting.empty())
    return error{errc::not_found,
                 fmt::format("none of the {} power budgets that are served here has a child {}: {}",
                             here.size(), child, places_of(here)),
                 "add the child to one of them, or name one as the parent: \"auto:NAME\""};
  return error{
      errc::usage,
      fmt::format("{} of the power budgets that are served here {} a child {}: {}", fitting.size(),
                  having.empty() ? "may have" : "have", child, places_of(fitting)),
      "name one of them as the parent: \"auto:NAME\""};
}

}  // namespace troupe::apps
