// A number with its unit written behind it: refused, with the number that the key takes.
#include <string>

#include <doctest/doctest.h>

#include "io/config/properties.hpp"
#include "tests/errors.hpp"

using namespace troupe;
using namespace troupe::config;

TEST_CASE("a unit that is written is told as a number of the key's own unit") {
  struct {
    const char *key, *text, *number;
  } const rows[] = {
      {"cluster.dead_after_ms", "5s", "5000"},      {"cluster.dead_after_ms", "5 min", "300000"},
      {"timeouts.save_s", "2 min", "120"},          {"swap.host_bytes", "1GB", "1000000000"},
      {"swap.host_bytes", "1.5 GiB", "1610612736"}, {"power.budget_w", "1.2 kW", "1200"}};
  for (const auto& row : rows) {
    CAPTURE(row.key);
    CAPTURE(row.text);
    const auto* key = find_property(row.key);
    REQUIRE(key != nullptr);
    job j;
    const auto refused = set(*key, j, std::string(row.text));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == errc::bad_config);
    CHECK(refused.error().hint.ends_with(" " + std::string(row.number)));
    CHECK(set(*key, j, value(int64_t{std::stoll(row.number)})));
  }
}

TEST_CASE("no number is made of what is none, of another unit, or of more than a key takes") {
  struct {
    const char *key, *text;
  } const rows[] = {{"cluster.dead_after_ms", "5 GB"},  {"cluster.dead_after_ms", "soon"},
                    {"cluster.dead_after_ms", ""},      {"cluster.dead_after_ms", "9999 h"},
                    {"swap.host_bytes", "5 s"},         {"swap.host_bytes", "1 GBx"},
                    {"swap.rates.read_bytes_s", "2GB"}, {"train.steps", "5 s"},
                    {"cluster.dead_after_ms", "nan s"}, {"swap.host_bytes", "1e300 GB"}};
  for (const auto& row : rows) {
    CAPTURE(row.key);
    CAPTURE(row.text);
    const auto* key = find_property(row.key);
    REQUIRE(key != nullptr);
    job j;
    const auto refused = set(*key, j, std::string(row.text));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().hint.empty());
  }
}
