// The end of a shard: what is written is what is read, and nothing else is.
#include "io/checkpoint/format.hpp"

#include <random>

#include "tests/errors.hpp"
#include "tests/io/checkpoint/sample.hpp"
#include "tests/io/checkpoint/sign.hpp"

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::checkpoint;

namespace {

footer sample_footer() {
  footer f;
  f.job = "job";
  f.epoch = 3;
  f.step = 120;
  f.rank = 1;
  f.layout = {2, 1, 1};
  f.slot_bytes = 4096;
  f.pieces = {{"a.weight", part::master, tensor_dtype::f32, {100, 30}, true, 0, 3000, 0, 12000},
              {"a.weight", part::weight, tensor_dtype::bf16, {100, 30}, true, 5, 7, 12000, 14},
              {"b.bias", part::exp_avg_sq, tensor_dtype::f32, {9}, false, 8, 1, 12014, 4}};
  f.stream_bytes = 12018;
  f.crc32c = {1, 2, 3};
  return f;
}

/// The same with zeros between its pieces and behind them: in version 2.
footer padded_footer() {
  auto f = sample_footer();
  f.padded = true;
  f.pieces[2].stream_offset += 8;
  f.stream_bytes += 12;
  return f;
}

}  // namespace

TEST_CASE("a shard's end is parsed as it was encoded, and lies where O_DIRECT can write it") {
  const auto f = sample_footer();
  auto tail = encode_tail(f);
  REQUIRE(tail);
  CHECK(tail->offset == 12288);
  CHECK(tail->bytes.size() % alignment == 0);
  CHECK(tail->file_bytes == tail->offset + tail->bytes.size());
  CHECK(tail->slot_digest == slot_digest(f.crc32c));
  auto parsed = parse_tail(tail->bytes, tail->file_bytes);
  REQUIRE_MESSAGE(parsed, parsed.error().message);
  CHECK(*parsed == f);
}

TEST_CASE("a shard without a stream is a shard") {
  footer f = sample_footer();
  f.pieces.clear();
  f.crc32c.clear();
  f.stream_bytes = 0;
  auto tail = encode_tail(f);
  REQUIRE(tail);
  CHECK(tail->offset == 0);
  auto parsed = parse_tail(tail->bytes, tail->file_bytes);
  REQUIRE(parsed);
  CHECK(*parsed == f);
}

TEST_CASE("SF-1..SF-3: a footer whose numbers do not fit is refused by name") {
  struct row {
    std::string_view kind;
    std::string_view fact;
    std::function<void(footer&)> spoil;
  };
  const std::vector<row> rows = {
      {checksums_missing.name, "3", [](footer& f) { f.crc32c.pop_back(); }},
      {piece_misplaced.name, "1", [](footer& f) { f.pieces[1].stream_offset = 11996; }},
      {piece_misplaced.name, "1", [](footer& f) { f.stream_bytes = 12010; }},
      {stream_not_filled.name, "", [](footer& f) { f.stream_bytes = 12020; }},
      {piece_outside.name, "2", [](footer& f) { f.pieces[2].first = 9; }},
      {piece_outside.name, "2", [](footer& f) { f.pieces[2].first = UINT64_MAX; }},
      {piece_outside.name, "2", [](footer& f) { f.pieces[2].count = 0; }},
      {piece_length_wrong.name, "1", [](footer& f) { f.pieces[1].bytes = 28; }},
      {shape_impossible.name, "0",
       [](footer& f) {
         f.pieces[0].shape = {INT64_MAX, INT64_MAX};
       }},
      {shape_impossible.name, "0",
       [](footer& f) {
         f.pieces[0].shape = {-1, 3};
       }},
      {piece_not_matrix.name, "2", [](footer& f) { f.pieces[2].transposed = true; }},
      {part_unknown.name, "2", [](footer& f) { f.pieces[2].which = static_cast<part>(4); }},
      {part_unknown.name, "2", [](footer& f) { f.pieces[2].type = tensor_dtype::i64; }},
      {tensor_unnamed.name, "2", [](footer& f) { f.pieces[2].tensor = "a\nb"; }},
      {tensor_unnamed.name, "2", [](footer& f) { f.pieces[2].tensor = std::string(513, 'x'); }},
      {layout_impossible.name, "", [](footer& f) { f.rank = 2; }},
      {layout_impossible.name, "",
       [](footer& f) {
         f.layout = {0, 1, 1};
       }},
      {layout_impossible.name, "",
       [](footer& f) {
         f.layout = {1 << 30, 1, 1 << 30};
       }},
      {slots_impossible.name, "4097", [](footer& f) { f.slot_bytes = 4097; }},
      {slots_impossible.name, "0", [](footer& f) { f.slot_bytes = 0; }},
  };
  for (const auto& r : rows) {
    auto f = sample_footer();
    r.spoil(f);
    CHECK(is_error(check(f), r.kind, "footer", r.fact));
    auto tail = encode_tail(f);
    REQUIRE(!tail);
    CHECK(tail.error().code == errc::bug);
  }
}

TEST_CASE("SF-1: in version 2 there may be zeros between pieces, in version 1 none") {
  auto f = padded_footer();
  REQUIRE(check(f));
  const auto tail = encode_tail(f);
  REQUIRE(tail);
  const auto parsed = parse_tail(tail->bytes, tail->file_bytes);
  REQUIRE(parsed);
  CHECK(*parsed == f);
  f.pieces[2].stream_offset = f.pieces[1].stream_offset + f.pieces[1].bytes - 4;
  CHECK(is_error(check(f), piece_misplaced, "footer", "2"));
  f = sample_footer();
  f.padded = true;
  f.pieces.back().stream_offset = f.stream_bytes - f.pieces.back().bytes + 4;
  CHECK(is_error(check(f), piece_misplaced));
}

namespace {

/// How often a shard's end is taken for whole that has a bit turned, or is cut.
size_t damage_accepted(const footer& f) {
  auto tail = encode_tail(f);
  REQUIRE(tail);
  size_t accepted = 0;
  for (size_t at = 0; at < tail->bytes.size(); ++at)
    for (unsigned bit = 0; bit < 8; ++bit) {
      auto bytes = tail->bytes;
      sample::flip(bytes[at], bit);
      auto parsed = parse_tail(bytes, tail->file_bytes);
      accepted += parsed ? 1 : 0;
    }
  for (size_t cut = 0; cut < tail->bytes.size(); ++cut) {
    const auto part_of_it = std::span(tail->bytes).first(cut);
    accepted += parse_tail(part_of_it, tail->offset + cut) ? 1 : 0;
    accepted += parse_tail(part_of_it, tail->file_bytes) ? 1 : 0;
  }
  return accepted;
}

/// How often a damaged footer with a right checksum is refused; where it is not, it is sound.
size_t damage_refused(const footer& f, uint32_t version) {
  auto tail = encode_tail(f);
  REQUIRE(tail);
  auto end = parse_trailer(tail->bytes, tail->file_bytes);
  REQUIRE(end);
  CHECK(end->version == version);
  const std::vector<std::byte> body(
      tail->bytes.begin(), tail->bytes.begin() + static_cast<ptrdiff_t>(end->footer_bytes));
  std::mt19937_64 random(11);
  size_t refused = 0;
  const auto look = [&](const std::vector<std::byte>& bytes) {
    auto parsed = parse_footer(bytes);
    if (parsed) CHECK(check(*parsed));
    refused += parsed ? 0 : 1;
    const auto signed_tail = sign_tail(bytes, 12288, version);
    if (const auto all = parse_tail(signed_tail, 12288 + signed_tail.size())) CHECK(check(*all));
  };
  for (size_t at = 0; at < body.size(); ++at)
    for (const uint8_t to : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      auto bytes = body;
      bytes[at] = std::byte{to};
      look(bytes);
    }
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

TEST_CASE("every flipped bit of a shard's end is noticed, and every cut") {
  CHECK(damage_accepted(sample_footer()) == 0);
  CHECK(damage_accepted(padded_footer()) == 0);
}

TEST_CASE("SF-4: a damaged footer that got past its checksum is refused or sound") {
  CHECK(damage_refused(sample_footer(), packed_version) > 1000);
  CHECK(damage_refused(padded_footer(), padded_version) > 1000);
}

TEST_CASE("a trailer of another version says so") {
  auto tail = encode_tail(sample_footer());
  REQUIRE(tail);
  auto* end = tail->bytes.data() + tail->bytes.size() - trailer_bytes;
  const auto with_version = [&](int version) {
    end[8] = static_cast<std::byte>(version);
    const uint32_t crc = crc32c(std::span<const std::byte>(end, 36));
    std::memcpy(end + 36, &crc, sizeof crc);
    return parse_tail(tail->bytes, tail->file_bytes);
  };
  for (const int version : {0, 3}) {
    const auto parsed = with_version(version);
    REQUIRE(!parsed);
    CHECK(parsed.error().code == errc::version_mismatch);
    CHECK(!parsed.error().hint.empty());
  }
  const auto footer_of_another = with_version(2);
  REQUIRE(!footer_of_another);
  CHECK(footer_of_another.error().code == errc::bad_data);
  CHECK(with_version(1));
}

TEST_CASE("limits: a trailer that claims more than any footer has is refused") {
  auto tail = encode_tail(sample_footer());
  REQUIRE(tail);
  const auto claims = [&](uint64_t bytes) {
    auto* end = tail->bytes.data() + tail->bytes.size() - trailer_bytes;
    std::memcpy(end + 24, &bytes, sizeof bytes);
    const uint32_t crc = crc32c(std::span<const std::byte>(end, 36));
    std::memcpy(end + 36, &crc, sizeof crc);
    return parse_trailer(tail->bytes, tail->offset + aligned(bytes + trailer_bytes));
  };
  CHECK(claims(max_footer_bytes));
  const auto refused = claims(max_footer_bytes + 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::bad_data);
}

TEST_CASE("names that are paths or worse are no names") {
  for (const char* bad : {"", ".", "..", "a/b", "/a", "a\n", "\x7f"}) CHECK(!is_file_name(bad));
  CHECK(is_file_name("rank-00000.shard"));
  CHECK(!is_file_name(std::string(256, 'a')));
  CHECK(elements_of(std::vector<int64_t>{2, 3}) == 6);
  CHECK(elements_of({}) == 1);
  CHECK(!elements_of(std::vector<int64_t>{2, 0}));
  CHECK(!elements_of(std::vector<int64_t>(9, 1)));
  CHECK(!elements_of(std::vector<int64_t>{int64_t{1} << 47, 2}));
}
