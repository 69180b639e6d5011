// Safetensors: round trips, the folder of shards, and every way a file can lie (ST-1..ST-4).
#include "io/formats/safetensors.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include <doctest/doctest.h>

#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

/// A whole file from a header text and a data length.
std::string file_of(std::string header, size_t data_bytes) {
  uint64_t n = header.size();
  std::string out(reinterpret_cast<const char*>(&n), sizeof n);
  return out + header + std::string(data_bytes, '\1');
}

error fault_of(const std::string& file) {
  auto parsed = parse_safetensors(io::as_bytes(file));
  if (parsed) return {};
  CHECK(parsed.error().code == errc::bad_data);
  return parsed.error();
}

std::span<const std::byte> bytes_of(const std::vector<float>& v) {
  return std::as_bytes(std::span(v));
}

std::string good_file() {
  return file_of(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},)"
      R"("s":{"dtype":"U8","shape":[],"data_offsets":[32,33]},)"
      R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[33,33]}}  )",
      33);
}

}  // namespace

TEST_CASE("a good file opens with its names, shapes and metadata") {
  auto file = good_file();
  auto content = parse_safetensors(io::as_bytes(file));
  REQUIRE(content);
  REQUIRE(content->tensors.size() == 4);
  CHECK(content->metadata.at("format") == "pt");
  const auto& a = content->tensors.at("a");
  CHECK(a.type == tensor_dtype::f32);
  CHECK(a.shape == std::vector<int64_t>{2, 3});
  CHECK(a.bytes.size() == 24);
  CHECK(content->tensors.at("s").elements() == 1);
  CHECK(content->tensors.at("none").elements() == 0);
}

TEST_CASE("ST-1 ST-2 ST-3 a lying header is refused with the reason") {
  struct row {
    std::string header;
    size_t data;
    error fault;
  };
  const auto no_json = safetensors_no_json("");
  const row rows[] = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9,
       safetensors_not_filled(9, 8)},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7,
       safetensors_outside("a", 0, 8, 7)},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8,
       safetensors_outside("a", 8, 0, 8)},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8,
       safetensors_size_wrong("a", 8, 12)},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       12, safetensors_misplaced("b", 4, 8)},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
       12, safetensors_misplaced("b", 8, 4)},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
       safetensors_shape_wrong("a")},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,0]}})", 0,
       safetensors_shape_wrong("a")},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       safetensors_shape_wrong("a")},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
       safetensors_unexpected("a", "a negative number")},
      {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4,
       safetensors_unexpected("a", "a fraction")},
      {R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", 4,
       safetensors_unknown_type("a", "F99")},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4,
       safetensors_unexpected("a", "a number")},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4]}})", 4, safetensors_key_missing("a")},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, safetensors_key_missing("a")},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       safetensors_unexpected("a", "key \"dtype\"")},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, safetensors_name_twice("a")},
      {R"({"__metadata__":{"x":1}})", 0, safetensors_unexpected("x", "a number")},
      {R"({"__metadata__":{"x":{}}})", 0, safetensors_unexpected("x", "an object")},
      {R"({"a":[[[[[[]]]]]]})", 0, safetensors_unexpected("a", "an array")},
      {R"({"a":null})", 0, safetensors_unexpected("a", "null")},
      {R"([])", 0, safetensors_no_object()},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 4, no_json},
      {R"({} x)", 0, no_json},
      {"", 0, safetensors_no_object()},
  };
  for (const auto& [header, data, wanted] : rows) {
    CAPTURE(header);
    const auto fault = fault_of(file_of(header, data));
    if (wanted.is(safetensors_no_json))
      CHECK(is_error(fault, safetensors_no_json));  // with the library's words
    else
      CHECK(fault == wanted);
  }
  CHECK(fault_of(file_of("{}", 0)) == error());
}

TEST_CASE("ST-1 a header length beyond the file or the limit is refused") {
  for (uint64_t n : {uint64_t{3}, uint64_t{100'000'001}, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::string file(reinterpret_cast<const char*>(&n), sizeof n);
    CHECK(fault_of(file + "{}") != error());
  }
}

TEST_CASE("ST-4 a good file cut at every length is refused") {
  auto file = good_file();
  for (size_t n = 0; n < file.size(); ++n) {
    // A copy of exactly n bytes on the heap, so that a read beyond shows under a sanitizer.
    std::vector<std::byte> cut(n);
    if (n > 0) std::memcpy(cut.data(), file.data(), n);
    CAPTURE(n);
    CHECK_FALSE(parse_safetensors(cut));
  }
}

TEST_CASE("ST-4 a good file with any bit flipped never yields a tensor outside the file") {
  const auto file = good_file();
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    auto bent = file;
    bent[bit / 8] = static_cast<char>(bent[bit / 8] ^ (1 << (bit % 8)));
    auto parsed = parse_safetensors(io::as_bytes(bent));
    if (!parsed) continue;
    for (const auto& [name, view] : parsed->tensors) {
      CHECK(byte_size(view.type, view.shape) == view.bytes.size());
      CHECK(reinterpret_cast<const char*>(view.bytes.data()) >= bent.data());
      CHECK(reinterpret_cast<const char*>(view.bytes.data()) + view.bytes.size() <=
            bent.data() + bent.size());
    }
  }
}

TEST_CASE("what the writer streams reads back, header padded to 8") {
  scratch dir;
  std::vector<float> a(6), b(10);
  std::iota(a.begin(), a.end(), 1.0F);
  std::iota(b.begin(), b.end(), -3.0F);
  auto writer = safetensors_writer::create(
      dir / "m.safetensors",
      {{"z", tensor_dtype::f32, {2, 3}}, {"a\"\xc3\xa9", tensor_dtype::f32, {10}}},
      {{"format", "pt"}});
  REQUIRE(writer);
  REQUIRE(writer->write(bytes_of(a)));
  REQUIRE(writer->write(bytes_of(b).first(7)));
  CHECK_FALSE(writer->finish());
  REQUIRE(writer->write(bytes_of(b).subspan(7)));
  CHECK_FALSE(writer->write(bytes_of(b)));
  REQUIRE(writer->finish());
  auto store = tensor_store::open(dir / "m.safetensors");
  REQUIRE(store);
  const auto* z = store->find("z");
  REQUIRE(z != nullptr);
  CHECK(reinterpret_cast<uintptr_t>(z->bytes.data()) % 8 == 0);
  std::vector<float> back(10);
  REQUIRE(copy_as_f32(*store->find("a\"\xc3\xa9"), back));
  CHECK(back == b);
}

TEST_CASE("the writer refuses duplicate names and impossible shapes") {
  scratch dir;
  using specs = std::vector<tensor_spec>;
  for (const auto& s :
       {specs{{"a", tensor_dtype::f32, {1}}, {"a", tensor_dtype::f32, {1}}},
        specs{{"a", tensor_dtype::f32, {-1}}}, specs{{"__metadata__", tensor_dtype::f32, {1}}},
        specs{{"a", tensor_dtype::f64, {int64_t{1} << 61}}}})
    CHECK(safetensors_writer::create(dir / "m", s).error().code == errc::bug);
}

TEST_CASE("a model folder is written whole or in shards, and reads back the same") {
  const std::vector<tensor_spec> specs = {{"w1", tensor_dtype::f32, {4}},
                                          {"w2", tensor_dtype::f32, {100}},
                                          {"w3", tensor_dtype::bf16, {3}},
                                          {"w4", tensor_dtype::f32, {2}}};
  auto source = [](const tensor_spec& spec, const auto& sink) -> status {
    std::vector<std::byte> bytes(*byte_size(spec.type, spec.shape), std::byte(spec.name[1]));
    return sink(bytes);
  };
  for (auto [limit, files] : {std::pair<uint64_t, size_t>{1 << 20, 1}, {100, 3}}) {
    scratch dir;
    REQUIRE(write_model_tensors(dir.path, specs, source, limit));
    size_t count = 0;
    for (const auto& e : std::filesystem::directory_iterator(dir.path))
      count += e.path().extension() == ".safetensors";
    CHECK(count == files);
    auto store = tensor_store::open(dir.path);
    REQUIRE(store);
    CHECK(store->tensors().size() == 4);
    CHECK(store->metadata().at("format") == "pt");
    for (const auto& spec : specs) {
      const auto* t = store->find(spec.name);
      REQUIRE(t != nullptr);
      CHECK(t->shape == spec.shape);
      CHECK(t->bytes.back() == std::byte(spec.name[1]));
    }
  }
}

TEST_CASE("an index that lies is refused") {
  scratch dir;
  REQUIRE(write_atomic(dir / "a.safetensors",
                       file_of(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1)));
  auto open_with = [&](std::string_view index) {
    REQUIRE(write_atomic(dir / "model.safetensors.index.json", index));
    return tensor_store::open(dir.path);
  };
  CHECK(open_with(R"({"weight_map":{"x":"a.safetensors"}})"));
  for (auto index : {R"({"weight_map":{"x":"../a.safetensors"}})", R"({"weight_map":{"x":".."}})",
                     R"({"weight_map":{"x":"b.safetensors"}})", R"({"weight_map":{"x":7}})",
                     R"({"weight_map":{}})", R"({"weight_map":[]})", R"({})", R"({)",
                     R"({"weight_map":{"x":"a.safetensors","y":"a.safetensors"}})",
                     R"({"weight_map":{"y":"a.safetensors"}})"}) {
    CAPTURE(index);
    CHECK_FALSE(open_with(index));
  }
}

TEST_CASE("an empty folder says what it looked for") {
  scratch dir;
  auto store = tensor_store::open(dir.path);
  REQUIRE_FALSE(store);
  CHECK(store.error() == no_safetensors(dir.path.string()));
}

TEST_CASE("half and bfloat16 convert exactly, and float rounds to nearest even") {
  CHECK(f16_to_f32(0x3c00) == 1.0F);
  CHECK(f16_to_f32(0xc000) == -2.0F);
  CHECK(f16_to_f32(0x0001) == 0x1p-24F);
  CHECK(f16_to_f32(0x03ff) == 1023 * 0x1p-24F);
  CHECK(f16_to_f32(0x7bff) == 65504.0F);
  CHECK(std::signbit(f16_to_f32(0x8000)));
  CHECK(std::isinf(f16_to_f32(0x7c00)));
  CHECK(std::isnan(f16_to_f32(0x7e01)));
  CHECK(bf16_to_f32(0x3f80) == 1.0F);
  CHECK(f32_to_bf16(1.0F) == 0x3f80);
  CHECK(f32_to_bf16(1.0F + 0x1p-8F) == 0x3f80);            // a tie goes to even
  CHECK(f32_to_bf16(1.0F + 0x1p-7F + 0x1p-8F) == 0x3f82);  // a tie goes to even
  CHECK(f32_to_bf16(1.0F + 0x1.8p-8F) == 0x3f81);
  CHECK(f32_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(std::isnan(bf16_to_f32(f32_to_bf16(std::nanf("1")))));
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    auto b = static_cast<uint16_t>(bits);
    if (!std::isnan(bf16_to_f32(b))) CHECK(f32_to_bf16(bf16_to_f32(b)) == b);
  }
}

TEST_CASE("the oracle's folders open: one file, shards, bfloat16") {
  auto shared = shared_folder();
  if (shared.empty()) {
    MESSAGE("SKIPPED: no shared folder (TROUPE_SHARED)");
    return;
  }
  auto whole = tensor_store::open(shared / "oracle/llama_tiny");
  auto shards = tensor_store::open(shared / "oracle/llama_tiny_sharded");
  auto half = tensor_store::open(shared / "oracle/llama_tiny_bf16");
  REQUIRE(whole);
  REQUIRE(shards);
  REQUIRE(half);
  REQUIRE(whole->tensors().size() == shards->tensors().size());
  uint64_t parameters = 0;
  for (const auto& [name, view] : whole->tensors()) {
    parameters += view.elements();
    const auto* other = shards->find(name);
    REQUIRE(other != nullptr);
    CHECK(other->shape == view.shape);
    CHECK(std::memcmp(other->bytes.data(), view.bytes.data(), view.bytes.size()) == 0);
    std::vector<float> full(view.elements()), rounded(view.elements());
    REQUIRE(copy_as_f32(view, full));
    REQUIRE(copy_as_f32(*half->find(name), rounded));
    for (size_t i = 0; i < full.size(); ++i)
      REQUIRE(rounded[i] == bf16_to_f32(f32_to_bf16(full[i])));
  }
  CHECK(parameters == 124608);
}
