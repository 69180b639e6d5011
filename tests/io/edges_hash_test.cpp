// What is seen of a change in files, and what is not.
#include "io/data/edges_hash.hpp"

#include <fstream>
#include <string>
#include <vector>

#include "tests/io/scratch.hpp"

using namespace troupe;
namespace fs = std::filesystem;

TEST_CASE("edges: lengths, beginnings and ends of files are seen, and their order") {
  const scratch here;
  const auto hash_of = [&](const std::vector<std::string>& texts) {
    std::vector<fs::path> files;
    for (const auto& text : texts) {
      files.push_back(here / ("file" + std::to_string(files.size())));
      std::ofstream(files.back()) << text;
    }
    const auto hash = io::edges_hash(files);
    REQUIRE(hash);
    return *hash;
  };
  const std::string text(200'000, 'a');
  auto begins = text, ends = text, midst = text;
  begins.front() = ends.back() = midst[100'000] = 'b';
  const auto before = hash_of({text, "x"});
  CHECK(hash_of({text, "x"}) == before);
  CHECK(hash_of({midst, "x"}) == before);
  for (const auto& other : {begins, ends, text + "a"}) CHECK(hash_of({other, "x"}) != before);
  CHECK(hash_of({"x", text}) != before);
  CHECK(hash_of({text}) != before);
  CHECK(hash_of({text, ""}) != before);
  const std::vector<fs::path> absent{here / "absent"};
  CHECK_FALSE(io::edges_hash(absent));
}
