// Extra rows: which rows of a file they are, and which of them a split lets be learned from.
#include "io/perf/extra.hpp"

#include <cmath>
#include <fstream>

#include <doctest/doctest.h>

#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io::perf;

namespace {

/// Lines of SPEC's dump: a processor and the end of an id each.
std::string dump_of(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string out =
      "Benchmark,Hardware Vendor,Base Result,# Cores,# Chips,Processor MHz,Processor,"
      "# Enabled Threads Per Core,Base Pointer Size,1st Level Cache,2nd Level Cache,"
      "3rd Level Cache,Memory,Operating System,File System,Compiler,Disclosure\n";
  for (const auto& [processor, id] : rows)
    out += "CINT2017rate,Dell,100,16,2,2600," + processor +
           ",2,64-bit,32 KB I + 48 KB D on chip per core,2 MB I+D on chip per core,"
           "30 MB I+D on chip per chip,\"512 GB (16 x 32 GB 2Rx8 PC5-4800B-R)\",SUSE 15 SP4,xfs,"
           "Version 2023.0 of Intel,http://x/cpu2017-20230418-" +
           id + ".html\n";
  return out;
}

perf_row row_of(const std::string& id, const std::string& cpu_model) {
  perf_row r;
  r.id = id;
  r.cpu_model = cpu_model;
  return r;
}

std::string ids_of(const std::vector<const perf_row*>& rows) {
  std::string out;
  for (const auto* r : rows) out += r->id;
  return out;
}

}  // namespace

TEST_CASE("XTR-1 extra rows of SPEC's dump are those of other Xeons, in the set's own columns") {
  scratch dir;
  std::ofstream(dir / "d.csv") << dump_of({{"Intel Xeon Gold 6430", "1"},
                                           {"Intel Xeon Gold 6330", "2"},
                                           {"AMD EPYC 9654", "3"},
                                           {"Intel Xeon Bronze 3206R", "4"}});
  const auto made = read_extra(dir / "d.csv", dir.path, "spr_CINT2017rate",
                               [](std::string_view id) { return !id.ends_with("4"); });
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  REQUIRE(made->rows.size() == 2);
  CHECK(made->rows[0].cpu_model == "Intel Xeon Gold 6330");
  CHECK(made->rows[0].weight == extra_weight);
  CHECK(made->rows[0].labels[0] == 100);
  CHECK(std::isnan(made->rows[1].labels[0]));  // not wanted, not read
  const auto own =
      read_spr(*read_csv(dir / "d.csv"), "spr_CINT2017rate", [](std::string_view) { return true; });
  REQUIRE(own);
  CHECK(own->rows.size() == 1);
  CHECK(own->rows[0].weight == 1);
  CHECK(same_columns(*own, *made));
}

TEST_CASE("XTR-1 an id of the split, whichever its part, is no extra row's") {
  perf_table extra{"x", {}, {}, {row_of("a", "X"), row_of("b", "X"), row_of("c", "X")}};
  const auto train = row_of("a", "P"), val = row_of("b", "P"), test = row_of("c", "P"),
             other = row_of("t", "P");
  CHECK(ids_of(extra_rows(extra, {&train}, {}, {&other})) == "bc");
  CHECK(ids_of(extra_rows(extra, {&other}, {&val}, {})) == "ac");
  CHECK(ids_of(extra_rows(extra, {&other}, {}, {&test})) == "ab");
}

TEST_CASE("XTR-2 of a split grouped by CPU model the held models are no extra row's either") {
  perf_table extra{"x", {}, {}, {row_of("a", "P"), row_of("b", "Q"), row_of("c", "R")}};
  const auto train = row_of("t", "P"), val = row_of("v", "Q"), test = row_of("u", "R"),
             known = row_of("k", "P");
  CHECK(ids_of(extra_rows(extra, {&train}, {&val}, {&test})) == "a");
  CHECK(ids_of(extra_rows(extra, {&train}, {}, {&test, &known})) == "abc");  // not grouped
}

TEST_CASE("XTR-1 a set whose ids are places in its own file takes no extra rows") {
  scratch dir;
  std::ofstream(dir / "d.csv") << "a\n1\n";
  const auto made =
      read_extra(dir / "d.csv", dir.path, "vtrain_single", [](std::string_view) { return true; });
  REQUIRE_FALSE(made);
  CHECK(made.error().is(no_extra));
}
