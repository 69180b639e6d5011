// What tests of cuts between words share: texts by chance, and the ids of a text part by part.
#pragma once

#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "io/tokenizer/text_cuts.hpp"
#include "io/tokenizer/tokenizer.hpp"

namespace troupe::io {

/// Words, runs of spaces, spaces that are written out ("▁"), line ends, what is in no vocabulary,
/// marks that join what is before them, and what looks like an added token.
inline std::string words_text(std::mt19937& rng) {
  constexpr const char* bits[] = {" ",
                                  " ",
                                  " ",
                                  " ",
                                  "  ",
                                  "\n",
                                  "\n",
                                  "\n",
                                  "\n\n",
                                  "the",
                                  "player",
                                  "play",
                                  "pl",
                                  "ayer",
                                  "er",
                                  "th",
                                  "e",
                                  "a",
                                  "s",
                                  "s.",
                                  "7",
                                  "77",
                                  ".",
                                  "\xe2\x96\x81",
                                  "\xe8\x88\x9e",
                                  "e\xcc\x81",
                                  "\xcc\x81",
                                  "\xd0\xaf",
                                  "\xc2\xa0",
                                  "\t",
                                  "\xe3\x80\x80",
                                  "</s>",
                                  "<s>",
                                  "<",
                                  ">",
                                  "\xf0\x9f\x8e\xad"};
  std::string text;
  for (size_t n = 1 + rng() % 14; n > 0; --n) text += bits[rng() % std::size(bits)];
  return text;
}

/// The ids of a text, cut at each place that `how` offers; how many those were is added to `cuts`.
inline std::vector<int32_t> ids_of_parts(const tokenizer& by, std::string_view text, text_cuts how,
                                         size_t& cuts) {
  std::vector<int32_t> out;
  for (bool first = true; !text.empty(); first = false) {
    const auto cut = next_cut(text, 1, how);
    const auto part = text.substr(0, cut.value_or(text.size()));
    const auto ids = first ? by.encode(part) : by.encode_rest(part);
    REQUIRE(ids);
    out.insert(out.end(), ids->begin(), ids->end());
    text.remove_prefix(part.size());
    cuts += cut ? 1 : 0;
  }
  return out;
}

}  // namespace troupe::io
