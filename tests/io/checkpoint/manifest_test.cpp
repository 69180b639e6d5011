// MANIFEST: what is written is what is read; what does not add up is refused by name.
#include "io/checkpoint/manifest.hpp"

#include <cmath>
#include <random>

#include "tests/errors.hpp"
#include "tests/io/checkpoint/sample.hpp"
#include "tests/io/checkpoint/sign.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;

namespace {

/// Two ranks: rank 0 has a[0,60) and all of b; rank 1 has a[60,100).
std::vector<shard_facts> shards() {
  const std::vector<int64_t> a{10, 10}, b{7};
  const auto f32 = tensor_dtype::f32;
  return {{1, 8192, 160, 77, 78, {{"a", part::master, f32, a, true, 60, 40, 0, 160}}},
          {0,
           8192,
           268,
           87,
           88,
           {{"a", part::master, f32, a, true, 0, 60, 0, 240},
            {"b", part::master, f32, b, false, 0, 7, 240, 28}}}};
}

manifest_head head() {
  const lineage line{{11, 80}, {12, 120}};
  return {"job", 120, 3, {2, 1, 1}, 4096, 1000, 3.25, 2.5, 1'700'000'000'000, line};
}

/// The same, and a chunk of rank 0 in a shard of its own: in version 2.
std::vector<shard_facts> shards_with_chunk() {
  auto all = shards();
  const std::vector<int64_t> c{5};
  all[1].chunks = {{3,
                    12288,
                    8192,
                    4096,
                    55,
                    56,
                    {{"c", part::master, tensor_dtype::f32, c, false, 0, 5, 4096, 20}}}};
  return all;
}

const std::vector<file_sum> others{{"config.json", 10, 1}, {"train_state.json", 20, 2}};

manifest sample_manifest() {
  auto m = assemble(head(), shards(), others);
  REQUIRE_MESSAGE(m, m.error().message);
  return *m;
}

std::span<const std::byte> view(const std::string& text) {
  return as_bytes(text);
}

}  // namespace

TEST_CASE("a manifest is parsed as it was written") {
  const auto m = sample_manifest();
  CHECK(m.files[0].name == "rank-00000.shard");
  CHECK(m.tensors[0].name == "a");
  REQUIRE(m.tensors[0].parts[0].slices.size() == 2);
  CHECK(m.tensors[0].parts[0].slices[1] == slice{1, 60, 40, 0});
  auto text = encode_manifest(m);
  REQUIRE(text);
  auto parsed = parse_manifest(view(*text));
  REQUIRE_MESSAGE(parsed, parsed.error().message);
  CHECK(*parsed == m);
  auto head = parse_manifest_head(view(*text));
  REQUIRE_MESSAGE(head, head.error().message);
  CHECK(*head == m.head);
}

TEST_CASE("a manifest from before lines were written is of launch 0, in the order of steps") {
  auto m = sample_manifest();
  m.head.line.clear();
  auto parsed = parse_manifest(view(*encode_manifest(m)));
  REQUIRE(parsed);
  CHECK(parsed->head.line.empty());
  CHECK(line_of(parsed->head) == lineage{{0, 120}});
}

TEST_CASE("no validation loss, and a loss that is no number, are kept as they are") {
  auto m = sample_manifest();
  m.head.validation_loss.reset();
  m.head.loss = std::nan("");
  auto text = encode_manifest(m);
  REQUIRE(text);
  auto parsed = parse_manifest(view(*text));
  REQUIRE(parsed);
  CHECK(!parsed->head.validation_loss);
  CHECK(std::isnan(parsed->head.loss));
  m.head.validation_loss = 0;
  parsed = parse_manifest(view(*encode_manifest(m)));
  REQUIRE(parsed);
  CHECK(parsed->head.validation_loss == 0.0);
}

TEST_CASE("every flipped bit of a manifest is noticed, and every cut") {
  auto text = encode_manifest(sample_manifest());
  REQUIRE(text);
  size_t accepted = 0;
  for (size_t at = 0; at < text->size(); ++at)
    for (unsigned bit = 0; bit < 8; ++bit) {
      auto bytes = *text;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      accepted += parse_manifest(view(bytes)) ? 1 : 0;
      accepted += parse_manifest_head(view(bytes)) ? 1 : 0;
    }
  for (size_t cut = 0; cut < text->size(); ++cut) {
    accepted += parse_manifest(view(text->substr(0, cut))) ? 1 : 0;
    accepted += parse_manifest_head(view(text->substr(0, cut))) ? 1 : 0;
  }
  accepted += parse_manifest(view(*text + "x")) ? 1 : 0;
  accepted += parse_manifest_head(view(*text + "x")) ? 1 : 0;
  CHECK(accepted == 0);
}

namespace {

/// How often a damaged manifest with a right checksum is refused; where it is not, it is sound.
size_t damage_refused(const manifest& m, uint32_t version) {
  auto text = encode_manifest(m);
  REQUIRE(text);
  const auto all = view(*text).subspan(24);
  const std::vector<std::byte> body(all.begin(), all.end());
  size_t refused = 0;
  const auto look = [&](const std::vector<std::byte>& bytes) {
    auto parsed = parse_manifest(sign_manifest(bytes, version));
    if (parsed) CHECK(check(*parsed));
    refused += parsed ? 0 : 1;
    const auto head = parse_manifest_head(sign_manifest(bytes, version));
    if (head) CHECK(check(*head));
    if (parsed) CHECK(head.has_value());
  };
  for (size_t at = 0; at < body.size(); ++at)
    for (const uint8_t to : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      auto bytes = body;
      bytes[at] = std::byte{to};
      look(bytes);
    }
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    auto bytes = body;
    for (unsigned n = 0; n < 1 + random() % 4; ++n)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    look(bytes);
  }
  return refused;
}

}  // namespace

TEST_CASE("MF-4: a damaged manifest that got past its checksum is refused or sound") {
  CHECK(damage_refused(sample_manifest(), packed_version) > 1000);
  const auto with_chunk = assemble(head(), shards_with_chunk(), others);
  REQUIRE(with_chunk);
  CHECK(damage_refused(*with_chunk, padded_version) > 1000);
}

TEST_CASE("MF-1..MF-3: a manifest that does not add up is refused by name") {
  struct row {
    error wrong;
    std::function<void(manifest&)> spoil;
  };
  const std::vector<row> rows = {
      {element_missing("master of a", 60),
       [](manifest& m) { m.tensors[0].parts[0].slices.pop_back(); }},
      {element_twice("master of a", 59),
       [](manifest& m) { m.tensors[0].parts[0].slices[1].first = 59; }},
      {slice_outside("master of a"),
       [](manifest& m) { m.tensors[0].parts[0].slices[1].count = UINT64_MAX; }},
      {slice_outside("master of a"),
       [](manifest& m) { m.tensors[0].parts[0].slices[1].count = 0; }},
      {slice_in_no_shard("master of a"),
       [](manifest& m) { m.tensors[0].parts[0].slices[1].file = 2; }},
      {slice_in_no_shard("master of a"),
       [](manifest& m) { m.tensors[0].parts[0].slices[1].file = 9; }},
      {slice_outside_shard("master of a", "rank-00001.shard"),
       [](manifest& m) { m.tensors[0].parts[0].slices[1].stream_offset = 4; }},
      {byte_claimed_twice("rank-00000.shard", "b", 236),
       [](manifest& m) { m.tensors[1].parts[0].slices[0].stream_offset = 236; }},
      {byte_unclaimed("rank-00000.shard", 268), [](manifest& m) { m.files[0].stream_bytes = 272; }},
      {byte_before_unclaimed("rank-00001.shard", "a", 0),
       [](manifest& m) {
         m.files[1].stream_bytes = 164;
         m.tensors[0].parts[0].slices[1].stream_offset = 4;
       }},
      {listed_twice("tensor", "a"), [](manifest& m) { m.tensors[1].name = "a"; }},
      {listed_twice("file", "config.json"), [](manifest& m) { m.files[3].name = "config.json"; }},
      {listed_twice("file", "MANIFEST"), [](manifest& m) { m.files[3].name = "MANIFEST"; }},
      {file_name_invalid(), [](manifest& m) { m.files[3].name = "../../etc/passwd"; }},
      {tensor_unnamed("a tensor"), [](manifest& m) { m.tensors[0].name = ""; }},
      {shard_name_wrong("rank-00007.shard", 0),
       [](manifest& m) { m.files[0].name = "rank-00007.shard"; }},
      {shard_name_wrong("rank-00000.shard", 2), [](manifest& m) { m.files[0].rank = 2; }},
      {shards_missing(1, 2), [](manifest& m) { m.files[1].shard = false; }},
      {shard_length_wrong("rank-00000.shard"), [](manifest& m) { m.files[0].bytes = 4096; }},
      {shard_length_wrong("rank-00000.shard"), [](manifest& m) { m.files[0].bytes = 8193; }},
      {shape_impossible("a"),
       [](manifest& m) {
         m.tensors[0].shape = {0, 10};
       }},
      {shape_impossible("b"), [](manifest& m) { m.tensors[1].transposed = true; }},
      {layout_impossible(),
       [](manifest& m) {
         m.head.layout = {1 << 16, 1, 1 << 16};
       }},
      {slots_impossible(1000), [](manifest& m) { m.head.slot_bytes = 1000; }},
      {part_unknown("master of b"),
       [](manifest& m) { m.tensors[1].parts[0].type = tensor_dtype::u8; }},
  };
  for (const auto& r : rows) {
    auto m = sample_manifest();
    r.spoil(m);
    const auto s = check(m);
    REQUIRE_FALSE(s);
    CHECK(s.error() == r.wrong.within(manifest_file));
    CHECK(!encode_manifest(m));
  }
}

TEST_CASE("MF-3: chunks may have shards of their own, in version 2 and under their names") {
  const auto made = assemble(head(), shards_with_chunk(), others);
  REQUIRE_MESSAGE(made, made.error().message);
  CHECK(made->files[1].name == "rank-00000.chunk-00003.shard");
  CHECK(slot_bytes_of(*made, 1) == 4096);
  const auto text = encode_manifest(*made);
  REQUIRE(text);
  const auto parsed = parse_manifest(view(*text));
  REQUIRE(parsed);
  CHECK(*parsed == *made);
  CHECK(static_cast<int>((*text)[8]) == 2);
  CHECK(static_cast<int>((*encode_manifest(sample_manifest()))[8]) == 1);
  const std::vector<std::function<void(manifest&)>> wrong = {
      [](manifest& m) { m.files[1].name = "rank-00000.shard.chunk-3"; },
      [](manifest& m) { m.files[1].name = "rank-00000.chunk-3.shard"; },
      [](manifest& m) { m.files[1].name = "rank-00001.chunk-00003.shard"; },
      [](manifest& m) { m.files[1].slot_bytes = 4097; },
      [](manifest& m) { m.files[1].slot_bytes = 0; },
      [](manifest& m) { m.files[0].slot_bytes = 4096; },
  };
  for (size_t i = 0; i < wrong.size(); ++i) {
    CAPTURE(i);
    auto m = *made;
    wrong[i](m);
    CHECK_FALSE(check(m));
  }
}

TEST_CASE("shards that disagree or leave something out make no manifest") {
  auto missing = shards();
  missing.pop_back();
  CHECK(!assemble(head(), missing, others));
  auto hole = shards();
  hole[0].pieces[0].first = 61;
  CHECK(is_error(assemble(head(), hole, others), element_missing, "a"));
  auto shape = shards();
  shape[0].pieces[0].shape = {20, 5};
  auto made = assemble(head(), shape, others);
  REQUIRE(!made);
  CHECK(made.error() == shards_disagree("shape", "a").within(manifest_file));
  auto type = shards();
  type[0].pieces[0].type = tensor_dtype::bf16;
  CHECK(!assemble(head(), type, others));
}

TEST_CASE("what is no manifest at all is told as that") {
  for (const char* text : {"", "troupe manifest 1\n"})
    CHECK(parse_manifest(as_bytes(text)).error().code == errc::bad_data);
}
