// Sources mixed by weight: shares at every prefix, every row of each source once, and one source
// that is what it were alone.
#include "io/data/source_mix.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace troupe;
using namespace troupe::io;

namespace {

using weights_of = std::vector<double>;

/// Weights as people write them, and as nobody does.
weights_of some_weights(std::mt19937& random) {
  weights_of out(1 + random() % 9);
  for (auto& w : out) {
    const auto kind = random() % 4;
    w = kind == 0   ? 1 + random() % 9
        : kind == 1 ? (1 + random() % 99) / 100.0
        : kind == 2 ? std::exp(static_cast<double>(random() % 20) - 10)
                    : 1 / (1.0 + random() % 1000);
  }
  return out;
}

std::vector<size_t> sources_of(const source_mix& mix, uint64_t first, uint64_t rows) {
  std::vector<size_t> out;
  for (uint64_t g = first; g < first + rows; ++g) out.push_back(mix.at(g).source);
  return out;
}

/// Orders of sources that have so many windows of 4 tokens, as a job has them.
mixed_order mixed_of(const std::vector<uint64_t>& windows, const weights_of& weights,
                     batch_order_spec spec) {
  std::vector<batch_order> orders;
  for (const auto n : windows) {
    spec.tokens = n * 4 + 1;
    spec.seq_len = 4;
    orders.push_back(*batch_order::make(spec));
    ++spec.seed;
  }
  return {std::move(orders), source_mix(weights)};
}

}  // namespace

TEST_CASE("SRM-1 SRM-2: after any number of rows each source has its share, to less than a row") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto weights = some_weights(random);
    INFO(fmt::format("seed {}, weights {}", seed, fmt::join(weights, " ")));
    const source_mix mix(weights);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    double shares = 0;
    for (size_t s = 0; s < weights.size(); ++s) {
      shares += mix.share(s);
      CHECK(mix.share(s) > 0);
      // A row of 65,536 that a tiny weight has at least is taken from the greatest, one for each.
      CHECK(std::abs(mix.share(s) - weights[s] / sum) * 65'536 <=
            static_cast<double>(weights.size()));
    }
    CHECK(shares == doctest::Approx(1));
    std::vector<uint64_t> had(weights.size());
    const uint64_t rows = mix.period() * 2 + 17;
    bool numbered = true;
    double furthest = 0;  // from its share
    for (uint64_t g = 0; g < rows; ++g) {
      const auto at = mix.at(g);
      REQUIRE(at.source < weights.size());
      numbered &= at.row == had[at.source]++;
      for (size_t s = 0; s < weights.size(); ++s)
        furthest = std::max(furthest, std::abs(static_cast<double>(had[s]) -
                                               mix.share(s) * static_cast<double>(g + 1)));
    }
    CHECK(numbered);
    CHECK(furthest < 1);
    for (size_t s = 0; s < weights.size(); ++s) CHECK(mix.before(s, rows) == had[s]);
  }
}

TEST_CASE("source mix: shares that are whole parts of a block are exact, others to 1 in 65,536") {
  struct {
    weights_of weights;
    uint64_t period;
  } const cases[] = {{{3}, 1},
                     {{3, 1}, 4},
                     {{0.7, 0.2, 0.1}, 10},
                     {{2, 2, 2}, 3},
                     {{1.0 / 3, 2.0 / 3}, 3},
                     {{30'000, 1}, 30'001},
                     {{1e9, 1}, 65'536},
                     {{std::sqrt(2.0), 1}, 65'536}};
  for (const auto& c : cases) {
    CAPTURE(c.weights.front());
    CHECK(source_mix(c.weights).period() == c.period);
  }
  CHECK(source_mix(weights_of{1e9, 1}).share(1) == 1.0 / 65'536);
  CHECK(source_mix(weights_of(64, 1e-300)).period() == 64);
}

TEST_CASE("SRM-3 the mix is pinned: changing it would change every run of several sources") {
  CHECK(sources_of(source_mix(weights_of{3, 1}), 0, 8) ==
        std::vector<size_t>{0, 0, 0, 1, 0, 0, 0, 1});
  CHECK(sources_of(source_mix(weights_of{0.5, 0.3, 0.2}), 0, 10) ==
        std::vector<size_t>{0, 1, 0, 2, 0, 1, 0, 1, 0, 2});
}

TEST_CASE("SRM-4: one source has the windows of a job without sources, whatever its weight") {
  for (const bool shuffle : {false, true}) {
    const auto alone = *batch_order::make({.tokens = 411,
                                           .seq_len = 4,
                                           .batch_rows = 3,
                                           .first_step = 5,
                                           .first_row = 40,
                                           .skipped = row_skips({{50, 60}}),
                                           .shuffle = shuffle,
                                           .seed = 9,
                                           .validation_fraction = 0.1});
    for (const double weight : {1.0, 0.125, 77.0}) {
      const mixed_order mixed({alone}, source_mix(weights_of{weight}));
      CHECK(mixed.train_windows() == alone.train_windows());
      CHECK(mixed.validation_windows() == alone.validation_windows());
      for (uint64_t step = 5; step < 90; ++step)
        for (uint32_t row = 0; row < 3; ++row)
          CHECK(mixed.train_window(step, row) ==
                mixed_order::window{0, alone.train_first_token(step, row)});
      for (uint64_t v = 0; v < 40; ++v)
        CHECK(mixed.validation_window(v).first_token == alone.validation_first_token(v));
    }
  }
}

TEST_CASE(
    "source mix: a run that goes on at any step, with any batch, has the rows it would have") {
  for (unsigned seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto weights = some_weights(random);
    std::vector<uint64_t> windows;
    for (size_t s = 0; s < weights.size(); ++s) windows.push_back(1 + random() % 50);
    const auto at = [&](uint32_t rows, uint64_t first_step, uint64_t first_row) {
      return mixed_of(windows, weights,
                      {.batch_rows = rows,
                       .first_step = first_step,
                       .first_row = first_row,
                       .shuffle = true,
                       .seed = seed});
    };
    const auto whole = at(1, 0, 0);
    for (int resumed = 0; resumed < 8; ++resumed) {
      const uint64_t step = random() % 300, row = random() % 3000;
      const auto batch = static_cast<uint32_t>(1 + random() % 7);
      const auto later = at(batch, step, row);
      for (uint64_t g = 0; g < 60; ++g)
        REQUIRE(later.train_window(step + g / batch, static_cast<uint32_t>(g % batch)) ==
                whole.train_window(row + g, 0));
    }
  }
}

TEST_CASE("source mix: each source goes through its own passes, one that is small repeats alone") {
  const auto mixed = mixed_of({40, 5}, {3, 1}, {.batch_rows = 4, .shuffle = true, .seed = 3});
  CHECK(mixed.train_windows() == 45);
  std::vector<std::vector<uint64_t>> seen(2);
  for (uint64_t step = 0; step < 40; ++step)
    for (uint32_t row = 0; row < 4; ++row) {
      const auto w = mixed.train_window(step, row);
      seen[w.source].push_back(w.first_token / 4);
    }
  CHECK(seen[0].size() == 120);
  CHECK(seen[1].size() == 40);
  for (size_t s = 0; s < 2; ++s) {
    const size_t windows = s == 0 ? 40 : 5;
    for (size_t pass = 0; pass < seen[s].size() / windows; ++pass) {
      std::vector<bool> once(windows);
      for (size_t i = 0; i < windows; ++i) once[seen[s][pass * windows + i]] = true;
      CHECK(once == std::vector<bool>(windows, true));
    }
  }
}

TEST_CASE("source mix: what is held out of each source is mixed as they are") {
  const auto mixed = mixed_of({40, 20}, {3, 1}, {.batch_rows = 1, .validation_fraction = 0.1});
  CHECK(mixed.validation_windows() == 4 + 2);
  std::vector<uint64_t> of(2);
  for (uint64_t v = 0; v < 16; ++v) {
    const auto w = mixed.validation_window(v);
    CHECK(w.first_token >= mixed.of(w.source).train_windows() * 4 + 1);
    CHECK(w.first_token == mixed.of(w.source).validation_first_token(of[w.source]++));
  }
  CHECK(of == std::vector<uint64_t>{12, 4});
}
