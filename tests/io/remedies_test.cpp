// The commands that refusals print do what they say: run by the Python that TROUPE_PYTHON names
// (default python3), where pandas and pyarrow are installed.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/data/document_reader.hpp"
#include "io/data/text_source.hpp"
#include "io/file.hpp"
#include "tests/errors.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::io;
namespace fs = std::filesystem;

namespace {

std::string python_of_remedies() {
  const char* named = std::getenv("TROUPE_PYTHON");
  return named != nullptr ? named : "python3";
}

/// What is between the first two backticks of the hint, with `words` in the place of what it calls
/// the files.
std::string command_in(const std::string& hint, const std::string& from, const std::string& to) {
  const auto begin = hint.find('`');
  const auto end = hint.find('`', begin + 1);
  REQUIRE(end != std::string::npos);
  auto command = hint.substr(begin + 1, end - begin - 1);
  const auto files = command.rfind("\" FILE");
  REQUIRE(files != std::string::npos);
  REQUIRE(command.starts_with("python3 "));
  command = command.substr(0, files + 1) + " '" + from + "' '" + to + "'";
  return "'" + python_of_remedies() + "'" + command.substr(std::string("python3").size());
}

}  // namespace

TEST_CASE("the commands that make records of Parquet and of CSV make them") {
  const auto has = "'" + python_of_remedies() + "' -c 'import pandas, pyarrow' 2>/dev/null";
  if (std::system(has.c_str()) != 0) {
    MESSAGE("SKIPPED: pandas or pyarrow is not installed for this python (TROUPE_PYTHON)");
    return;
  }
  const scratch dir;
  const auto table = (dir / "t.parquet").string(), sheet = (dir / "t.csv").string();
  const auto make = "'" + python_of_remedies() +
                    "' -c \"import pandas, sys; t = pandas.DataFrame({'text': ['one, two', "
                    "'three'], 'id': [1, 2]}); t.to_parquet(sys.argv[1]); t.to_csv(sys.argv[2], "
                    "index=False)\" '" +
                    table + "' '" + sheet + "'";
  REQUIRE(std::system(make.c_str()) == 0);
  for (const auto& file : {table, sheet}) {
    CAPTURE(file);
    const std::vector<fs::path> paths{file};
    const auto refused = text_source::open(paths, {});
    REQUIRE_FALSE(refused);
    const auto records = file + ".jsonl";
    REQUIRE(std::system(command_in(refused.error().hint, file, records).c_str()) == 0);
    const std::vector<fs::path> made{records};
    const auto text = text_source::open(made, {});
    REQUIRE(text);
    CHECK(text->has_records());
    CHECK(check_first_records(*text));
    const auto lines = read_file(records, 1 << 20);
    REQUIRE(lines);
    CHECK(lines->find("\"one, two\"") != std::string::npos);
    CHECK(lines->find("\"three\"") != std::string::npos);
  }
}
