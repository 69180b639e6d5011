// Texts to places, and what is no place.
#include "io/config/budget_place.hpp"

#include <fmt/format.h>

#include "io/base/text.hpp"
#include "io/config/builder.hpp"
#include "io/config/load.hpp"

namespace troupe::config {

std::optional<budget_place> budget_place_of(std::string_view text) {
  constexpr std::string_view by_sign = "auto", named = "auto:";
  if (text == by_sign) return budget_place{};
  if (text.starts_with(named)) {
    const auto name = text.substr(named.size());
    if (!detail::is_name(name)) return std::nullopt;
    return budget_place{std::string(name), std::nullopt};
  }
  auto at = head_place_of(text);
  if (!at) return std::nullopt;
  return budget_place{"", std::move(at)};
}

std::optional<parent_fault> fault_of_parent(const parent_keys& keys, const std::string& parent,
                                            const std::string& parent_key, bool has_tls) {
  if (parent.empty()) {
    if (parent_key.empty()) return std::nullopt;
    return parent_fault{
        true, "a key for the power budget above, and none is named",
        fmt::format("set {} = \"HOST:PORT\", or leave {} out", keys.parent, keys.parent_key)};
  }
  const auto place = budget_place_of(parent);
  if (!place)
    return parent_fault{false,
                        fmt::format("expected \"auto\", \"auto:NAME\" or HOST:PORT, got {}",
                                    troupe::quoted(parent)),
                        "e.g. \"127.0.0.1:4242\""};
  if (!place->at) {
    if (parent_key.empty()) return std::nullopt;
    return parent_fault{true, "the key of the budget that \"auto\" finds is found with it",
                        "leave it out"};
  }
  const bool is_far = !is_loopback(place->at->host);
  if (is_far && !has_tls)
    return parent_fault{false,
                        fmt::format("{} is not loopback, and TLS is off", troupe::quoted(parent)),
                        fmt::format("set {} (`troupe certs` makes the files)", keys.tls)};
  if (is_far && !parent_key.empty())
    return parent_fault{true, "a key is no proof to a power budget on another machine",
                        "leave it out: certificates are"};
  if (has_tls || !parent_key.empty()) return std::nullopt;
  return parent_fault{
      false,
      fmt::format("a power budget given as HOST:PORT needs {}, the file that proves who joins",
                  keys.parent_key),
      fmt::format("`troupe key --role power --name NAME --out FILE` makes it, or set {} = \"auto\"",
                  keys.parent)};
}

}  // namespace troupe::config
