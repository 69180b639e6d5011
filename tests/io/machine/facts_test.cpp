// Facts of the machine: found again as they were kept, and only where they can be right.
#include "io/machine/facts.hpp"

#include <cstdlib>
#include <limits>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours a_day{24};

fact_store store_in(const fs::path& folder) {
  return {folder, "0123456789abcdef", "1.2.3", 1'800'000'000};
}

}  // namespace

TEST_CASE("FACT-1 a fact is found as it was kept, and under its name alone") {
  scratch dir;
  const auto store = store_in(dir / "cache");
  CHECK_FALSE(store.find("speed", a_day));
  store.keep("speed", {{"flops", 1.5e11}});
  auto found = store.find("speed", a_day);
  REQUIRE(found);
  CHECK(*found == nlohmann::json{{"flops", 1.5e11}});
  CHECK_FALSE(store.find("other", a_day));
  store.keep("speed", {{"flops", 2e11}});
  CHECK(store.find("speed", a_day)->at("flops") == 2e11);
}

TEST_CASE("FACT-1 a fact of another machine, program or time is as absent") {
  scratch dir;
  const auto store = store_in(dir / "cache");
  store.keep("speed", 1);
  const auto with = [&](auto change) {
    auto other = store;
    change(other);
    return other.find("speed", a_day).has_value();
  };
  CHECK(with([](auto&) {}));
  CHECK_FALSE(with([](auto& s) { s.machine = "fedcba9876543210"; }));
  CHECK_FALSE(with([](auto& s) { s.program = "1.2.4"; }));
  CHECK_FALSE(with([](auto& s) { s.now_unix_s -= 1; }));
  CHECK(with([](auto& s) { s.now_unix_s += 24 * 3600; }));
  CHECK_FALSE(with([](auto& s) { s.now_unix_s += 24 * 3600 + 1; }));
}

TEST_CASE("FACT-1 a file that is damaged or somebody else's is as absent") {
  scratch dir;
  const auto store = store_in(dir / "cache");
  store.keep("speed", 1);
  const auto file = dir / "cache" / store.machine / "speed.json";
  const auto good = nlohmann::json::parse(*read_file(file, most_fact_bytes));
  const auto before_time = std::numeric_limits<int64_t>::min();
  const auto deep = nlohmann::json::parse(std::string(100, '[') + std::string(100, ']'));
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, nlohmann::json>>{{"store", 2},
                                                           {"store", "1"},
                                                           {"program", nullptr},
                                                           {"machine", 5},
                                                           {"name", "other"},
                                                           {"unix_s", "now"},
                                                           {"unix_s", before_time},
                                                           {"value", deep}}) {
    CAPTURE(key);
    auto bad = good;
    bad[key] = value;
    REQUIRE(write_atomic(file, bad.dump()));
    CHECK_FALSE(store.find("speed", a_day));
    bad.erase(key);
    REQUIRE(write_atomic(file, bad.dump()));
    CHECK_FALSE(store.find("speed", a_day));
  }
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"),
        std::string(60'000, '['), std::string(most_fact_bytes, ' ') + good.dump()}) {
    REQUIRE(write_atomic(file, text));
    CHECK_FALSE(store.find("speed", a_day));
  }
  REQUIRE(write_atomic(file, good.dump()));
  CHECK(store.find("speed", a_day));
}

TEST_CASE("facts are kept under XDG_CACHE_HOME, by machine, where something can be kept") {
  scratch dir;
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string saved = before != nullptr ? before : "";
  ::setenv("XDG_CACHE_HOME", dir.path.c_str(), 1);
  fact_store{}.keep("speed", 1);
  const bool found = fact_store{}.find("speed", a_day).has_value();
  const bool there = fs::exists(dir / "troupe" / this_machine() / "speed.json");
  REQUIRE(write_atomic(dir / "plain", "a file"));
  ::setenv("XDG_CACHE_HOME", (dir / "plain").c_str(), 1);
  fact_store{}.keep("speed", 1);
  const bool nowhere = fact_store{}.find("speed", a_day).has_value();
  if (before != nullptr)
    ::setenv("XDG_CACHE_HOME", saved.c_str(), 1);
  else
    ::unsetenv("XDG_CACHE_HOME");
  CHECK(found);
  CHECK(there);
  CHECK_FALSE(nowhere);
  CHECK(this_machine().size() == 16);
}
