// The fuzzer's entry point (tests/fuzz/io_checkpoint.cpp) over its seeds and seeded mutations, so
// that every build runs it, not only clang's.
#include <random>

#include "tests/io/checkpoint/sample.hpp"

using namespace troupe;
using namespace troupe::io::checkpoint;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using bytes = std::vector<uint8_t>;

bytes selector(uint8_t which, uint8_t offset, std::span<const std::byte> content) {
  bytes out{which, offset};
  for (const auto b : content) out.push_back(static_cast<uint8_t>(b));
  return out;
}

/// The manifest and the end of a shard, with and without their envelopes, and some names.
std::vector<bytes> corpus() {
  scratch dir;
  sample::made what;
  what.pipeline = 2;
  what.data = 2;
  const auto folder = sample::make(dir.path, what);
  const auto manifest = sample::bytes_of(folder / "MANIFEST");
  const auto shard = sample::bytes_of(folder / "rank-00001.shard");
  auto end = parse_trailer(shard, shard.size());
  REQUIRE(end);
  const auto tail = std::span(shard).subspan(end->footer_offset);
  const auto slot = static_cast<uint8_t>(end->footer_offset / alignment);
  std::vector<bytes> out = {
      selector(0, 0, manifest), selector(1, 0, std::span(manifest).subspan(24)),
      selector(2, slot, tail), selector(3, slot, tail.first(end->footer_bytes))};
  for (const char* name : {"step-00000120", "step-00000120.e3.partial", "step-00000120.deleting"})
    out.push_back(selector(4, 0, io::as_bytes(name)));
  return out;
}

void mutate(bytes& x, std::mt19937_64& random) {
  for (unsigned n = 0; n < 1 + random() % 4; ++n) {
    if (x.size() < 3) return;
    const size_t at = 2 + random() % (x.size() - 2);
    switch (random() % 4) {
      case 0:
        x[at] = static_cast<uint8_t>(random());
        break;
      case 1:
        x[at] ^= static_cast<uint8_t>(1u << random() % 8);
        break;
      case 2:
        x[at] = random() % 2 ? 0xff : 0;
        break;
      default:
        if (random() % 16 == 0) x.resize(at);
    }
  }
}

}  // namespace

TEST_CASE("the fuzzer's entry survives its seeds and 40,000 seeded mutations") {
  auto seeds = corpus();
  for (const auto& item :
       sample::fs::directory_iterator(TROUPE_SOURCE_DIR "/tests/fuzz/seeds/io_checkpoint")) {
    const auto content = sample::bytes_of(item.path());
    const auto* data = reinterpret_cast<const uint8_t*>(content.data());
    seeds.emplace_back(data, data + content.size());
  }
  CHECK(seeds.size() > 10);
  for (const auto& seed : seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());
  std::mt19937_64 random(7);
  for (int i = 0; i < 40'000; ++i) {
    auto x = seeds[random() % seeds.size()];
    mutate(x, random);
    LLVMFuzzerTestOneInput(x.data(), x.size());
  }
}
