// docs/limits.md and its JSON, of the rows of limits_table.hpp, of times and of keys.
#include <chrono>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/base/defaults.hpp"
#include "apps/limits_table.hpp"
#include "io/config/properties.hpp"
#include "messages/contract.hpp"
#include "messages/registry.hpp"

namespace troupe::apps {

namespace {

/// "1 MiB", "65,536", "4194305 bytes".
std::string amount(uint64_t value, std::string_view unit) {
  constexpr uint64_t kib = 1 << 10, mib = kib << 10, gib = mib << 10, tib = gib << 10;
  if (unit == "bytes")
    for (const auto& [size, name] :
         {std::pair{tib, "TiB"}, {gib, "GiB"}, {mib, "MiB"}, {kib, "KiB"}})
      if (value >= size && value % size == 0) return fmt::format("{} {}", value / size, name);
  return fmt::format("{} {}", value, unit);
}

constexpr auto limits_head = R"(# Limits

Nothing that a stranger, a file or a long run can fill grows without bound. This page is made from
the program's own table (`troupe limits --markdown`; for machines `troupe limits --json`). Each row
is reached in a test, but for a few that tests/house/rules.py names with the reason, and a test of
the tree finds a bound in the code that is missing here.
)";

constexpr auto times_head = R"(
## times

Who waits or pauses by itself (`actors/base/defaults.hpp`).

| what | ms |
|---|---|
)";

constexpr auto answers_head = R"(
## answers

How long an answer may take before who asked gives up, as the contracts in `messages/schemas` say;
where a key of the configuration is named, what it says.

| asked | message | ms | key |
|---|---|---|---|
)";

struct time_row {
  std::string_view name;
  std::chrono::milliseconds value;
  std::string_view what;
};

constexpr time_row times[] = {
#define TROUPE_ROW(name, ms, what) {#name, defaults::name, what},
    TROUPE_TIMES(TROUPE_ROW)
#undef TROUPE_ROW
};

/// The configuration's key for a call's timeout, empty: none.
std::string_view key_of(const call_info& call) {
  return call.timeout_key < 0 ? std::string_view()
                              : timeout_keys()[static_cast<size_t>(call.timeout_key)];
}

template <class Each>
void for_each_answer(Each each) {
  for (const auto& service : all_services())
    for (const auto& call : service.calls)
      if (call.response != nullptr) each(service, call);
}

std::string times_markdown() {
  std::string out = times_head;
  for (const auto& t : times) out += fmt::format("| {} | {} |\n", t.what, t.value.count());
  out += answers_head;
  for_each_answer([&](const service_info& service, const call_info& call) {
    const auto key = key_of(call);
    out += fmt::format(
        "| {} | {} | {} | {} |\n", service.name == "Component" ? "every actor" : service.kind,
        call.request->name, call.timeout_ms, key.empty() ? "" : fmt::format("`{}`", key));
  });
  return out;
}

void add_times(nlohmann::ordered_json& all) {
  for (const auto& t : times)
    all.push_back({{"area", "times"},
                   {"what", t.what},
                   {"value", t.value.count()},
                   {"unit", "ms"},
                   {"then", ""}});
  for_each_answer([&](const service_info& service, const call_info& call) {
    all.push_back({{"area", "answers"},
                   {"what", fmt::format("{} {}", service.kind, call.request->name)},
                   {"value", call.timeout_ms},
                   {"unit", "ms"},
                   {"then", "who asked gives up"},
                   {"key", key_of(call)}});
  });
}

constexpr auto keys_head = R"(
## keys of a configuration

`troupe config check` refuses what lies outside, with the key and its line (78).

| key | accepts |
|---|---|
)";

}  // namespace

std::string limits_markdown() {
  std::string out = limits_head;
  std::string_view area;
  for (const auto& row : limit_rows()) {
    if (row.area != area)
      out += fmt::format("\n## {}\n\n| what | at most | at it |\n|---|---|---|\n", row.area);
    area = row.area;
    out += fmt::format("| {} | {} | {} |\n", row.what, amount(row.value, row.unit), row.then);
  }
  out += times_markdown();
  out += keys_head;
  for (const auto& p : config::properties())
    if (p.limits.max) out += fmt::format("| `{}` | {} |\n", p.key, config::accepts(p));
  return out;
}

std::string limits_json() {
  auto all = nlohmann::ordered_json::array();
  for (const auto& row : limit_rows())
    all.push_back({{"area", row.area},
                   {"what", row.what},
                   {"value", row.value},
                   {"unit", row.unit},
                   {"then", row.then}});
  add_times(all);
  for (const auto& p : config::properties())
    if (p.limits.max)
      all.push_back({{"area", "keys of a configuration"},
                     {"what", p.key},
                     {"value", *p.limits.max},
                     {"unit", ""},
                     {"then", "refused: " + config::accepts(p)}});
  return nlohmann::ordered_json{{"limits", all}}.dump() + "\n";
}

}  // namespace troupe::apps
