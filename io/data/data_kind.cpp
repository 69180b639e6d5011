// Magic numbers and names: see data_kind.hpp.
#include "io/data/data_kind.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>

#include "io/file.hpp"
#include "io/formats/byte_stream.hpp"

namespace troupe::io {

namespace fs = std::filesystem;

namespace {

using namespace std::string_view_literals;

constexpr auto mark_hint = "it is damaged, or its name is wrong"sv;
constexpr auto unpack_hint = "unpack it first"sv;
constexpr auto convert_hint =
    "write its text into plain files, or its tokens into a .bin of llm.c's format"sv;
constexpr auto json_hint = "data.path takes it, and a tokenizer with it"sv;
constexpr auto parquet_hint =
    "turn it into jsonl: `python3 -c \"import pandas, sys; "
    "pandas.read_parquet(sys.argv[1]).to_json("
    "sys.argv[2], orient='records', lines=True)\" FILE.parquet FILE.jsonl`"sv;
constexpr auto text_bin_hint = "rename it to .txt if it is meant to be read as text"sv;
constexpr auto text_hint =
    "data.path takes it, and a tokenizer with it; to make tokens of it: `troupe data prepare`"sv;
constexpr auto columns_hint =
    "turn it into jsonl: `python3 -c \"import pandas, sys; "
    "pandas.read_csv(sys.argv[1], sep=None, engine='python').to_json("
    "sys.argv[2], orient='records', lines=True)\" FILE FILE.jsonl`; or, to train on it as it "
    "stands, commas and all: data.format = \"text\" (`troupe data prepare --any-text`)"sv;
constexpr auto markup_hint =
    "write its text without the markup into a .txt; or, to train on it as it stands, tags and all: "
    "data.format = \"text\" (`troupe data prepare --any-text`)"sv;
constexpr auto utf16_hint = "convert it: `iconv -f UTF-16 -t UTF-8 FILE > FILE.txt`"sv;
constexpr auto utf32_hint = "convert it: `iconv -f UTF-32 -t UTF-8 FILE > FILE.txt`"sv;
constexpr auto zeros_hint =
    "text has no zero bytes (UTF-16 has: `iconv -f UTF-16LE -t UTF-8` makes text of it); tokens "
    "without a header need data.format = \"nanogpt\""sv;
constexpr auto llmc_hint = "data.path takes llm.c's token files (magic 20240520 or 20240801)"sv;

struct mark {
  std::string_view bytes;
  std::string_view what;
  std::string_view hint;
};

/// How formats that are not read begin.
constexpr std::array marks = {
    mark{"PAR1"sv, "Parquet", parquet_hint},
    mark{"\x1f\x8b\x08"sv, "gzip-compressed", unpack_hint},
    mark{"\x28\xb5\x2f\xfd"sv, "Zstandard-compressed", unpack_hint},
    mark{"\xfd"
         "7zXZ\0"sv,
         "xz-compressed", unpack_hint},
    mark{"BZh"sv, "bzip2-compressed", unpack_hint},
    mark{"\x04\x22\x4d\x18"sv, "LZ4-compressed", unpack_hint},
    mark{"PK\x03\x04"sv, "a ZIP archive", unpack_hint},
    mark{"TNTIDX\0"sv, "an index of Megatron's old form", convert_hint},
    mark{"ARROW1"sv, "Arrow", convert_hint},
    mark{"\x93NUMPY"sv, "a NumPy array", convert_hint},
    mark{"%PDF-"sv, "PDF", convert_hint},
    mark{"\xc6\xd7\x34\x01"sv, "a model of llm.c", llmc_hint},        // 20240326
    mark{"\xc7\xd7\x34\x01"sv, "a debug state of llm.c", llmc_hint},  // 20240327
    mark{"\xc8\xd7\x34\x01"sv, "a tokenizer of llm.c", llmc_hint},    // 20240328
};

/// Names that promise such a format (DKD-2).
constexpr std::array endings = {
    mark{".parquet", "Parquet", parquet_hint},
    mark{".arrow", "Arrow", convert_hint},
    mark{".gz", "named as gzip and has no mark of it", mark_hint},
    mark{".tgz", "named as gzip and has no mark of it", mark_hint},
    mark{".zst", "named as Zstandard and has no mark of it", mark_hint},
    mark{".xz", "xz-compressed", unpack_hint},
    mark{".bz2", "bzip2-compressed", unpack_hint},
    mark{".lz4", "LZ4-compressed", unpack_hint},
    mark{".zip", "a ZIP archive", unpack_hint},
    mark{".tar", "a tar archive", unpack_hint},
    mark{".npy", "a NumPy array", convert_hint},
    mark{".idx", "an index file", convert_hint},
    mark{".h5", "HDF5", convert_hint},
    mark{".pkl", "a pickle", convert_hint},
    mark{".pt", "PyTorch's", convert_hint},
    mark{".safetensors", "safetensors", "name a model's folder in model.path"},
};

/// Names of text that is more than its prose (DKD-5).
constexpr std::array marked_endings = {
    mark{".csv", "CSV", columns_hint},
    mark{".tsv", "TSV", columns_hint},
    mark{".html", "HTML", markup_hint},
    mark{".htm", "HTML", markup_hint},
};

std::string_view without_space(std::string_view text) {
  const auto at = text.find_first_not_of(" \t\r\n");
  return at == text.npos ? std::string_view{} : text.substr(at);
}

/// Whether the text begins like JSON records: an object, perhaps in an array, with a quoted key.
bool begins_as_json(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text = without_space(text);
  if (text.starts_with('[')) text = without_space(text.substr(1));
  if (!text.starts_with('{')) return false;
  text = without_space(text.substr(1));
  if (!text.starts_with('"')) return false;
  const auto end = text.find_first_of("\"\n", 1);
  if (end == text.npos || text[end] != '"') return false;
  return without_space(text.substr(end + 1)).starts_with(':');
}

/// So many bytes of a .bin that are all text are no tokens: both bytes of every id would have to be
/// letters.
constexpr size_t surely_text_bytes = 64;

bool all_text(std::string_view head) {
  return std::all_of(head.begin(), head.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return u == '\n' || u == '\r' || u == '\t' || (u >= 0x20 && u < 0x7f);
  });
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// The first bytes of what is packed.
result<std::string> unpacked_head(const fs::path& path) {
  TROUPE_TRY(stream, byte_stream::open(path));
  std::string head(data_probe_bytes, '\0');
  size_t have = 0;
  while (have < head.size()) {
    TROUPE_TRY(n, stream.read(std::span(head).subspan(have)));
    if (n == 0) break;
    have += n;
  }
  head.resize(have);
  return head;
}

/// DKD-4.
result<data_type> type_of_packed(const fs::path& path, packing how) {
  TROUPE_TRY(head, unpacked_head(path));
  auto inner = path.filename();
  if (const auto end = lower(inner.extension().string()); end == ".gz" || end == ".zst")
    inner.replace_extension();
  auto type = data_type_of(head, inner);
  if (is_text(type.kind) || type.kind == data_kind::json) return type;
  return data_type{data_kind::unsupported,
                   how == packing::gzip ? "gzip-compressed" : "Zstandard-compressed", unpack_hint};
}

}  // namespace

result<std::string> head_of(const fs::path& path) {
  TROUPE_TRY(fd, open_read(path));
  std::string head(data_probe_bytes, '\0');
  size_t have = 0;
  while (have < head.size()) {
    const ssize_t n = ::read(fd.get(), head.data() + have, head.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return error::system("read " + path.string(), errno);
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  head.resize(have);
  return head;
}

data_type data_type_of(std::string_view head, const fs::path& name) {
  for (const auto& m : marks)  // DKD-1
    if (head.starts_with(m.bytes)) return {data_kind::unsupported, m.what, m.hint};
  if (head.size() > 262 && head.substr(257, 5) == "ustar")
    return {data_kind::unsupported, "a tar archive", unpack_hint};
  if (head.starts_with("MMIDIDX"sv)) return {data_kind::megatron, "Megatron's index", {}};
  int32_t magic = 0;
  if (head.size() >= sizeof magic) std::memcpy(&magic, head.data(), sizeof magic);
  if (head.size() >= 1024 && (magic == 20240520 || magic == 20240801))
    return {data_kind::llmc_tokens, "tokens of llm.c", {}};
  const auto file = lower(name.filename().string());
  for (const auto& m : endings)  // DKD-2
    if (file.ends_with(m.bytes)) return {data_kind::unsupported, m.what, m.hint};
  const bool bin = file.ends_with(".bin");
  if (!bin && (head.starts_with("\xff\xfe\0\0"sv) || head.starts_with("\0\0\xfe\xff"sv)))
    return {data_kind::unsupported, "UTF-32 text", utf32_hint};
  if (!bin && (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff")))
    return {data_kind::unsupported, "UTF-16 text", utf16_hint};
  if (head.find('\0') != head.npos)
    return bin ? data_type{data_kind::raw_tokens, "bare uint16 tokens", {}}
               : data_type{data_kind::binary, "binary", zeros_hint};
  for (auto ending : {".json"sv, ".jsonl"sv, ".ndjson"sv})
    if (file.ends_with(ending)) return {data_kind::json, "JSON", json_hint};
  if (begins_as_json(head)) return {data_kind::json, "JSON", json_hint};
  for (const auto& m : marked_endings)
    if (file.ends_with(m.bytes)) return {data_kind::marked_text, m.what, m.hint};
  if (bin && !(head.size() >= surely_text_bytes && all_text(head)))
    return {data_kind::raw_tokens, "bare uint16 tokens", {}};
  return {data_kind::text, "text", bin ? text_bin_hint : text_hint};
}

result<data_type> data_type_of(const fs::path& path) {
  TROUPE_TRY(head, head_of(path));
  if (const auto how = packing_of(head); how != packing::none) return type_of_packed(path, how);
  auto type = data_type_of(head, path);
  if (type.kind != data_kind::raw_tokens) return type;
  auto index = path;
  std::error_code ignored;
  if (!fs::is_regular_file(index.replace_extension(".idx"), ignored)) return type;
  auto beside = head_of(index);
  if (beside && beside->starts_with("MMIDIDX"))  // DKD-3
    return data_type{data_kind::megatron, "Megatron's .bin of an .idx beside it", {}};
  return type;
}

}  // namespace troupe::io
