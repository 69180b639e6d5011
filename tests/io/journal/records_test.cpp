// A journal's bytes: read as written, and any that are torn, changed or foreign.
#include "io/journal/records.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "tests/errors.hpp"
#include "tests/io/journal/decisions.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

/// A header of another version, its sum right.
std::string header_of(uint32_t version) {
  uint32_t sum = 0;
  auto out = encode_journal_header(sum);
  std::memcpy(out.data() + 8, &version, sizeof version);
  sum = crc32c(as_bytes(out).first(12));
  std::memcpy(out.data() + 12, &sum, sizeof sum);
  return out;
}

/// A journal of one record that we would not write, its sum right: its kind and payload.
std::string by_another_hand(const std::string& record) {
  uint32_t sum = 0;
  auto out = encode_journal_header(sum);
  const auto length = static_cast<uint32_t>(record.size() - 1);
  const std::string head(reinterpret_cast<const char*>(&length), sizeof length);
  const auto its = crc32c(as_bytes(record), crc32c(as_bytes(head), sum));
  return out + head + std::string(reinterpret_cast<const char*>(&its), sizeof its) + record;
}

}  // namespace

TEST_CASE("journal: its bytes are those of the grammar") {
  const auto bytes = encoded({{7, "ab"}});
  REQUIRE(bytes.size() == journal_header_bytes + record_head_bytes + 2);
  CHECK(bytes.substr(0, 12) == std::string("TRJRNL\n\0\1\0\0\0", 12));
  uint32_t header = 0, sum = 0;
  std::memcpy(&header, bytes.data() + 12, 4);
  std::memcpy(&sum, bytes.data() + 20, 4);
  CHECK(header == crc32c(as_bytes(bytes).first(12)));
  CHECK(bytes.substr(16, 4) == std::string("\2\0\0\0", 4));
  CHECK(bytes.substr(24) == "\7ab");
  CHECK(sum == crc32c(as_bytes(std::string("\2\0\0\0\7ab", 7)), header));
}

TEST_CASE("journal: an empty one, and records as they were written") {
  const auto none = parsed(encoded({}));
  REQUIRE(none);
  CHECK(none->records.empty());
  CHECK(none->whole_bytes == journal_header_bytes);
  CHECK(none->dropped_bytes == 0);
  const auto bytes = encoded(some_records());
  const auto all = parsed(bytes);
  REQUIRE(all);
  CHECK(all->records == some_records());
  CHECK(all->whole_bytes == bytes.size());
  CHECK(all->dropped_bytes == 0);
  CHECK(all->tear == journal_tear::none);
}

TEST_CASE("JRN-1 journal: torn at any byte, it is what was whole") {
  const auto all = some_records();
  const auto bytes = encoded(all);
  size_t begins = journal_header_bytes, whole = 0;
  for (size_t cut = journal_header_bytes; cut < bytes.size(); ++cut) {
    if (cut == begins + record_head_bytes + all[whole].payload.size())
      begins += record_head_bytes + all[whole++].payload.size();
    const auto read = parsed(bytes.substr(0, cut));
    REQUIRE(read);
    REQUIRE(read->records.size() == whole);
    REQUIRE(std::equal(read->records.begin(), read->records.end(), all.begin()));
    REQUIRE(read->whole_bytes == begins);
    REQUIRE(read->dropped_bytes == cut - begins);
    REQUIRE((read->tear == journal_tear::cut_short) == (cut > begins));
  }
  CHECK(whole == all.size() - 1);
}

TEST_CASE("JRN-1 journal: a bit flipped anywhere ends it before its record, and no earlier") {
  const std::vector<journal_record> all{{1, "one"}, {2, ""}, {3, "three"}, {4, "four"}};
  const auto bytes = encoded(all);
  for (size_t at = 0; at < bytes.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      CAPTURE(at);
      CAPTURE(bit);
      auto changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      const auto read = parsed(changed);
      if (at < journal_header_bytes) {
        REQUIRE(is_error(read, not_a_journal, "j"));
        continue;
      }
      size_t whole = 0, end = journal_header_bytes;
      while (end + record_head_bytes + all[whole].payload.size() <= at)
        end += record_head_bytes + all[whole++].payload.size();
      REQUIRE(read);
      REQUIRE(read->records.size() == whole);
      REQUIRE(std::equal(read->records.begin(), read->records.end(), all.begin()));
      REQUIRE(read->dropped_bytes == bytes.size() - end);
      REQUIRE(read->tear != journal_tear::none);
    }
}

TEST_CASE("journal: zeros behind it, as a power cut may leave them, are no records") {
  for (const size_t zeros : {1, 9, 100, 4096}) {
    const auto read = parsed(encoded(some_records()) + std::string(zeros, '\0'));
    REQUIRE(read);
    CHECK(read->records == some_records());
    CHECK(read->dropped_bytes == zeros);
  }
  CHECK(parsed(by_another_hand("\1a"))->records.size() == 1);
  CHECK(parsed(by_another_hand(std::string("\0a", 2)))->tear == journal_tear::damaged);
  CHECK(to_string(parsed(encoded({}) + std::string(9, '\0'))->tear) == "damaged");
  CHECK(to_string(parsed(encoded({}) + std::string(8, '\0'))->tear) == "cut_short");
}

TEST_CASE("JRN-2 journal: a record counts only behind the one that it was appended to") {
  const auto old = encoded({{1, "first"}, {1, "older"}, {1, "third"}});
  auto bytes = encoded({{1, "first"}, {1, "newer"}});
  bytes +=
      old.substr(bytes.size());  // as where a cut is lost and what was written behind it is not
  const auto read = parsed(bytes);
  CHECK(texts_of(read) == "first newer ");
  CHECK(read->tear == journal_tear::damaged);
}

TEST_CASE("journal: what is none, and what a newer version wrote") {
  for (const auto& text : {std::string(), std::string("T"), std::string("TRJRNL\n"),
                           std::string("TRMANIF\n") + std::string(40, 'x'), std::string(16, '\0'),
                           encoded({}).substr(0, 15), std::string("a person's own file")}) {
    CAPTURE(text);
    CHECK(is_error(parsed(text), not_a_journal, "j"));
    CHECK(parsed(text).error().code == errc::bad_data);
  }
  CHECK(parsed(header_of(journal_version)));
  const auto newer = parsed(header_of(journal_version + 1) + "whatever");
  CHECK(newer.error() == newer_journal("j", journal_version + 1, journal_version));
  CHECK(newer.error().code == errc::version_mismatch);
  CHECK(is_error(parsed(header_of(0)), not_a_journal, "j", 0));
}

TEST_CASE("limits: a record longer than a journal's is neither written nor read") {
  uint32_t sum = 0;
  auto bytes = encode_journal_header(sum);
  const auto before = sum;
  const std::string most(max_record_bytes, 'm'), more = most + "m";
  CHECK(encode_record(bytes, 1, as_bytes(more), sum).error() ==
        record_too_long(more.size(), max_record_bytes));
  CHECK(encode_record(bytes, 0, {}, sum).error().code == errc::bug);
  CHECK(bytes.size() == journal_header_bytes);
  CHECK(sum == before);
  REQUIRE(encode_record(bytes, 1, as_bytes(most), sum));
  REQUIRE(parsed(bytes));
  CHECK(parsed(bytes)->records.at(0).payload == most);
  const auto read = parsed(by_another_hand("\1" + more));
  REQUIRE(read);
  CHECK(read->records.empty());
  CHECK(read->tear == journal_tear::damaged);
}

TEST_CASE("journal: what a cut-off making of one may leave is known") {
  const auto header = encoded({});
  for (size_t bytes = 0; bytes <= header.size(); ++bytes)
    CHECK(begins_as_journal(as_bytes(header.substr(0, bytes))));
  CHECK(begins_as_journal(as_bytes(std::string(16, '\0'))));
  CHECK_FALSE(begins_as_journal(as_bytes("mine")));
  CHECK_FALSE(begins_as_journal(as_bytes("TRMANIF\n")));
}
