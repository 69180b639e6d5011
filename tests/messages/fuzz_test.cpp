// The fuzzer's entry point (tests/fuzz/messages_wire.cpp) over a seeded corpus and seeded
// mutations, so that every build runs it, not only clang's.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "messages/registry.hpp"
#include "messages/rejection.hpp"
#include "tests/fuzz/mutate.hpp"
#include "tests/messages/enum_names.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using bytes = std::vector<uint8_t>;

bytes with_selector(uint8_t selector, size_t type, const bytes& content) {
  bytes out(content.size() + 2);
  out[0] = selector;
  out[1] = static_cast<uint8_t>(type);
  std::copy(content.begin(), content.end(), out.begin() + 2);
  return out;
}

// Some fields of a table set, and those of the tables within, as deep as a status is in a view.
std::string some_fields(const std::vector<field_info>& fields, int depth) {
  std::string json = "{";
  for (const auto& field : fields) {
    if (!field.nested.empty() && !enum_names(field.nested).empty()) continue;
    const bool list = field.type.front() == '[';
    if (json.size() > 1) json += ',';
    json += '"' + std::string(field.name) + "\":";
    if (!field.nested.empty()) {
      const auto one = depth > 6 ? "{}" : some_fields(table_fields(field.nested), depth + 1);
      json += list ? "[" + one + ",{}]" : one;
    } else if (field.type == "string") {
      json += "\"text\"";
    } else if (field.type == "[string]") {
      json += "[\"a\",\"bc\"]";
    } else {
      json += list ? "[1,2,3]" : field.type == "bool" ? "true" : "7";
    }
  }
  return json + "}";
}

// For every message: its wire form, its payload alone, and its JSON, with some fields set.
std::vector<bytes> corpus() {
  std::vector<bytes> out;
  const auto& all = all_messages();
  for (size_t i = 0; i < all.size(); ++i) {
    const auto json = some_fields(all[i].fields, 0);
    auto m = from_json(all[i].name, json);
    REQUIRE_MESSAGE(m, json);
    out.push_back(with_selector(0, i, encode(*m)));
    out.push_back(with_selector(1, i, {m->payload().begin(), m->payload().end()}));
    out.push_back(with_selector(2, i, {json.begin(), json.end()}));
    for (uint8_t selector : {3, 4, 5}) out.push_back(with_selector(selector, i, encode(*m)));
  }
  return out;
}

}  // namespace

TEST_CASE("the fuzzer's entry survives its seeds and 300,000 seeded mutations") {
  auto seeds = corpus();
  for (const auto& seed : seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());
  std::mt19937_64 random(7);
  auto before = counts();
  for (int i = 0; i < 300'000; ++i) {
    auto x = seeds[random() % seeds.size()];
    mutate(x, random, 2);
    LLVMFuzzerTestOneInput(x.data(), x.size());
  }
  auto after = counts();
  CHECK(after.decoded - before.decoded > 1000);
  for (auto reason : {reject::truncated, reject::form, reject::type, reject::oversize,
                      reject::checksum, reject::verify, reject::json}) {
    CAPTURE(to_string(reason));
    CHECK(after.of(reason) > before.of(reason));
  }
}
