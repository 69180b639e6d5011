// Token files of llm.c and nanoGPT: detection, sizes that lie, round trips, several files as one.
#include "io/data/token_file.hpp"

#include <cstring>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/data/data_files.hpp"
#include "io/data/data_kind.hpp"
#include "tests/errors.hpp"
#include "tests/io/map_pages.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

std::string llmc(int32_t magic, int32_t version, int32_t count, size_t data_bytes) {
  std::string out(1024 + data_bytes, '\2');
  int32_t header[3] = {magic, version, count};
  std::memcpy(out.data(), header, sizeof header);
  return out;
}

std::vector<int32_t> all_of(const token_file& file) {
  std::vector<int32_t> ids(file.size());
  file.copy(0, file.size(), ids.data());
  return ids;
}

}  // namespace

TEST_CASE("what the writer wrote reads back, as uint16 and as uint32") {
  for (auto [vocab, width] : {std::pair{65536U, 2}, {65537U, 4}}) {
    scratch dir;
    std::vector<int32_t> ids(10000);
    for (size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<int32_t>((i * 2654435761U) % vocab);
    auto writer = token_file_writer::create(dir / "t.bin", vocab);
    REQUIRE(writer);
    REQUIRE(writer->append(std::span(ids).first(7)));
    REQUIRE(writer->append(std::span(ids).subspan(7)));
    CHECK_FALSE(std::filesystem::exists(dir / "t.bin"));
    REQUIRE(writer->finish());
    auto file = token_file::open(dir / "t.bin");
    REQUIRE(file);
    CHECK(file->token_bytes() == width);
    CHECK(all_of(*file) == ids);
    CHECK(file->token(9999) == static_cast<uint32_t>(ids[9999]));
    CHECK(looks_like_token_file(dir / "t.bin"));
    CHECK(file->check_vocabulary(vocab));
    auto largest = static_cast<uint32_t>(*std::max_element(ids.begin(), ids.end()));
    CHECK(file->check_vocabulary(largest + 1));
    CHECK_FALSE(file->check_vocabulary(largest));
  }
}

TEST_CASE("a check of the ids counts one of them in all files, wherever it is") {
  scratch dir;
  std::vector<int32_t> ids(10000, 3);
  ids.front() = 7;
  ids.back() = 7;  // behind the first piece that is read
  for (const auto* name : {"a.bin", "b.bin"}) {
    auto writer = token_file_writer::create(dir / name, 100);
    REQUIRE(writer);
    REQUIRE(writer->append(ids));
    REQUIRE(writer->finish());
  }
  const std::vector<std::filesystem::path> both{dir / "a.bin", dir / "b.bin"};
  const auto files = token_files::open(both);
  REQUIRE(files);
  const auto count_of = [&](int32_t id) {
    const auto found = files->check_and_count(100, id);
    REQUIRE(found);
    return *found;
  };
  CHECK(count_of(7) == 4);
  CHECK(count_of(3) == 19'996);
  CHECK(count_of(0) == 0);  // nothing behind the last token is counted
  CHECK_FALSE(files->check_and_count(7, 7));
}

TEST_CASE("a check of the ids keeps none of the file in the process' memory") {
  constexpr uint32_t count = 16'000'000;
  scratch dir;
  REQUIRE(write_atomic(dir / "t.bin", llmc(20240520, 1, count, 2 * size_t{count})));
  auto file = token_file::open(dir / "t.bin");
  REQUIRE(file);
  CHECK(file->token(count - 1) == 0x0202);
  CHECK(map_pages_of(dir / "t.bin").resident_bytes > 0);
  const bool forgot = forget_peak();
  const auto before = peak_bytes();
  CHECK(file->check_vocabulary(0x0203));
  if (forgot)
    CHECK(peak_bytes() < before + count);  // half of the file
  else
    MESSAGE("SKIPPED: this kernel keeps the peak of a process' memory");
  CHECK(map_pages_of(dir / "t.bin").maps == 1);
  CHECK(map_pages_of(dir / "t.bin").resident_bytes == 0);
  CHECK_FALSE(file->check_vocabulary(0x0202));
  CHECK(map_pages_of(dir / "t.bin").resident_bytes == 0);
}

TEST_CASE("the writer refuses ids outside the vocabulary") {
  scratch dir;
  auto writer = token_file_writer::create(dir / "t.bin", 100);
  REQUIRE(writer);
  for (int32_t id : {-1, 100}) CHECK(writer->append(std::span(&id, 1)).error().code == errc::bug);
}

TEST_CASE("TOK-1 a header that lies is refused") {
  scratch dir;
  auto opens = [&](const std::string& bytes, token_format format = token_format::automatic) {
    REQUIRE(write_atomic(dir / "t.bin", bytes));
    return token_file::open(dir / "t.bin", format).has_value();
  };
  CHECK(opens(llmc(20240520, 1, 5, 10)));
  CHECK(opens(llmc(20240801, 7, 5, 20)));
  CHECK(opens(llmc(20240520, 1, 0, 0)));
  CHECK_FALSE(opens(llmc(20240520, 1, 5, 9)));
  CHECK_FALSE(opens(llmc(20240520, 1, 5, 12)));
  CHECK_FALSE(opens(llmc(20240520, 7, 5, 10)));
  CHECK_FALSE(opens(llmc(20240801, 1, 5, 20)));
  CHECK_FALSE(opens(llmc(20240801, 7, 5, 10)));
  CHECK_FALSE(opens(llmc(20240520, 1, -1, 10)));
  CHECK_FALSE(opens(llmc(20240801, 7, 0x7fffffff, 20)));
  CHECK_FALSE(opens("abc"));
  CHECK(opens("abcd"));
  CHECK_FALSE(opens("abcd", token_format::llmc));
  CHECK(opens(llmc(20240520, 1, 5, 9) + "x", token_format::nanogpt));
}

TEST_CASE("a raw uint16 file is nanoGPT's") {
  scratch dir;
  REQUIRE(write_atomic(dir / "t.bin", std::string("\x01\x00\xff\xff", 4)));
  auto file = token_file::open(dir / "t.bin");
  REQUIRE(file);
  CHECK(all_of(*file) == std::vector<int32_t>{1, 65535});
  CHECK_FALSE(looks_like_token_file(dir / "t.bin"));
  CHECK_FALSE(looks_like_token_file(dir / "none"));
}

TEST_CASE("TOK-3 what is known to be something else is not read as tokens") {
  scratch dir;
  auto refused = [&](const std::string& name, const std::string& bytes, token_format format) {
    REQUIRE(write_atomic(dir / name, bytes));
    auto file = token_file::open(dir / name, format);
    return file ? error() : file.error();
  };
  const std::string tokens("\x01\x02\x00\x04", 4);
  const std::string text(64, 'a');
  for (auto format : {token_format::automatic, token_format::nanogpt}) {
    CHECK(is_error(refused("a.bin", "PAR1" + tokens, format), unexpected_data, "Parquet"));
    CHECK(is_error(refused("b.bin", std::string("PK\x03\x04", 4), format), unexpected_data, "ZIP"));
    CHECK(is_error(refused("c.bin", llmc(20240326, 3, 5, 10), format), unexpected_data, "model",
                   "llm.c"));
    CHECK(is_error(refused("d.parquet", tokens, format), unexpected_data, "Parquet"));
  }
  REQUIRE(write_atomic(dir / "pair.idx", std::string("MMIDIDX\0\0", 9)));
  CHECK(is_error(refused("pair.bin", tokens, token_format::nanogpt), unexpected_data, "Megatron"));
  CHECK(refused("pair.bin", tokens, token_format::automatic).code == errc::bad_data);
  REQUIRE(write_atomic(dir / "other.idx", "another index"));
  CHECK(refused("other.bin", tokens, token_format::automatic) == error());
  CHECK(is_error(refused("t.bin", text, token_format::automatic), unexpected_data, "text"));
  CHECK(refused("t.bin", text, token_format::nanogpt) == error());
  CHECK(is_error(refused("noname", tokens, token_format::automatic), unexpected_data, "binary"));
  CHECK(refused("noname", tokens, token_format::nanogpt) == error());
  CHECK(is_error(refused("j.txt", "{\"a\":1}", token_format::automatic), unexpected_data, "JSON"));
}

TEST_CASE("TOK-3 tokens that look like something else are doubted, others are not") {
  scratch dir;
  auto doubts = [&](const std::string& bytes, token_format format = token_format::nanogpt) {
    REQUIRE(write_atomic(dir / "t.bin", bytes));
    auto file = token_file::open(dir / "t.bin", format);
    REQUIRE(file);
    std::string all;
    for (const auto& d : file->doubts()) all += d + "\n";
    return all;
  };
  std::string good, wide;
  for (int i = 0; i < 500; ++i) {
    const auto id = static_cast<uint32_t>(i * 7919 % 50257);
    good.append(reinterpret_cast<const char*>(&id), 2);
    wide.append(reinterpret_cast<const char*>(&id), 4);
  }
  CHECK(doubts(good).empty());
  CHECK(doubts(wide).find("every second token is 0") != std::string::npos);
  CHECK(doubts(std::string(400, '\0')).find("are all 0") != std::string::npos);
  CHECK(doubts(std::string(400, 'a')).find("looks like text") != std::string::npos);
  CHECK(doubts(llmc(20240520, 1, 5, 10)).find("llm.c's header") != std::string::npos);
  CHECK(doubts(llmc(20240520, 1, 100, 200), token_format::llmc).empty());
  CHECK(doubts("abcd").empty());
}

TEST_CASE("several files read as one, across their borders") {
  scratch dir;
  std::vector<std::filesystem::path> paths;
  std::vector<int32_t> expected;
  int32_t next = 0;
  for (size_t count : {3U, 0U, 1U, 5U}) {
    paths.push_back(dir / std::to_string(paths.size()));
    auto writer = token_file_writer::create(paths.back(), 100);
    REQUIRE(writer);
    for (size_t i = 0; i < count; ++i, ++next) {
      REQUIRE(writer->append(std::span(&next, 1)));
      expected.push_back(next);
    }
    REQUIRE(writer->finish());
  }
  auto all = token_files::open(paths);
  REQUIRE(all);
  REQUIRE(all->size() == expected.size());
  for (uint64_t first = 0; first <= all->size(); ++first)
    for (uint64_t count = 0; count <= all->size() - first; ++count) {
      std::vector<int32_t> out(count);
      all->copy(first, count, out.data());
      CHECK(std::equal(out.begin(), out.end(), expected.begin() + static_cast<ptrdiff_t>(first)));
    }
}

TEST_CASE("the oracle's token files hold tokens.json, in both formats") {
  auto shared = shared_folder();
  if (shared.empty()) {
    MESSAGE("SKIPPED: no shared folder (TROUPE_SHARED)");
    return;
  }
  auto folder = shared / "oracle/gpt2_tiny";
  auto expected = nlohmann::json::parse(*read_file(folder / "tokens.json", 1 << 20))
                      .get<std::vector<int32_t>>();
  REQUIRE(expected.size() == 2561);
  for (const char* name : {"tokens_u16.bin", "tokens_llmc.bin"}) {
    auto file = token_file::open(folder / name);
    REQUIRE(file);
    CHECK(all_of(*file) == expected);
    CHECK(file->check_vocabulary(251));
  }
}

TEST_CASE("token files: a folder or a pattern is its files, in order") {
  scratch dir;
  for (const char* name : {"b.bin", "a.bin", "sub/c.bin"}) {
    std::filesystem::create_directories((dir / name).parent_path());
    auto writer = token_file_writer::create(dir / name, 256);
    REQUIRE(writer);
    const int32_t id = std::filesystem::path(name).filename().string()[0];
    REQUIRE(writer->append(std::span(&id, 1)));
    REQUIRE(writer->finish());
  }
  const auto ids_of = [&](const std::filesystem::path& name) {
    CHECK(names_tokens(name));
    const std::vector<std::filesystem::path> names{name};
    auto files = token_files::open(names);
    REQUIRE(files);
    std::string out;
    for (uint64_t i = 0; i < files->size(); ++i) {
      int32_t id = 0;
      files->copy(i, 1, &id);
      out += static_cast<char>(id);
    }
    return out;
  };
  CHECK(ids_of(dir.path) == "abc");
  CHECK(ids_of(dir / "*.bin") == "ab");
  const std::vector<std::filesystem::path> folder{dir.path};
  // What is neither is passed over; text beside tokens is for a person to decide.
  REQUIRE(write_atomic(dir / "meta.pkl", "x"));
  CHECK(ids_of(dir.path) == "abc");
  CHECK(token_files::open(folder)->passed_over().size() == 1);
  REQUIRE(write_atomic(dir / "README.md", "about these tokens"));
  CHECK(names_tokens(dir.path));
  CHECK(is_error(token_files::open(folder), tokens_and_text, "a.bin", "README.md"));
  CHECK(token_files::open(folder, token_format::llmc)->size() == 3);
}

TEST_CASE("token files: a folder of text with a .bin that has no mark is one of text") {
  scratch dir;
  REQUIRE(write_atomic(dir / "a.bin", std::string("\1\0\2\0", 4)));
  CHECK(names_tokens(dir.path));
  REQUIRE(write_atomic(dir / "book.txt", "text"));
  CHECK_FALSE(names_tokens(dir.path));
  CHECK_FALSE(names_tokens(dir / "none"));
  CHECK(names_tokens(dir / "none.bin"));  // so the error is about tokens
}
