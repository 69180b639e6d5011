// Reading of safetensors: a SAX reader that accepts exactly the header's grammar, then the layout
// checks ST-1..ST-3, then the folder of shards.
#include "io/formats/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/formats/json_text.hpp"

namespace troupe::io {

namespace fs = std::filesystem;
using json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "files are little-endian, and so are we");

namespace {

constexpr uint64_t max_header_bytes = 100'000'000;
constexpr size_t max_index_bytes = 256 << 20;
constexpr size_t max_dimensions = 64;

struct dtype_facts {
  std::string_view name;
  size_t bytes;
};

constexpr std::array<dtype_facts, 15> dtypes = {{{"BOOL", 1},
                                                 {"U8", 1},
                                                 {"I8", 1},
                                                 {"F8_E5M2", 1},
                                                 {"F8_E4M3", 1},
                                                 {"I16", 2},
                                                 {"U16", 2},
                                                 {"F16", 2},
                                                 {"BF16", 2},
                                                 {"I32", 4},
                                                 {"U32", 4},
                                                 {"F32", 4},
                                                 {"F64", 8},
                                                 {"I64", 8},
                                                 {"U64", 8}}};

error bad(std::string text) {
  return {errc::bad_data, "safetensors: " + std::move(text)};
}

/// One tensor as the header tells it.
struct entry {
  std::string name;
  tensor_dtype type = tensor_dtype::f32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// Accepts the header's grammar and nothing else, so that no foreign JSON tree is built.
class header_reader : public nlohmann::json_sax<json> {
 public:
  std::vector<entry> entries;
  std::map<std::string, std::string> metadata;
  error fault;

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_float(double, const std::string&) override { return refuse("a fraction"); }
  bool number_integer(int64_t) override { return refuse("a negative number"); }
  bool binary(json::binary_t&) override { return refuse("binary"); }

  bool number_unsigned(uint64_t value) override {
    if (state_ == state::shape) {
      if (value > uint64_t{1} << 62 || entries.back().shape.size() == max_dimensions)
        return fail(safetensors_shape_wrong(tensor()));
      entries.back().shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (state_ != state::offsets || offsets_ == 2) return refuse("a number");
    (offsets_ == 0 ? entries.back().begin : entries.back().end) = value;
    ++offsets_;
    return true;
  }

  bool string(std::string& value) override {
    if (state_ == state::metadata)
      return metadata.emplace(key_, value).second || fail(safetensors_name_twice(tensor()));
    if (state_ != state::tensor || key_ != "dtype") return refuse("a text");
    auto type = tensor_dtype_of(value);
    if (!type) return fail(safetensors_unknown_type(tensor(), shown(value)));
    entries.back().type = *type;
    return true;
  }

  bool key(std::string& value) override {
    key_ = value;
    if (state_ == state::root) {
      if (!names_.insert(value).second) return fail(safetensors_name_twice(tensor()));
    } else if (state_ == state::tensor) {
      uint32_t bit = value == "dtype" ? 1 : value == "shape" ? 2 : value == "data_offsets" ? 4 : 0;
      if (bit == 0 || (seen_ & bit) != 0) return refuse(fmt::format("key \"{}\"", shown(value)));
      seen_ |= bit;
    }
    return true;
  }

  bool start_object(size_t) override {
    if (state_ == state::before) {
      state_ = state::root;
    } else if (state_ == state::root && key_ == "__metadata__") {
      state_ = state::metadata;
    } else if (state_ == state::root) {
      state_ = state::tensor;
      seen_ = 0;
      offsets_ = 0;
      entries.push_back({.name = key_, .type = {}, .shape = {}});
    } else {
      return refuse("an object");
    }
    return true;
  }

  bool end_object() override {
    if (state_ == state::tensor && (seen_ != 7 || offsets_ != 2))
      return fail(safetensors_key_missing(tensor()));
    state_ = state_ == state::root ? state::after : state::root;
    return true;
  }

  bool start_array(size_t) override {
    if (state_ != state::tensor || key_ == "dtype") return refuse("an array");
    state_ = key_ == "shape" ? state::shape : state::offsets;
    return true;
  }

  bool end_array() override {
    state_ = state::tensor;
    return true;
  }

  bool parse_error(size_t, const std::string&, const json::exception& e) override {
    return fail(safetensors_no_json(e.what()));
  }

 private:
  enum class state { before, root, metadata, tensor, shape, offsets, after };

  std::string tensor() const {
    return shown(state_ == state::root || entries.empty() ? key_ : entries.back().name);
  }
  bool fail(error why) {
    fault = std::move(why);
    return false;
  }
  bool refuse(std::string_view what) { return fail(safetensors_unexpected(tensor(), what)); }

  state state_ = state::before;
  std::string key_;
  std::set<std::string, std::less<>> names_;
  uint32_t seen_ = 0;
  int offsets_ = 0;
};

/// ST-2 and ST-3.
status check_layout(std::vector<entry>& entries, uint64_t data_bytes) {
  for (const auto& e : entries) {
    auto expected = byte_size(e.type, e.shape);
    if (!expected) return safetensors_shape_wrong(shown(e.name));
    if (e.begin > e.end || e.end > data_bytes)
      return safetensors_outside(shown(e.name), e.begin, e.end, data_bytes);
    if (e.end - e.begin != *expected)
      return safetensors_size_wrong(shown(e.name), e.end - e.begin, *expected);
  }
  std::sort(entries.begin(), entries.end(), [](const entry& a, const entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t at = 0;
  for (const auto& e : entries) {
    if (e.begin != at) return safetensors_misplaced(shown(e.name), e.begin, at);
    at = e.end;
  }
  if (at != data_bytes) return safetensors_not_filled(data_bytes, at);
  return {};
}

}  // namespace

size_t size_of(tensor_dtype type) noexcept {
  return dtypes[static_cast<size_t>(type)].bytes;
}

std::string_view to_string(tensor_dtype type) noexcept {
  return dtypes[static_cast<size_t>(type)].name;
}

std::optional<tensor_dtype> tensor_dtype_of(std::string_view name) noexcept {
  for (size_t i = 0; i < dtypes.size(); ++i)
    if (dtypes[i].name == name) return static_cast<tensor_dtype>(i);
  return std::nullopt;
}

std::optional<uint64_t> byte_size(tensor_dtype type, std::span<const int64_t> shape) noexcept {
  constexpr uint64_t limit = uint64_t{1} << 62;
  uint64_t product = size_of(type);
  bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    if (empty) continue;
    if (product > limit / static_cast<uint64_t>(dimension)) return std::nullopt;
    product *= static_cast<uint64_t>(dimension);
  }
  return empty ? 0 : product;
}

result<safetensors_content> parse_safetensors(std::span<const std::byte> file) {
  uint64_t header = 0;
  if (file.size() < sizeof header) return bad("shorter than its header's length");
  std::memcpy(&header, file.data(), sizeof header);
  if (header > max_header_bytes)  // ST-1
    return bad(fmt::format("a header of {} bytes, more than {}", header, max_header_bytes));
  if (header > file.size() - sizeof header)
    return bad(fmt::format("a header of {} bytes in a file of {}", header, file.size()));
  const auto* text = reinterpret_cast<const char*>(file.data()) + sizeof header;
  if (header == 0 || text[0] != '{') return safetensors_no_object();
  header_reader reader;
  if (!json::sax_parse(text, text + header, &reader)) return reader.fault;
  auto data = file.subspan(sizeof header + header);
  TROUPE_CHECK(check_layout(reader.entries, data.size()));
  safetensors_content content;
  content.metadata = std::move(reader.metadata);
  for (auto& e : reader.entries)
    content.tensors.emplace(std::move(e.name), tensor_view{e.type, std::move(e.shape),
                                                           data.subspan(e.begin, e.end - e.begin)});
  return content;
}

// -- tensor_store -----------------------------------------------------------------------------

namespace {

/// tensor name -> file name, from an index's text. Foreign bytes.
result<std::map<std::string, std::string>> parse_index(std::string_view text) {
  TROUPE_TRY(index, parse_json(text));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    return bad("the index has no object \"weight_map\"");
  std::map<std::string, std::string> names;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string())
      return bad(fmt::format("the index gives no file for \"{}\"", shown(name)));
    auto text_of_file = file.get<std::string>();
    bool plain = !text_of_file.empty() && text_of_file != "." && text_of_file != ".." &&
                 text_of_file.find('/') == std::string::npos &&
                 text_of_file.find('\0') == std::string::npos;
    if (!plain)
      return bad(
          fmt::format("the index names a file outside its folder: \"{}\"", shown(text_of_file)));
    names.emplace(name, std::move(text_of_file));
  }
  if (names.empty()) return bad("the index names no tensor");
  return names;
}

struct opened_file {
  std::shared_ptr<const mapped_file> map;
  safetensors_content content;
};

result<opened_file> open_one(const fs::path& path) {
  TROUPE_TRY(map, mapped_file::open(path));
  auto content = parse_safetensors(map->bytes());
  if (!content) return content.error().within(path.string());
  return opened_file{std::move(map), std::move(*content)};
}

}  // namespace

result<tensor_store> tensor_store::open(const fs::path& path) {
  std::error_code ignored;
  auto file = path;
  if (fs::is_directory(path, ignored)) {
    file = path / "model.safetensors";
    if (!fs::exists(file, ignored)) file = path / "model.safetensors.index.json";
    if (!fs::exists(file, ignored)) return no_safetensors(path.string());
  }
  tensor_store store;
  if (file.extension() != ".json") {
    TROUPE_TRY(one, open_one(file));
    store.files_.push_back(std::move(one.map));
    store.tensors_ = std::move(one.content.tensors);
    store.metadata_ = std::move(one.content.metadata);
    return store;
  }
  TROUPE_TRY(text, read_file(file, max_index_bytes));
  auto names = parse_index(text);
  if (!names) return names.error().within(file.string());
  std::set<std::string> shards;
  for (const auto& [name, shard] : *names) shards.insert(shard);
  for (const auto& shard : shards) {
    TROUPE_TRY(one, open_one(file.parent_path() / shard));
    if (store.files_.empty()) store.metadata_ = one.content.metadata;
    store.files_.push_back(std::move(one.map));
    for (auto& [name, view] : one.content.tensors) {
      auto listed = names->find(name);
      if (listed == names->end() || listed->second != shard)
        return bad(fmt::format("{} holds \"{}\", which the index does not place there", shard,
                               shown(name)));
      store.tensors_.emplace(name, std::move(view));
    }
  }
  for (const auto& [name, shard] : *names)
    if (!store.find(name))
      return bad(fmt::format("the index places \"{}\" in {}, which lacks it", shown(name), shard));
  return store;
}

const tensor_view* tensor_store::find(std::string_view name) const noexcept {
  auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

// -- conversions ------------------------------------------------------------------------------

float bf16_to_f32(uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t f32_to_bf16(float value) noexcept {
  auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float f16_to_f32(uint16_t bits) noexcept {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 31;
  uint32_t fraction = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

namespace {

template <class Stored, class Convert>
void convert_all(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    out[i] = convert(value);
  }
}

}  // namespace

status copy_as_f32(const tensor_view& tensor, std::span<float> out) {
  assert(out.size() == tensor.elements());
  switch (tensor.type) {
    case tensor_dtype::f32:
      if (!out.empty()) std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
      return {};
    case tensor_dtype::f64:
      convert_all<double>(tensor.bytes, out, [](double v) { return static_cast<float>(v); });
      return {};
    case tensor_dtype::f16:
      convert_all<uint16_t>(tensor.bytes, out, f16_to_f32);
      return {};
    case tensor_dtype::bf16:
      convert_all<uint16_t>(tensor.bytes, out, bf16_to_f32);
      return {};
    default:
      return bad(fmt::format("{} cannot be read as float", to_string(tensor.type)));
  }
}

}  // namespace troupe::io
