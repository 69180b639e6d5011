// Token files: see token_file.hpp.
#include "io/data/token_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "io/data/data_files.hpp"
#include "io/data/data_kind.hpp"
#include "io/data/megatron_index.hpp"
#include "io/data/shard_writer.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "files are little-endian, and so are we");

namespace {

constexpr size_t header_words = 256;
constexpr size_t header_bytes = header_words * 4;

struct llmc_kind {
  int32_t magic;
  int32_t version;
  int width;
};

constexpr std::array<llmc_kind, 2> llmc_kinds = {{{20240520, 1, 2}, {20240801, 7, 4}}};

std::optional<llmc_kind> kind_of(std::span<const std::byte> bytes) {
  if (bytes.size() < header_bytes) return std::nullopt;
  int32_t magic = 0;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  for (const auto& kind : llmc_kinds)
    if (kind.magic == magic) return kind;
  return std::nullopt;
}

error bad(const fs::path& path, std::string text, std::string hint = {}) {
  return {errc::bad_data, fmt::format("{}: {}", path.string(), text), std::move(hint)};
}

/// A token as it is stored; one that is no uint32 as the largest of them.
template <class Stored>
uint32_t stored_token(const std::byte* at) {
  Stored value;
  std::memcpy(&value, at, sizeof value);
  return std::in_range<uint32_t>(value) ? static_cast<uint32_t>(value)
                                        : std::numeric_limits<uint32_t>::max();
}

/// Calls `of` with a value of the type that tokens are stored as.
template <class Function>
auto as_stored(token_type type, Function&& of) {
  switch (type) {
    case token_type::u8:
      return of(uint8_t{});
    case token_type::i8:
      return of(int8_t{});
    case token_type::i16:
      return of(int16_t{});
    case token_type::i32:
      return of(int32_t{});
    case token_type::i64:
      return of(int64_t{});
    case token_type::u16:
      return of(uint16_t{});
    default:
      return of(uint32_t{});
  }
}

}  // namespace

int bytes_of(token_type type) noexcept {
  return as_stored(type, [](auto value) { return static_cast<int>(sizeof value); });
}

/// The pair by its index; MGX-1 makes TOK-1 of it.
result<token_file> token_file::open_megatron(const fs::path& index_path) {
  TROUPE_TRY(index_map, mapped_file::open(index_path));
  TROUPE_TRY(index, parse_megatron_index(index_map->bytes(), index_path.string()));
  auto path = index_path;
  path.replace_extension(".bin");
  TROUPE_TRY(map, mapped_file::open(path));
  const auto bytes = map->bytes();
  const auto width = static_cast<uint64_t>(bytes_of(index.type));
  if (index.tokens > bytes.size() / width || index.tokens * width != bytes.size())
    return bad(path, fmt::format("the index says {} tokens of {} bytes, the file has {} bytes",
                                 index.tokens, width, bytes.size()));
  token_file out(std::move(map), bytes.data(), index.tokens, index.type);
  out.documents_ = index.document_ends.size();
  std::map<uint32_t, uint64_t> last;
  uint64_t begun = 0, most = 0;
  map_scan scan(*out.map_);
  for (const auto end : index.document_ends) {
    if (end > begun) most = std::max(most, ++last[out.token(end - 1)]);
    begun = end;
    scan.passed(end * width);
  }
  out.parted_ = most;
  return out;
}

std::string_view token_file::format_name() const noexcept {
  if (parted_) return "megatron";
  return tokens_ == map_->bytes().data() ? "nanogpt" : "llmc";
}

result<token_file> token_file::open(const fs::path& path, token_format format) {
  if (format == token_format::automatic)
    if (const auto index = megatron_index_of(path); !index.empty()) return open_megatron(index);
  TROUPE_TRY(type, data_type_of(path));  // TOK-3
  const bool demanded = format == token_format::nanogpt;
  if (type.kind == data_kind::megatron)
    return unexpected_data(path.string(), type.what, "a token file of llm.c or nanoGPT",
                           "data.format = \"auto\" reads it");
  if (type.kind == data_kind::unsupported ||
      (format == token_format::automatic && type.kind != data_kind::llmc_tokens &&
       type.kind != data_kind::raw_tokens))
    return unexpected_data(path.string(), type.what, "a token file of llm.c or nanoGPT", type.hint);
  TROUPE_TRY(map, mapped_file::open(path));
  auto bytes = map->bytes();
  auto kind = kind_of(bytes);
  if (format == token_format::llmc && !kind)
    return bad(path, "does not begin with llm.c's header (magic 20240520 or 20240801)",
               "a file of bare uint16 tokens has the format \"nanogpt\"");
  if (demanded || !kind) {
    if (bytes.size() % 2 != 0)
      return bad(path,
                 fmt::format("{} bytes are not a whole number of uint16 tokens", bytes.size()));
    return token_file(std::move(map), bytes.data(), bytes.size() / 2, token_type::u16);
  }
  int32_t version = 0;
  int32_t count = 0;
  std::memcpy(&version, bytes.data() + 4, sizeof version);
  std::memcpy(&count, bytes.data() + 8, sizeof count);
  if (version != kind->version)
    return bad(path, fmt::format("version {} of magic {}, expected {}", version, kind->magic,
                                 kind->version));
  uint64_t present = bytes.size() - header_bytes;
  auto width = static_cast<uint64_t>(kind->width);
  if (count < 0 || present != static_cast<uint64_t>(count) * width)  // TOK-1
    return bad(path,
               fmt::format("the header says {} tokens of {} bytes, the file has {} bytes of them",
                           count, width, present));
  return token_file(std::move(map), bytes.data() + header_bytes, static_cast<uint64_t>(count),
                    kind->width == 2 ? token_type::u16 : token_type::u32);
}

uint32_t token_file::token(uint64_t i) const noexcept {
  assert(i < size_);
  return as_stored(type_, [&]<class Stored>(Stored) {
    return stored_token<Stored>(tokens_ + i * sizeof(Stored));
  });
}

void token_file::copy(uint64_t first, uint64_t count, int32_t* out) const noexcept {
  assert(first <= size_ && count <= size_ - first);
  as_stored(type_, [&]<class Stored>(Stored) {
    const auto* from = tokens_ + first * sizeof(Stored);
    for (uint64_t i = 0; i < count; ++i)
      out[i] = static_cast<int32_t>(stored_token<Stored>(from + i * sizeof(Stored)));
  });
}

status token_file::check_vocabulary(uint32_t vocab) const {
  TROUPE_CHECK(check_and_count(vocab, 0));
  return {};
}

result<uint64_t> token_file::check_and_count(uint32_t vocab, int32_t counted) const {
  uint64_t found = 0;
  map_scan scan(*map_);
  const auto header = static_cast<uint64_t>(tokens_ - map_->bytes().data());
  std::array<int32_t, 4096> piece{};
  for (uint64_t first = 0; first < size_; first += piece.size()) {
    scan.passed(header + first * static_cast<uint64_t>(token_bytes()));
    auto count = std::min<uint64_t>(piece.size(), size_ - first);
    copy(first, count, piece.data());
    uint32_t largest = 0;
    for (uint64_t i = 0; i < count; ++i)
      largest = std::max(largest, static_cast<uint32_t>(piece[i]));
    found += static_cast<uint64_t>(
        std::count(piece.begin(), piece.begin() + static_cast<ptrdiff_t>(count), counted));
    if (largest < vocab) continue;
    for (uint64_t i = 0; i < count; ++i) {
      auto id = static_cast<uint32_t>(piece[i]);
      if (id >= vocab)
        return bad(path(),
                   fmt::format("token {} is {}, but the vocabulary has {}", first + i, id, vocab),
                   "the file was made with another tokenizer, or model.vocab is too small");
    }
  }
  return found;
}

/// Megatron writes an end of text behind each document only where it is asked to (--append-eod).
void token_file::doubt_documents(std::vector<std::string>& doubts) const {
  if (documents_ > 1 && parted_ && *parted_ * 2 < documents_)
    doubts.push_back(
        fmt::format("its {} documents do not end in one token: each runs on into the next "
                    "(preprocess_data.py --append-eod parts them)",
                    documents_));
}

std::vector<std::string> token_file::doubts() const {
  constexpr uint64_t looked_at = 65536;
  constexpr uint64_t enough = 16;
  std::vector<std::string> out;
  doubt_documents(out);
  const uint64_t count = std::min(size_, looked_at);
  if (count < enough) return out;
  if (type_ == token_type::u16 && tokens_ == map_->bytes().data() && kind_of(map_->bytes()))
    out.push_back("it begins with llm.c's header, which is read as tokens");
  std::array<uint64_t, 2> zeros{};
  std::array<int32_t, 512> piece{};
  for (uint64_t first = 0; first < count; first += piece.size()) {
    const auto some = std::min<uint64_t>(piece.size(), count - first);
    copy(first, some, piece.data());
    for (uint64_t i = 0; i < some; ++i) zeros[i % 2] += piece[i] == 0;
  }
  const uint64_t odd = count / 2, even = count - odd;
  if (zeros[0] == even && zeros[1] == odd)
    out.push_back(fmt::format("its first {} tokens are all 0", count));
  else if (type_ == token_type::u16 && zeros[1] == odd)
    out.push_back("every second token is 0: it looks like uint32 or int32 read as uint16");
  const std::string_view text(
      reinterpret_cast<const char*>(tokens_),
      std::min<uint64_t>(count * static_cast<uint64_t>(token_bytes()), 4096));
  const bool letters = std::all_of(text.begin(), text.end(), [](char c) {
    return c == '\n' || c == '\r' || c == '\t' || (c >= ' ' && c <= '~');
  });
  if (letters) out.push_back("all its bytes are letters: it looks like text");
  return out;
}

bool looks_like_token_file(const fs::path& path) noexcept {
  try {
    auto map = mapped_file::open(path);
    return map && kind_of((*map)->bytes()).has_value();
  } catch (const std::exception&) {
    return false;
  }
}

// -- token_files

status token_files::add(const fs::path& path, token_format format) {
  TROUPE_TRY(file, token_file::open(path, format));
  // Both files of a pair may be found.
  const bool again = path.extension() == ".idx" &&
                     std::any_of(files_.begin(), files_.end(), [&](const token_file& other) {
                       return other.path() == file.path();
                     });
  if (again) return {};
  ends_.push_back(size() + file.size());
  files_.push_back(std::move(file));
  return {};
}

status token_files::add_folder(const fs::path& folder, const std::vector<fs::path>& found,
                               token_format format) {
  std::vector<fs::path> tokens;
  std::optional<fs::path> text;
  for (const auto& path : found) {
    const auto type = data_type_of(path);
    const auto kind = type ? type->kind : data_kind::binary;
    if (path.extension() == ".idx" && !megatron_index_of(path).empty()) continue;  // of its .bin
    if (is_text(kind) || kind == data_kind::json) text = path;
    if (kind == data_kind::llmc_tokens || kind == data_kind::raw_tokens ||
        kind == data_kind::megatron)
      tokens.push_back(path);
    else
      passed_over_.push_back(path);
  }
  if (tokens.empty())
    return bad(folder, "no token file was found in this folder",
               "name files of llm.c, nanoGPT or Megatron (.bin), or folders that hold some");
  if (text && format == token_format::automatic)
    return tokens_and_text(folder.string(), tokens.front().filename().string(),
                           text->filename().string());
  TROUPE_CHECK(check_one_split(folder, tokens));
  TROUPE_CHECK(check_whole_shards(tokens));
  for (const auto& path : tokens) TROUPE_CHECK(add(path, format));
  return {};
}

result<token_files> token_files::open(std::span<const fs::path> paths, token_format format) {
  token_files all;
  for (const auto& path : paths) {
    if (format == token_format::automatic && !megatron_index_of(path).empty()) {
      TROUPE_CHECK(all.add(path, format));
      continue;
    }
    TROUPE_TRY(found, data_files_of(path));
    if (found.of_folder) {
      TROUPE_CHECK(all.add_folder(path, found.files, format));
      continue;
    }
    for (const auto& file : found.files)
      if (const auto added = all.add(file, format); !added)
        return of_data_name(file, added.error());
  }
  return all;
}

size_t token_files::file_of(uint64_t i) const noexcept {
  return static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
}

void token_files::copy(uint64_t first, uint64_t count, int32_t* out) const noexcept {
  assert(first <= size() && count <= size() - first);
  for (size_t f = file_of(first); count > 0; ++f) {
    uint64_t at = first - (ends_[f] - files_[f].size());
    uint64_t piece = std::min(count, files_[f].size() - at);
    files_[f].copy(at, piece, out);
    first += piece;
    out += piece;
    count -= piece;
  }
}

status token_files::check_vocabulary(uint32_t vocab) const {
  TROUPE_CHECK(check_and_count(vocab, 0));
  return {};
}

result<uint64_t> token_files::check_and_count(uint32_t vocab, int32_t counted) const {
  uint64_t sum = 0;
  for (const auto& file : files_) {
    TROUPE_TRY(found, file.check_and_count(vocab, counted));
    sum += found;
  }
  return sum;
}

// -- token_file_writer

result<token_file_writer> token_file_writer::create(const fs::path& path, uint32_t vocab) {
  TROUPE_TRY(file, atomic_file::create(path));
  token_file_writer writer(std::move(file), vocab);
  std::array<int32_t, header_words> header{};
  const auto& kind = writer.width_ == 2 ? llmc_kinds[0] : llmc_kinds[1];
  header[0] = kind.magic;
  header[1] = kind.version;
  TROUPE_CHECK(writer.file_.write(std::as_bytes(std::span(header))));
  return writer;
}

status token_file_writer::append(std::span<const int32_t> ids) {
  if (ids.size() > max_llmc_tokens - count_)
    return error{errc::bad_data, "more than 2^31 - 1 tokens, which is llm.c's limit for one file",
                 "split the text into several .bin files and list them all in data.path"};
  std::array<std::byte, 8192> piece;
  while (!ids.empty()) {
    auto part = ids.first(std::min(ids.size(), piece.size() / 4));
    auto* to = piece.data();
    for (int32_t id : part) {
      if (id < 0 || static_cast<uint32_t>(id) >= vocab_)
        return error{errc::bug, fmt::format("token {} outside the vocabulary of {}", id, vocab_)};
      std::memcpy(to, &id, static_cast<size_t>(width_));  // little-endian: the low bytes
      to += width_;
    }
    TROUPE_CHECK(file_.write({piece.data(), static_cast<size_t>(to - piece.data())}));
    count_ += part.size();
    ids = ids.subspan(part.size());
  }
  return {};
}

status token_file_writer::finish() {
  auto count = static_cast<int32_t>(count_);
  TROUPE_CHECK(file_.overwrite(8, {reinterpret_cast<const std::byte*>(&count), sizeof count}));
  return file_.commit();
}

}  // namespace troupe::io
