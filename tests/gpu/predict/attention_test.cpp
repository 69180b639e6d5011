// What the network attends to, how far that agrees with what features are worth, and how its loss
// came down.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/predict/explain.hpp"
#include "gpu/predict/fit.hpp"
#include "gpu/predict/network.hpp"
#include "gpu/predict/network_block.hpp"
#include "gpu/predict/random.hpp"
#include "tests/gpu/predict/planted.hpp"
#include "tests/io/scratch.hpp"

using namespace troupe;
using namespace troupe::gpu::predict;

namespace {

fit_options some_passes(const std::string& kind, int passes) {
  fit_options o;
  o.kind = kind;
  o.passes = passes;
  o.seed = 3;
  return o;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

network_rows rows_by_chance(int rows, int numbers, uint64_t seed) {
  network_rows out;
  out.rows = rows;
  out.numbers = numbers;
  random_numbers draw(seed);
  for (int i = 0; i < rows * numbers; ++i) {
    out.z.push_back(draw.normal());
    out.masked.push_back(0);
  }
  return out;
}

}  // namespace

TEST_CASE("what is attended to is the mean of the block's probabilities, over all rows and heads") {
  network_shape s;
  s.group_of_number = {0, 0, 0};
  s.groups = 1;
  s.width = s.hidden = 8;
  network net(s, 7);
  random_numbers draw(9);
  for (auto& w : net.parameters()) w += 0.4f * draw.normal();
  const auto rows = rows_by_chance(130, 3, 11);  // more than pass through at once
  const auto seen = net.attended(rows);
  // The same by hand: tokens z * w + b, where a number has w, b and its mask one after the other.
  rows_matrix x(rows.rows * 3, 8), out;
  for (int i = 0; i < rows.rows * 3; ++i)
    for (int c = 0; c < 8; ++c) {
      const float* w = net.parameters().data() + (i % 3) * 24;
      x(i, c) = rows.z[static_cast<size_t>(i)] * w[c] + w[8 + c];
    }
  size_t end = 3 * 24;
  const auto at = place_block(end, s);
  block_cache k;
  block_forward(s, net.parameters().data(), at, x, 3, k, out);
  REQUIRE(seen.numbers.size() == 3);
  CHECK(sum_of(seen.numbers) == doctest::Approx(1));
  for (int t = 0; t < 3; ++t) {
    const double mean = k.probabilities.col(t).cast<double>().mean();
    CHECK(seen.numbers[static_cast<size_t>(t)] == doctest::Approx(mean).epsilon(1e-6));
    CHECK(std::abs(mean - 1.0 / 3) > 1e-4);
  }
  CHECK(seen.groups == std::vector<double>{1.0});
  CHECK(seen.categories.empty());
}

TEST_CASE("FAC-2 attention is told by the network's groups, beside what the same are worth") {
  const auto t = planted_table(300, 21);
  const auto [train, test] = halves_of(t);
  predictor p(*fit_predictor(t, train, {}, some_passes("trunk+ncpp", 5)));
  const auto worth = importances_of(p, test, 1);
  const auto told = attention_of(p, test, worth, 1);
  REQUIRE(told);
  REQUIRE(told->shares.size() == 7);  // four features; cpu, memory and categories
  for (size_t i = 0; i < 4; ++i) {
    CHECK(told->shares[i].name == worth[i].name);
    CHECK(told->shares[i].points == worth[i].points);
  }
  const auto share = [&](size_t i) { return told->shares[i].share; };
  CHECK(told->shares[4].group == "cpu");
  CHECK(share(4) == doctest::Approx(share(0) + share(1)));
  CHECK(share(5) == doctest::Approx(share(2)));
  CHECK(share(6) == doctest::Approx(share(3)));
  CHECK(share(4) + share(5) + share(6) == doctest::Approx(1));
  // Memory has no category: its group is told by the number that it has elsewhere. That of cpu is
  // without the tier, which is a category: another set, and another number.
  CHECK(told->shares[5].points == worth[5].points);
  CHECK(told->shares[4].points != worth[4].points);
  CHECK(told->shares[6].points > 5);  // the tier
  REQUIRE(told->features_agree);
  REQUIRE(told->groups_agree);
  CHECK(std::abs(*told->features_agree) <= 1);
  const auto again = attention_of(p, test, worth, 1);
  for (size_t i = 0; i < told->shares.size(); ++i) {
    CHECK(again->shares[i].share == told->shares[i].share);
    CHECK(again->shares[i].points == told->shares[i].points);
  }
  for (const char* kind : {"trunk", "trunk+local", "ncpp-published"}) {
    CAPTURE(kind);
    predictor other(*fit_predictor(t, train, {}, some_passes(kind, 2)));
    CHECK_FALSE(attention_of(other, test, importances_of(other, test, 1), 1));
  }
}

TEST_CASE("rank correlation is Spearman's, and unknown of too few or of what is all alike") {
  const std::vector<double> up{1, 2, 30, 40, 50}, mixed{2, 1, 4, 3, 5}, alike{1, 1, 1, 1, 1};
  const std::vector<double> down(up.rbegin(), up.rend()), two{1, 2};
  CHECK(*rank_agreement(up, up) == doctest::Approx(1));
  CHECK(*rank_agreement(up, down) == doctest::Approx(-1));
  CHECK(*rank_agreement(up, mixed) == doctest::Approx(0.8));
  const std::vector<double> tied{1, 2, 2, 3}, order{1, 2, 3, 4};  // ranks 1, 2.5, 2.5, 4
  CHECK(*rank_agreement(tied, order) == doctest::Approx(4.5 / std::sqrt(4.5 * 5)));
  CHECK_FALSE(rank_agreement(up, alike));
  CHECK_FALSE(rank_agreement(two, two));
  CHECK_FALSE(rank_agreement(up, two));
}

TEST_CASE(
    "the learning curve of a network ends with what the network says, of rows not learned from") {
  const auto t = planted_table(300, 23);
  const auto [train, val] = halves_of(t);
  predictor p(*fit_predictor(t, train, val, some_passes("trunk+ncpp", 25)));
  const auto& n = *p.model().network;
  REQUIRE(n.curve_passes.size() == n.curve_learned.size());
  REQUIRE(n.curve_passes.size() == n.curve_held.size());
  CHECK(n.curve_passes.front() == 1);
  CHECK(n.curve_passes.back() == 25);
  CHECK(n.curve_passes.size() <= 15);
  CHECK(n.curve_learned.back() < n.curve_learned.front());
  const auto parts = p.parts(val);
  double sum = 0;
  for (size_t i = 0; i < val.size(); ++i) {
    const double left = (std::log(val[i]->labels[0]) - parts[i].trunk[0]) / p.model().scale[0];
    const double e = std::abs(parts[i].network[0] - left);
    sum += e <= 1 ? e * e / 2 : e - 0.5;
  }
  CHECK(static_cast<double>(n.curve_held.back()) ==
        doctest::Approx(sum / static_cast<double>(val.size())).epsilon(1e-3));
}

TEST_CASE("without val rows the folds' networks say how others' rows did, and it is kept") {
  const auto t = planted_table(200, 24);
  const auto m = *fit_predictor(t, rows_in(t), {}, some_passes("trunk+ncpp", 6));
  REQUIRE(m.network);
  CHECK(m.network->curve_passes == std::vector<uint32_t>{1, 2, 3, 4, 5, 6});
  REQUIRE(m.network->curve_held.size() == 6);
  for (const float loss : m.network->curve_held) CHECK(loss > 0);
  scratch dir;
  REQUIRE(io::perf::write_model(dir / "a.tpm", m));
  const auto read = io::perf::read_model(dir / "a.tpm");
  REQUIRE(read);
  CHECK(read->network->curve_held == m.network->curve_held);
  // Where no row could be held out there is none to tell of.
  const auto few = planted_table(10, 25);
  const auto small = *fit_predictor(few, rows_in(few), {}, some_passes("trunk+ncpp", 2));
  CHECK(small.network->curve_passes.size() == 2);
  CHECK(small.network->curve_held.empty());
}
