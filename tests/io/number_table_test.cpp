// Tables of numbers: what is read, and what is refused with its line.
#include <sys/mman.h>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "io/formats/number_table.hpp"

using namespace troupe;
using namespace troupe::io;

namespace {

std::string refusal(std::string_view text) {
  const auto table = parse_number_table(text);
  REQUIRE(!table);
  CHECK(table.error().is(bad_number_table));
  return table.error().message;
}

}  // namespace

TEST_CASE("number table: columns come with their names and lines") {
  const auto table = parse_number_table("# a meter's\n\nt_s, watts,b\r\n0,1.5,-2\n1e1,2.5,3\n\n\n");
  REQUIRE(table);
  CHECK(table->names == std::vector<std::string>{"t_s", "watts", "b"});
  CHECK(table->first == std::vector<double>{0, 10});
  CHECK(table->others[0] == std::vector<float>{1.5f, 2.5f});
  CHECK(table->others[1] == std::vector<float>{-2, 3});
  CHECK(table->line_of(1) == 5);
}

TEST_CASE("NTB-1 what is no number, missing or too much is refused with its line") {
  struct wrong {
    const char *text, *line, *what;
  };
  const wrong all[] = {{"", "line 1:", "no heading"},
                       {"t_s,,b\n", "line 1:", "no name"},
                       {"t_s,b,b\n", "line 1:", "two columns are \"b\""},
                       {"t_s,b\n0,1\n1,nan\n", "line 3:", "b is \"nan\""},
                       {"t_s,b\n0,inf\n", "line 2:", "b is \"inf\""},
                       {"t_s,b\n0,1e300\n", "line 2:", "b is \"1e300\""},
                       {"t_s,b\n0,\n", "line 2:", "b is \"\""},
                       {"t_s,b\n0,1 W\n", "line 2:", "b is \"1 W\""},
                       {"t_s,b\n0\n", "line 2:", "1 numbers, and the heading has 2"},
                       {"t_s,b\n0,1,2\n", "line 2:", "3 numbers, and the heading has 2"},
                       {"t_s,b\n0,1\n\n2,3\n", "line 3:", "a blank line between rows"}};
  for (const auto& w : all) {
    CAPTURE(w.text);
    const auto said = refusal(w.text);
    CAPTURE(said);
    CHECK(said.find(w.line) != said.npos);
    CHECK(said.find(w.what) != said.npos);
  }
}

TEST_CASE("NTB-2: a table beyond its bounds is refused") {
  const auto size = number_table::most_bytes + 1;
  void* nothing =
      ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(nothing != MAP_FAILED);
  CHECK(refusal({static_cast<const char*>(nothing), size}).find("bytes in all") != size_t(-1));
  ::munmap(nothing, size);
  std::string heading = "t_s";
  for (size_t i = 1; i < number_table::most_columns; ++i) heading += fmt::format(",{}", i);
  CHECK(parse_number_table(heading + "\n"));
  CHECK(refusal(heading + ",more\n").find("columns") != size_t(-1));
  number_table_options few;
  few.most_values = 4;
  CHECK(parse_number_table("a,b\n1,2\n3,4\n", few));
  CHECK(!parse_number_table("a,b\n1,2\n3,4\n5,6\n", few));
}
