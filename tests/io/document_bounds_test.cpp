// Where documents begin and end in a window of tokens.
#include "io/data/document_bounds.hpp"

#include <random>
#include <vector>

#include <doctest/doctest.h>

using namespace troupe::io;

namespace {

constexpr int32_t ending = 7;

struct found {
  std::vector<int32_t> first, end;
};

found documents_in(const std::vector<int32_t>& tokens) {
  found out{std::vector<int32_t>(tokens.size(), -1), std::vector<int32_t>(tokens.size(), -1)};
  find_documents(tokens, ending, out.first.data(), out.end.data());
  return out;
}

}  // namespace

TEST_CASE("documents: one is what stands up to its end-of-text token, and that token") {
  CHECK(documents_in({}).first.empty());
  const auto none = documents_in({1, 2, 3});
  CHECK(none.first == std::vector<int32_t>{0, 0, 0});
  CHECK(none.end == std::vector<int32_t>{3, 3, 3});
  const auto two = documents_in({1, ending, 2, 3});
  CHECK(two.first == std::vector<int32_t>{0, 0, 2, 2});
  CHECK(two.end == std::vector<int32_t>{2, 2, 4, 4});
  const auto at_the_ends = documents_in({ending, 1, ending});
  CHECK(at_the_ends.first == std::vector<int32_t>{0, 1, 1});
  CHECK(at_the_ends.end == std::vector<int32_t>{1, 3, 3});
}

TEST_CASE("documents: of drawn windows each token's document is what a walk from it finds") {
  std::mt19937 drawn(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<int32_t> tokens(drawn() % 40);
    for (auto& t : tokens) t = static_cast<int32_t>(drawn() % 9);
    const auto got = documents_in(tokens);
    for (size_t i = 0; i < tokens.size(); ++i) {
      size_t first = i, end = i + 1;
      while (first > 0 && tokens[first - 1] != ending) --first;
      while (end < tokens.size() && tokens[end - 1] != ending) ++end;
      CHECK(got.first[i] == static_cast<int32_t>(first));
      CHECK(got.end[i] == static_cast<int32_t>(end));
    }
  }
}

TEST_CASE("documents: their pairs are the squares of their lengths") {
  const auto pairs = [](const std::vector<int32_t>& tokens) {
    const auto found = documents_in(tokens);
    return document_pairs(found.first, found.end);
  };
  CHECK(pairs({}) == 0);
  CHECK(pairs({1, 2, 3}) == 9);
  CHECK(pairs({1, ending, 2, 3, 4}) == 4 + 9);
  CHECK(pairs({ending, ending, 1}) == 3);
  // As many as the longest window has: more than 32 bits hold.
  const std::vector<int32_t> first(1 << 17, 0), end(1 << 17, 1 << 17);
  CHECK(document_pairs(first, end) == uint64_t{1} << 34);
}
