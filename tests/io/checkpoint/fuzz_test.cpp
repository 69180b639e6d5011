// The fuzzer's entry point (tests/fuzz/io_checkpoint.cpp) over its seeds and seeded mutations, so
// that every build runs it, not only clang's.
#include <random>

#include "io/swap/chunk_shard.hpp"
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

/// The end of a chunk's shard as a drive has it, and the manifest of a checkpoint that took it: in
/// version 2.
void add_padded(std::vector<bytes>& out) {
  const auto chunk = sample::layer(0);
  const auto& last = chunk.tensors.back();
  const auto elements = static_cast<int64_t>(last.offset + *elements_of(last.shape));
  const io::chunk_file layout(elements, 1, io::chunk_weights::stored);
  manifest_head head{"sample", 120, 3, {1, 1, 1}, sample::slot_bytes, 1000, 3.25, 2.5, 7, {}};
  const std::vector<io::group_sums> sums(static_cast<size_t>(layout.groups()));
  const auto footer = io::chunk_footer(layout, chunk, 0, head, 0, sums);
  const auto tail = encode_tail(footer);
  REQUIRE(tail);
  const auto end = parse_trailer(tail->bytes, tail->file_bytes);
  REQUIRE(end);
  const auto slot = static_cast<uint8_t>(tail->offset / alignment);
  out.push_back(selector(2, slot, tail->bytes));
  out.push_back(selector(6, slot, std::span(tail->bytes).first(end->footer_bytes)));
  shard_facts rank{0, 8192, 16, 5, 6, {}, {}};
  rank.pieces = {{"lone", part::master, io::tensor_dtype::f32, {4}, false, 0, 4, 0, 16}};
  rank.chunks = {{1, tail->file_bytes, footer.stream_bytes, footer.slot_bytes, tail->footer_crc,
                  tail->slot_digest, footer.pieces}};
  const auto m = assemble(head, {rank}, {});
  REQUIRE_MESSAGE(m, (m ? std::string() : m.error().message));
  const auto text = encode_manifest(*m);
  REQUIRE(text);
  CHECK(int{(*text)[8]} == int{padded_version});
  out.push_back(selector(0, 0, io::as_bytes(*text)));
  out.push_back(selector(5, 0, io::as_bytes(*text).subspan(24)));
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
  add_padded(out);
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
