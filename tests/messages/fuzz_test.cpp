// The fuzzer's entry point (tests/fuzz/messages_wire.cpp) over a seeded corpus and seeded
// mutations, so that every build runs it, not only clang's.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "messages/registry.hpp"
#include "messages/rejection.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using bytes = std::vector<uint8_t>;

bytes with_door(uint8_t door, size_t type, const bytes& content) {
  bytes out(content.size() + 2);
  out[0] = door;
  out[1] = static_cast<uint8_t>(type);
  std::copy(content.begin(), content.end(), out.begin() + 2);
  return out;
}

// For every message: its wire form, its payload alone, and its JSON, with some fields set.
std::vector<bytes> corpus() {
  std::vector<bytes> out;
  const auto& all = all_messages();
  for (size_t i = 0; i < all.size(); ++i) {
    std::string json = "{";
    for (const auto& field : all[i].fields) {
      if (!field.nested.empty() && !enum_names(field.nested).empty()) continue;
      if (json.size() > 1) json += ',';
      json += '"' + std::string(field.name) + "\":";
      if (!field.nested.empty())
        json += field.type.front() == '[' ? "[{},{}]" : "{}";
      else if (field.type == "string")
        json += "\"text\"";
      else if (field.type == "[string]")
        json += "[\"a\",\"bc\"]";
      else
        json += field.type.front() == '[' ? "[1,2,3]" : field.type == "bool" ? "true" : "7";
    }
    json += "}";
    auto m = from_json(all[i].name, json);
    REQUIRE_MESSAGE(m, json);
    out.push_back(with_door(0, i, encode(*m)));
    out.push_back(with_door(1, i, {m->payload().begin(), m->payload().end()}));
    out.push_back(with_door(2, i, {json.begin(), json.end()}));
    for (uint8_t door : {3, 4, 5}) out.push_back(with_door(door, i, encode(*m)));
  }
  return out;
}

void mutate(bytes& x, std::mt19937_64& random) {
  static const uint8_t interesting[] = {0, 1, 4, 8, 0x7f, 0x80, 0xff, '"', '{', '[', ','};
  for (auto n = 1 + random() % 4; n > 0 && x.size() > 2; --n) {
    auto at = 2 + random() % (x.size() - 2);
    switch (random() % 6) {
      case 0:
        x[at] ^= static_cast<uint8_t>(1u << (random() % 8));
        break;
      case 1:
        x[at] = interesting[random() % std::size(interesting)];
        break;
      case 2:
        x[at] = static_cast<uint8_t>(random());
        break;
      case 3:
        x.resize(at);
        break;
      case 4:
        x.insert(x.begin() + static_cast<ptrdiff_t>(at), static_cast<uint8_t>(random()));
        break;
      default: {  // a word copied elsewhere: offsets that point to what other offsets point to
        auto from = 2 + random() % (x.size() - 2);
        for (size_t k = 0; k < 4 && from + k < x.size() && at + k < x.size(); ++k)
          x[at + k] = x[from + k];
      }
    }
  }
}

}  // namespace

TEST_CASE("the fuzzer's entry survives its seeds and 300,000 seeded mutations") {
  auto seeds = corpus();
  for (const auto& seed : seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());
  std::mt19937_64 random(7);
  auto before = counts();
  for (int i = 0; i < 300'000; ++i) {
    auto x = seeds[random() % seeds.size()];
    mutate(x, random);
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
