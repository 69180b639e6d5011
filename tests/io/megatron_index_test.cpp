// Megatron's indexed datasets: every type, several sequences a document, indexes that lie.
#include "io/data/megatron_index.hpp"

#include <cstring>
#include <limits>

#include <doctest/doctest.h>

#include "io/data/data_files.hpp"
#include "io/file.hpp"
#include "tests/errors.hpp"
#include "tests/io/map_pages.hpp"
#include "tests/io/megatron_pair.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

std::vector<int32_t> all_of(const token_file& file) {
  std::vector<int32_t> ids(file.size());
  file.copy(0, file.size(), ids.data());
  return ids;
}

}  // namespace

TEST_CASE("Megatron: every type of whole numbers is read, by any of its names") {
  scratch dir;
  const std::vector<int32_t> wanted{1, 2, 100, 7, 0, 100};
  const auto check = [&](const megatron_pair& pair, int width) {
    pair.write(dir / "set_text_document");
    for (const char* name :
         {"set_text_document", "set_text_document.bin", "set_text_document.idx"}) {
      CAPTURE(name);
      auto file = token_file::open(dir / name);
      REQUIRE(file);
      CHECK(all_of(*file) == wanted);
      CHECK(file->token_bytes() == width);
      CHECK(file->format_name() == "megatron");
      CHECK(file->documents() == 2);
      CHECK(file->doubts().empty());
      CHECK(names_tokens(dir / name));
    }
  };
  // Two documents, of one and two sequences.
  const std::vector<std::vector<int64_t>> sequences{{1, 2, 100}, {7}, {0, 100}};
  const std::vector<int64_t> documents{0, 1, 3};
  check(megatron_pair::of<uint8_t>(1, sequences, documents), 1);
  check(megatron_pair::of<int8_t>(2, sequences, documents), 1);
  check(megatron_pair::of<int16_t>(3, sequences, documents), 2);
  check(megatron_pair::of<int32_t>(4, sequences, documents), 4);
  check(megatron_pair::of<int64_t>(5, sequences, documents), 8);
  check(megatron_pair::of<uint16_t>(8, sequences, documents), 2);
}

TEST_CASE("DFL-3 Megatron: a pattern of datasets' names is all of them, in order") {
  scratch dir;
  const auto pair = [&](const char* name, int64_t id) {
    megatron_pair::of<uint16_t>(8, {{id, id}}, {0, 1}).write(dir / name);
  };
  pair("b_text_document", 2);
  pair("a_text_document", 1);
  pair("c_other", 3);
  REQUIRE(write_atomic(dir / "d_text_document.idx", "no index"));
  const auto pattern = dir / "*_text_document";
  CHECK(names_tokens(pattern));
  const std::vector<std::filesystem::path> names{pattern};
  const auto files = token_files::open(names);
  REQUIRE_MESSAGE(files, (files ? "" : render(files.error())));
  std::vector<int32_t> ids(files->size());
  files->copy(0, ids.size(), ids.data());
  CHECK(ids == std::vector<int32_t>{1, 1, 2, 2});
  CHECK(is_error(data_files_of(dir / "*_nothing"), no_file_matches));
  // Half of a pair is told of, not passed over.
  std::filesystem::remove(dir / "a_text_document.bin");
  CHECK_FALSE(token_files::open(names));
}

TEST_CASE("Megatron: the ends of documents are looked at, and none stays in the process' memory") {
  scratch dir;
  const std::vector<std::vector<int64_t>> sequences(3, std::vector<int64_t>(40'000, 7));
  megatron_pair::of<int64_t>(5, sequences, {0, 1, 2, 3}).write(dir / "a");
  const auto file = token_file::open(dir / "a");
  REQUIRE(file);
  CHECK(map_pages_of(dir / "a.bin").maps == 1);
  CHECK(map_pages_of(dir / "a.bin").resident_bytes == 0);
}

TEST_CASE("Megatron: a negative or huge token is in no vocabulary") {
  scratch dir;
  for (int64_t wrong : {int64_t{-1}, int64_t{1} << 32, std::numeric_limits<int64_t>::min()}) {
    megatron_pair::of<int64_t>(5, {{1, wrong}}, {0, 1}).write(dir / "a");
    auto file = token_file::open(dir / "a");
    REQUIRE(file);
    CHECK_FALSE(file->check_vocabulary(std::numeric_limits<int32_t>::max()));
  }
}

TEST_CASE("MGX an index that lies is refused") {
  scratch dir;
  const auto good = megatron_pair::of<uint16_t>(8, {{1, 2}, {3}}, {0, 1, 2});
  const auto opens = [&](const megatron_pair& pair) {
    pair.write(dir / "a");
    return bool(token_file::open(dir / "a"));
  };
  CHECK(opens(good));
  const auto with = [&](size_t at, auto value) {
    auto out = good;
    REQUIRE(at + sizeof value <= out.index.size());
    std::memcpy(out.index.data() + at, &value, sizeof value);
    return out;
  };
  constexpr size_t sizes = 34, pointers = sizes + 8, documents = pointers + 16;
  CHECK_FALSE(opens(with(9, uint64_t{2})));  // version
  for (uint8_t type : {0, 6, 7, 9, 255}) CHECK_FALSE(opens(with(17, type)));
  CHECK_FALSE(opens(with(17, uint8_t{4})));  // the .bin is of another width
  for (uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{3}, ~uint64_t{0}, ~uint64_t{0} / 12}) {
    CHECK_FALSE(opens(with(18, count)));
    CHECK_FALSE(opens(with(26, count + (count == 3 ? 1 : 0))));
  }
  CHECK_FALSE(opens(with(sizes, int32_t{-1})));
  CHECK_FALSE(opens(with(sizes, int32_t{1})));
  CHECK_FALSE(opens(with(sizes + 4, int32_t{2})));
  CHECK_FALSE(opens(with(pointers, int64_t{2})));
  CHECK_FALSE(opens(with(pointers + 8, int64_t{2})));
  CHECK_FALSE(opens(with(pointers + 8, int64_t{-4})));
  CHECK_FALSE(opens(with(documents, int64_t{1})));
  CHECK_FALSE(opens(with(documents + 8, int64_t{-1})));
  CHECK_FALSE(opens(with(documents + 8, int64_t{3})));
  CHECK_FALSE(opens(with(documents + 16, int64_t{1})));
  for (size_t cut = 9; cut < good.index.size(); ++cut) {
    auto shorter = good;
    shorter.index.resize(cut);
    CHECK_FALSE(opens(shorter));
  }
  auto longer = good;
  longer.index += '\0';
  CHECK_FALSE(opens(longer));
  auto more = good;
  more.tokens += std::string(2, '\0');
  CHECK_FALSE(opens(more));
}

TEST_CASE("Megatron: documents that no token parts are doubted") {
  scratch dir;
  const auto doubts = [&](const std::vector<std::vector<int64_t>>& sequences,
                          const std::vector<int64_t>& documents) {
    megatron_pair::of<uint16_t>(8, sequences, documents).write(dir / "a");
    return token_file::open(dir / "a")->doubts().size();
  };
  CHECK(doubts({{1, 9}, {2, 9}, {3, 9}, {9}}, {0, 1, 2, 3, 4}) == 0);
  CHECK(doubts({{1, 2}, {2, 3}, {3, 4}, {4}}, {0, 1, 2, 3, 4}) == 0);  // half end in 4
  CHECK(doubts({{1, 2}, {2, 3}, {3, 4}, {5}}, {0, 1, 2, 3, 4}) == 1);
  CHECK(doubts({{1, 2}}, {0, 1}) == 0);
}
